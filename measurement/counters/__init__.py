"""The counters of the GPU for one launch of a kernel, by ncu."""
