"""Kernels timed against each other and against cuBLAS on one GPU."""
