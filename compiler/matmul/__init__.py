"""`lt.matmul`: products of GPU arrays in any layout, by kernels that are kept by schedule."""
