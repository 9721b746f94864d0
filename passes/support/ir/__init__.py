"""Building and rewriting IR."""
