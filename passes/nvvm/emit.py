"""Integer code at the insertion point: constants, sums that fold, layouts and swizzles of a run-time index.

Everything inside a tile is i32; only global addresses are i64.
"""

from dataclasses import dataclass, field

import numpy as np
from mlir import ir
from mlir.dialects import arith
from numpy.typing import NDArray
from tensor_layouts import Layout, flatten

from lowtide.dialects.tile.layouts import SwizzleBits, swizzle_offset
from lowtide.targets.tv import offsets as evaluate


@dataclass
class Emitter:
    """Makes i32 arithmetic. Constants stand once, at the start of the function."""

    entry: ir.Block
    _constants: dict[tuple[str, int], ir.Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.i32 = ir.IntegerType.get_signless(32)
        self.i64 = ir.IntegerType.get_signless(64)
        self.byte = ir.IntegerType.get_signless(8)

    def constant(self, value: int, type_: ir.Type | None = None) -> ir.Value:
        type_ = type_ or self.i32
        key = (str(type_), value)
        if key not in self._constants:
            with ir.InsertionPoint.at_block_begin(self.entry):
                self._constants[key] = arith.ConstantOp(type_, value).result
        return self._constants[key]

    def add(self, x: ir.Value, y: ir.Value | int) -> ir.Value:
        if isinstance(y, int):
            return x if y == 0 else arith.AddIOp(x, self.constant(y)).result
        return arith.AddIOp(x, y).result

    def mul(self, x: ir.Value, y: int) -> ir.Value:
        if y == 1:
            return x
        if y > 0 and y & (y - 1) == 0:
            return arith.ShLIOp(x, self.constant(y.bit_length() - 1)).result
        return arith.MulIOp(x, self.constant(y)).result

    def div(self, x: ir.Value, y: int) -> ir.Value:
        if y == 1:
            return x
        if y & (y - 1) == 0:
            return arith.ShRUIOp(x, self.constant(y.bit_length() - 1)).result
        return arith.DivUIOp(x, self.constant(y)).result

    def mod(self, x: ir.Value, y: int) -> ir.Value:
        if y & (y - 1) == 0:
            return arith.AndIOp(x, self.constant(y - 1)).result
        return arith.RemUIOp(x, self.constant(y)).result

    def xor(self, x: ir.Value, y: ir.Value | int) -> ir.Value:
        if isinstance(y, int):
            return x if y == 0 else arith.XOrIOp(x, self.constant(y)).result
        return arith.XOrIOp(x, y).result

    def less(self, x: ir.Value, y: ir.Value | int) -> ir.Value:
        """x < y, both taken as unsigned: a window that starts past 2³¹ is past every edge."""
        bound = self.constant(y) if isinstance(y, int) else y
        return arith.CmpIOp(arith.CmpIPredicate.ult, x, bound).result

    def select(self, condition: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
        return arith.SelectOp(condition, x, y).result

    def layout(self, layout: Layout, index: ir.Value) -> ir.Value | None:
        """`layout(index)` for an index below the layout's size; None where it is always zero."""
        flat = flatten(layout)
        shapes = (flat.shape,) if isinstance(flat.shape, int) else flat.shape
        strides = (flat.stride,) if isinstance(flat.stride, int) else flat.stride
        total: ir.Value | None = None
        divisor = 1
        last = max((i for i, (s, d) in enumerate(zip(shapes, strides, strict=True)) if s > 1), default=-1)
        for position, (extent, stride) in enumerate(zip(shapes, strides, strict=True)):
            if extent > 1 and stride:
                term = self.div(index, divisor)
                if position != last:
                    term = self.mod(term, extent)
                term = self.mul(term, stride)
                total = term if total is None else self.add(total, term)
            divisor *= extent
        return total

    def swizzle(self, x: ir.Value, swizzle: SwizzleBits) -> ir.Value:
        """Swizzled element offset: x ^ ((x >> S) & mask)."""
        bits, base, shift = swizzle
        if bits == 0:
            return x
        mask = ((1 << bits) - 1) << base
        shifted = arith.ShRUIOp(x, self.constant(shift)).result
        return self.xor(x, arith.AndIOp(shifted, self.constant(mask)).result)


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
    def of(cls, emit: Emitter, layout: Layout, threads: int, tid: ir.Value, swizzle: SwizzleBits) -> "ThreadOffset":
        """From the thread's part of an access: element offset as a layout of the thread index."""
        plain = emit.layout(layout, tid)
        if plain is None:
            zero = emit.constant(0)
            return cls(zero, zero, 0, 0, swizzle)
        values: NDArray[np.int64] = evaluate(layout, np.arange(threads))
        moved = swizzle_offset(values, swizzle)
        return cls(
            plain,
            emit.swizzle(plain, swizzle),
            int(np.bitwise_or.reduce(values)),
            int(np.bitwise_or.reduce(moved)),
            swizzle,
        )

    def at(self, emit: Emitter, value_offset: int) -> tuple[ir.Value, int]:
        """The offset of one value, as a run-time part and a constant to add to it.

        Where thread and value set different bits the swizzle of the sum is the xor of the swizzles, so one run-time
        part serves many values; the constant folds into the instruction's address.
        """
        bits, base, shift = self.swizzle
        span = 1 << (bits + base + shift)
        low = value_offset % span
        high = value_offset - low
        if self.bits_plain & low:
            return emit.swizzle(emit.add(self.plain, value_offset), self.swizzle), 0
        moved = int(swizzle_offset(np.array([low]), self.swizzle)[0])
        shared = moved & self.bits_swizzled
        return emit.xor(self.swizzled, shared), high + (moved - shared)
