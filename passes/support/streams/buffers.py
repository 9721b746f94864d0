"""Types of buffers in shared memory."""

from mlir import ir
from tensor_layouts import Layout, flatten, mode

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
    layout, _ = layout_of(memref.layout)
    return memref.shape[0] != 1 and _step(layout, 0) == 1 and _step(layout, 1) != 1


def _step(layout: Layout, dim: int) -> int:
    """Elements from the first index along a dimension, which may be nested, to the second."""
    stride = flatten(mode(layout, dim)).stride
    return stride if isinstance(stride, int) else stride[0]
