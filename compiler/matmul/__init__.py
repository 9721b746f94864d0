"""`lt.matmul`: products of GPU arrays in any layout. Each class of shapes has a kernel, compiled at its first use."""
