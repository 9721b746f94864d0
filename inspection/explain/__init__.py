"""The use of the hardware by a kernel, in words and numbers: `lowtide explain`."""
