"""What a kernel does with its hardware, in words and numbers: `lowtide explain`."""
