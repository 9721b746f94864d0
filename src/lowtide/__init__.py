"""Lowtide: a GEMM compiler on upstream MLIR."""
