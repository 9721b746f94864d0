"""Counts the instructions of a cubin's kernels, without a disassembler."""

from lowtide.errors import CompileError
from lowtide.runtime.code import sections

INSTRUCTION_BYTES = 16  # since Volta


def instruction_count(cubin: bytes, kernel: str = "") -> int:
    """Instructions of all kernels whose names begin so, the padding after the last branch among them. Raises
    CompileError for no cubin."""
    try:
        own = f".text.{kernel}".encode()
        total = sum(section.size for section in sections(cubin) if section.name.startswith(own))
    except ValueError as error:
        raise CompileError(f"{error}; assemble the PTX again [cubin-read]") from None
    return total // INSTRUCTION_BYTES
