"""Elements of types in IR: bits, names, and the bytes of a buffer."""

from math import prod

from mlir import ir
from tensor_layouts import cosize

from lowtide.dialects import tile
from lowtide.dialects.tile.layouts import layout_of
from lowtide.elements import ELEMENTS, element_of_ir
from lowtide.errors import ScheduleError

# The type that replaces 8-bit floats in one thread's program, since LLVM lacks them.
HELD_BYTE = "i8"


def element_bits(element: ir.Type) -> int:
    """Bits of an element. Raises ScheduleError for an unsupported type."""
    if str(element) == HELD_BYTE:
        return 8
    row = element_of_ir(element)
    if row is None or not row.in_kernels:
        known = ", ".join(row.name for row in ELEMENTS.values() if row.in_kernels)
        raise ScheduleError(f"elements of {element}: they are one of {known} [element-known]")
    return row.bits


def element_name(element: ir.Type) -> str:
    """Lowtide's name of an element type; for a type without a row in the table, its text in IR."""
    return str(element_of_ir(element) or element)


def buffer_bytes(buffer: ir.Type) -> int:
    """Bytes of a memref of static shape, with the gaps between its rows. Raises ScheduleError as `element_bits`."""
    memref = ir.MemRefType(buffer)
    elements = prod(memref.shape)
    if isinstance(memref.layout, tile.LayoutAttr):
        elements = max(elements, cosize(layout_of(memref.layout)[0]))
    return elements * element_bits(memref.element_type) // 8
