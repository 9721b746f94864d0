"""Copies, loads and stores: of threads, of warps (ldmatrix, stmatrix), by TMA."""
