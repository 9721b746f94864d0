"""Operands of wgmma in shared memory, and their matrix descriptors (PTX ISA, "Matrix Descriptor Format")."""

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import llvm

from lowtide.dialects import sm
from lowtide.dialects.tile import GemmLayout
from lowtide.errors import ScheduleError
from lowtide.passes.base import Refusal
from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.nvvm.thread.memory import element_pointer
from lowtide.passes.support.agents.atoms import is_transposed
from lowtide.passes.support.streams.panels import Panels
from lowtide.targets.atoms import WARPGROUP_THREADS

# Addresses and offsets count units of 16 bytes, and have 18 bits.
_ADDRESS_MASK = 0x3FFFF
_UNIT_BITS = 4
_SWIZZLE_MODES = {128: 1, 64: 2, 32: 3}  # by the bytes of a row; bits 62 and 63
_ROWS_A_PERIOD = 8  # rows of a panel after which its swizzle repeats


@dataclass(frozen=True)
class WgmmaOperand:
    """A or B in shared memory: where it starts, how it lies; transposed where its rows are those of K."""

    start: ir.Value
    panels: Panels
    is_transposed: bool

    @classmethod
    def of(cls, context: Context, op: sm.WgmmaOp | sm.WgmmaPromoteOp, name: str, layout: GemmLayout) -> "WgmmaOperand":
        buffer = context.buffer(op.a if name == "a" else op.b)
        try:
            panels = Panels.of(buffer.type)
        except ScheduleError as error:
            raise Refusal(op, f"operand {name.upper()}: {error}") from error
        base = (16 // panels.element_bytes).bit_length() - 1
        if panels.span not in _SWIZZLE_MODES or panels.row_bytes != panels.span or panels.swizzle[1:] != (base, 3):
            raise Refusal(
                op,
                f"operand {name.upper()} lies in rows of {panels.row_bytes} bytes with swizzle<"
                f"{','.join(map(str, panels.swizzle))}>; wgmma reads rows of 128, 64 or 32 bytes with "
                f"swizzle<3,{base},3>, <2,{base},3> or <1,{base},3> [descriptor-swizzle]",
            )
        return cls(buffer.pointer, panels, is_transposed(name, layout))

    @property
    def depth(self) -> int:
        """K of the stage."""
        return self.panels.rows if self.is_transposed else self.panels.columns

    def offset(self, row: int, depth: int) -> int:
        """Bytes from the start to an element of A (M, K) or B (N, K), both multiples of the extents of a wgmma.

        Along M or N the element is at the start of a panel, or at a multiple of 8 rows. Along K it may also be within a
        swizzled row: adding to the start address is enough there, since the hardware swizzles address bits.
        """
        return self.panels.offset(depth, row) if self.is_transposed else self.panels.offset(row, depth)

    def advanced(self, context: Context, rows: int) -> ir.Value:
        """The start for this warpgroup: each starts `rows` rows of M after the one before it."""
        build, number = context.build, context.warpgroup
        if number is None:
            number = build.udiv(context.tid, WARPGROUP_THREADS)
        return element_pointer(self.start, build.mul(number, self.offset(rows, 0)), build.i8)

    def descriptor(self, context: Context, start: ir.Value) -> ir.Value:
        """The matrix descriptor for a start address (PTX ISA, "Strides").

        Stride offset: from 8 rows of a panel to the next 8. Leading offset: from a panel to the next where M or N is
        contiguous; with K contiguous a wgmma stays within a panel, and the field is unused.
        """
        build = context.build
        address = llvm.PtrToIntOp(build.i32, start).result
        if context.cluster.size > 1:  # the rank of the CTA stands in the bits above
            address = build.and_(address, _ADDRESS_MASK)
        units = build.zext(build.lshr(address, _UNIT_BITS), build.i64)
        stride = _ROWS_A_PERIOD * self.panels.row_bytes >> _UNIT_BITS
        leading = self.panels.panel_bytes >> _UNIT_BITS if self.is_transposed else 1
        bits = _SWIZZLE_MODES[self.panels.span] << 62 | stride << 32 | leading << 16
        return build.or_(units, bits)


def moved(context: Context, descriptor: ir.Value, offset: int) -> ir.Value:
    """The descriptor moved by `offset` bytes."""
    return context.build.add(descriptor, offset >> _UNIT_BITS)
