"""`lowtide reduce`: shrinks a dump that fails, while it fails in the same way."""
