"""IR as plain Python data, decoded once before it runs."""
