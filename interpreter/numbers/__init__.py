"""Numbers in place of bits: the domains, memory cells that hold them, and registers that pack two."""
