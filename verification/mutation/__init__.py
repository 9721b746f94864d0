"""Faults planted in the IR of right kernels, and what finds them: `lowtide mutate`."""
