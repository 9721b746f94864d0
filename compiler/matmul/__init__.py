"""`lt.matmul`: products of GPU arrays in any layout. Shapes with the same schedule share a kernel."""
