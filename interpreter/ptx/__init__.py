"""PTX: its text, parsed; a table of what its instructions mean, by the PTX ISA; and its kernels as programs."""
