"""Types of buffers in shared memory."""

from mlir import ir
from tensor_layouts import Layout, mode

from lowtide.dialects.tile import LayoutAttr
from lowtide.dialects.tile.layouts import NO_SWIZZLE, SwizzleBits, layout_attr, layout_of


def buffer_type(
    shape: tuple[int, int], element: ir.Type, layout: Layout, swizzle: SwizzleBits = NO_SWIZZLE
) -> ir.MemRefType:
    """A memref in shared memory with layout `layout`, then swizzled."""
    space = ir.Attribute.parse("#gpu.address_space<workgroup>")
    return ir.MemRefType.get(shape, element, layout_attr(layout, swizzle), space)


def is_shared(type_: ir.Type) -> bool:
    """Whether a memref lies in shared memory."""
    return ir.MemRefType(type_).memory_space is not None


def is_transposed_buffer(buffer: ir.Type) -> bool:
    """Whether a buffer is contiguous along its rows, not along its columns."""
    memref = ir.MemRefType(buffer)
    if not isinstance(memref.layout, LayoutAttr):
        return False
    rows, columns = (mode(layout_of(memref.layout)[0], dim) for dim in (0, 1))
    return bool(rows.shape != 1 and rows.stride == 1 and columns.stride != 1)
