"""`lt.matmul`: products of GPU arrays as they lie, each class of shapes by a kernel compiled when first needed."""
