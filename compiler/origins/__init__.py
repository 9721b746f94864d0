"""Origins: the op of the step before that an op replaces or serves."""
