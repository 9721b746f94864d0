"""Layout attributes as `tensor_layouts` layouts, and back.

`#tile.layout`, `#tile.tv` and `#tile.swizzle` are the IR form of layouts that `tensor_layouts` computes with.
"""

from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from tensor_layouts import Layout, mode

from lowtide.dialects._lowtide import LayoutAttr, SwizzleAttr, ThreadValueAttr

SwizzleBits: TypeAlias = tuple[int, int, int]

NO_SWIZZLE: SwizzleBits = (0, 3, 3)


def layout_attr(layout: Layout, swizzle: SwizzleBits = NO_SWIZZLE) -> LayoutAttr:
    """`#tile.layout`; a swizzle of no bits is left out."""
    return LayoutAttr.get(layout.shape, layout.stride, swizzle_attr(swizzle))


def swizzle_attr(swizzle: SwizzleBits) -> SwizzleAttr | None:
    """`#tile.swizzle`; None for a swizzle of no bits."""
    return SwizzleAttr.get(*swizzle) if swizzle[0] else None


def layout_of(attribute: LayoutAttr) -> tuple[Layout, SwizzleBits]:
    """The layout without its swizzle, and the swizzle's (B, M, S)."""
    swizzle = attribute.swizzle
    bits = swizzle_bits(swizzle) if swizzle is not None else NO_SWIZZLE
    return _layout(attribute.shape, attribute.stride), bits


def swizzle_bits(attribute: SwizzleAttr) -> SwizzleBits:
    return attribute.bits, attribute.base, attribute.shift


def swizzle_offset(offset: NDArray[np.int64], swizzle: SwizzleBits) -> NDArray[np.int64]:
    """Element offsets permuted by swizzle<B, M, S>: bits [M, M+B) xor bits [M+S, M+S+B)."""
    bits, base, shift = swizzle
    return offset ^ ((offset >> shift) & (((1 << bits) - 1) << base))


def tv_attr(tv: Layout) -> ThreadValueAttr:
    """`#tile.tv` of a layout with the two top modes (thread, value)."""
    threads, values = mode(tv, 0), mode(tv, 1)
    return ThreadValueAttr.get(threads.shape, threads.stride, values.shape, values.stride)


def tv_of(attribute: ThreadValueAttr) -> Layout:
    """The layout (thread, value) -> column-major index in the tile."""
    threads = _layout(attribute.thread_shape, attribute.thread_stride)
    return _layout(threads, _layout(attribute.value_shape, attribute.value_stride))


@lru_cache(maxsize=1024)  # a kernel has many ops, but few layouts
def _layout(shape: Any, stride: Any) -> Layout:
    return Layout(shape, stride)
