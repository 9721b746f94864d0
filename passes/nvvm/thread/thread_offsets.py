"""Offsets of a thread's elements: layouts and swizzles of a run-time index.

Everything inside a tile is i32; only global addresses are i64.
"""

from dataclasses import dataclass

import numpy as np
from mlir import ir
from numpy.typing import NDArray
from tensor_layouts import Layout

from lowtide.dialects.tile.layouts import SwizzleBits, swizzle_offset
from lowtide.passes.support.ir.builder import Builder
from lowtide.targets.tv import flat_modes
from lowtide.targets.tv import offsets as evaluate


def layout_offset(build: Builder, layout: Layout, index: ir.Value) -> ir.Value:
    """`layout(index)` for an index below the layout's size."""
    modes = flat_modes(layout)
    total = build.constant(0)
    divisor = 1
    last = max((i for i, (extent, _) in enumerate(modes) if extent > 1), default=-1)
    for position, (extent, stride) in enumerate(modes):
        if extent > 1 and stride:
            coordinate = build.udiv(index, divisor)
            if position != last:
                coordinate = build.urem(coordinate, extent)
            total = build.add(total, build.mul(coordinate, stride))
        divisor *= extent
    return total


def swizzled(build: Builder, x: ir.Value, swizzle: SwizzleBits) -> ir.Value:
    """Swizzled element offset: x ^ ((x >> S) & mask)."""
    bits, base, shift = swizzle
    if bits == 0:
        return x
    mask = ((1 << bits) - 1) << base
    return build.xor(x, build.and_(build.lshr(x, shift), mask))


@dataclass(frozen=True)
class ThreadOffset:
    """A swizzled element offset that is a function of the thread plus one of the value.

    `bits` has every bit that any thread's offset may set, before and after the swizzle.
    """

    plain: ir.Value
    swizzled: ir.Value
    bits_plain: int
    bits_swizzled: int
    swizzle: SwizzleBits

    @classmethod
    def of(cls, build: Builder, layout: Layout, threads: int, tid: ir.Value, swizzle: SwizzleBits) -> "ThreadOffset":
        """From the thread's part of an access: element offset as a layout of the thread index."""
        plain = layout_offset(build, layout, tid)
        values: NDArray[np.int64] = evaluate(layout, np.arange(threads))
        return cls(
            plain,
            swizzled(build, plain, swizzle),
            int(np.bitwise_or.reduce(values)),
            int(np.bitwise_or.reduce(swizzle_offset(values, swizzle))),
            swizzle,
        )

    def at(self, build: Builder, value_offset: int) -> tuple[ir.Value, int]:
        """The offset of one value, as a run-time part and a constant to add to it.

        Where thread and value set different bits the swizzle of the sum is the xor of the swizzles, so one run-time
        part serves many values; the constant folds into the instruction's address.
        """
        bits, base, shift = self.swizzle
        span = 1 << (bits + base + shift)
        low = value_offset % span
        high = value_offset - low
        if self.bits_plain & low:
            return swizzled(build, build.add(self.plain, value_offset), self.swizzle), 0
        moved = int(swizzle_offset(np.array([low]), self.swizzle)[0])
        shared = moved & self.bits_swizzled
        return build.xor(self.swizzled, shared), high + (moved - shared)
