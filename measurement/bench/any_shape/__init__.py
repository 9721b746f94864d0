"""Shapes that are drawn anew: their kernels, races, statistics, and the lines that must hold."""
