"""What a K step reads: boxes of data in stages, copies, fragments, and conversions on the way."""
