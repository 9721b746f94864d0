"""Lists of matrices: batches whose matrices lie anywhere in memory, each with its own extents.

    memref<8x?x512xbf16, strided<[?, ?, 1]>, "list">

The base of such a memref is the address of a table in memory. It has a row of 64-bit integers for each matrix: its
address, its rows, its columns, and the elements from row to row. If the type gives an extent, all matrices have
it; otherwise the extent of the memref is the most that a matrix has. The strides of the type have no meaning. A window
of a list is like that of a batch, `tile.view %b[%group, %n, %k]`. It is clipped at the edges of its own matrix, and at
the extents of the list: the rows up to the end of a group are a view of the list (`memref.subview`).
"""

from enum import IntEnum

from mlir import ir

SPACE = "list"  # the memory space of these memrefs


class Entry(IntEnum):
    """The integers in a row of the table."""

    address = 0
    rows = 1
    columns = 2
    row_stride = 3


ENTRY_BYTES = 8


def is_list(type_: ir.Type) -> bool:
    """Whether a type is a list of matrices."""
    if not isinstance(type_, ir.MemRefType):
        return False
    space = type_.memory_space
    return isinstance(space, ir.StringAttr) and space.value == SPACE


def list_of(type_: ir.MemRefType) -> ir.MemRefType:
    """The type of a list, from that of a batch of such matrices."""
    return ir.MemRefType.get(type_.shape, type_.element_type, type_.layout, ir.StringAttr.get(SPACE))
