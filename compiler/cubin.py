"""What a cubin says without a disassembler: how many instructions its kernels have."""

import struct

from lowtide.errors import CompileError

INSTRUCTION_BYTES = 16  # since Volta
_HEADER_BYTES, _SECTION_BYTES = 64, 64  # of a 64-bit ELF file (System V ABI, "ELF Header", "Sections")


def instruction_count(cubin: bytes) -> int:
    """Instructions of all kernels, the padding after the last branch among them. Raises CompileError for no cubin."""
    if len(cubin) < _HEADER_BYTES or cubin[:5] != b"\x7fELF\x02":
        raise CompileError("the machine code is no 64-bit ELF file; assemble the PTX again")
    (table,) = struct.unpack_from("<Q", cubin, 40)
    entry_bytes, count, names_index = struct.unpack_from("<HHH", cubin, 58)
    if entry_bytes != _SECTION_BYTES or table + count * _SECTION_BYTES > len(cubin):
        raise CompileError("the machine code's section table is cut off; assemble the PTX again")
    # Of each section: where its name starts, and its bytes' place and number.
    places = [struct.unpack_from("<I20xQQ", cubin, table + i * _SECTION_BYTES) for i in range(count)]
    names = places[names_index][1]
    total = sum(size for name, _, size in places if cubin.startswith(b".text.", names + name))
    return int(total) // INSTRUCTION_BYTES
