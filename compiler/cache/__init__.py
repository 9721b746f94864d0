"""Compiled kernels on disk, shared by processes: `lt.compile_gemm` looks here first.

Finding a kernel needs no MLIR; only `precompile` imports it.
"""
