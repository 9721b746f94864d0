"""Launches that prepare a matrix: copy its rows, split it into pieces, transpose it."""
