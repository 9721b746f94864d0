"""Fault injection into the IR of right kernels, and detection of the faults: `lowtide mutate`."""
