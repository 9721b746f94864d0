"""One thread's program: what ops are lowered to and share, registers, memory, control flow, arithmetic."""
