"""The data that a K step reads: boxes in stages, copies, fragments, and conversions on the way."""
