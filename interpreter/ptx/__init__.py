"""PTX: its parsed text; a table of the semantics of instructions by the PTX ISA; and its kernels as programs."""
