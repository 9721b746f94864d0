"""What a complete schedule must satisfy: one file for each part of a schedule."""
