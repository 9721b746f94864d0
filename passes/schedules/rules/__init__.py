"""The rules of complete schedules: one file for each part of a schedule."""
