"""Numbers in place of bits: the domains, memory cells that hold them, registers that pack two."""
