"""Counts the instructions of a cubin's kernels, without a disassembler."""

from lowtide.errors import CompileError
from lowtide.runtime.code import sections

INSTRUCTION_BYTES = 16  # since Volta


def instruction_count(cubin: bytes, kernel: str = "") -> int:
    """The number of instructions of all kernels whose names begin with `kernel`, including the padding after the last
    branch. Raises CompileError if this is no cubin."""
    try:
        own = f".text.{kernel}".encode()
        total = sum(section.size for section in sections(cubin) if section.name.startswith(own))
    except ValueError as error:
        raise CompileError(f"{error}; assemble the PTX again [cubin-read]") from None
    return total // INSTRUCTION_BYTES
