"""Compiled kernels kept on disk, shared by processes: `lt.compile_gemm` looks here first.

Finding a kernel needs no MLIR; `precompile`, which compiles, does.
"""
