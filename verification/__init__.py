"""Judges kernels: checks of every level, planted faults, random cases, and smaller files that fail in the same way."""
