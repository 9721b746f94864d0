"""Types of buffers in shared memory."""

from mlir import ir
from tensor_layouts import Layout

from lowtide.dialects.tile.layouts import NO_SWIZZLE, SwizzleBits, layout_attr


def buffer_type(
    shape: tuple[int, int], element: ir.Type, layout: Layout, swizzle: SwizzleBits = NO_SWIZZLE
) -> ir.MemRefType:
    """A memref in shared memory with layout `layout`, then swizzled."""
    space = ir.Attribute.parse("#gpu.address_space<workgroup>")
    return ir.MemRefType.get(shape, element, layout_attr(layout, swizzle), space)
