"""Lowering of wgmma to one thread's program."""

from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import arith, llvm, nvvm, vector

from lowtide.dialects import sm
from lowtide.dialects.enums import gemm_layout
from lowtide.dialects.tile import GemmLayout
from lowtide.dialects.tile.layouts import tv_of
from lowtide.elements import element_type
from lowtide.errors import ScheduleError
from lowtide.passes.base import Refusal
from lowtide.passes.nvvm.attributes import enum_attribute, mma_shape
from lowtide.passes.nvvm.context import Context
from lowtide.passes.nvvm.memory import element_pointer
from lowtide.passes.nvvm.values import Fragment, Pending, vector_type
from lowtide.passes.support.atoms import is_transposed, tiled_mma_of
from lowtide.passes.support.panels import Panels
from lowtide.targets import MmaAtom, TiledMma
from lowtide.targets.atoms import WARPGROUP_THREADS
from lowtide.targets.tv import extents

# Matrix descriptors (PTX ISA, "Matrix Descriptor Format"): addresses and offsets count units of 16 bytes, and have 18
# bits.
_ADDRESS_MASK = 0x3FFFF
_UNIT_BITS = 4
_SWIZZLE_MODES = {128: 1, 64: 2, 32: 3}  # by the bytes of a row; bits 62 and 63
_ROWS_A_PERIOD = 8  # rows of a panel after which its swizzle repeats


def lower_wgmma(context: Context, op: sm.WgmmaOp) -> None:
    """Fence, one wgmma for each k-slice of the buffers and each 64 rows of the warpgroup, commit."""
    tiled = tiled_mma_of(op.mma)
    layout = gemm_layout(op)
    fragment = op.result.type.fragment
    blocks = _blocks(op, tiled, fragment)
    m, _, k = tiled.atom.shape_mnk
    a, b = (_Operand.of(context, op, name, layout) for name in "ab")
    consumers = tiled.atom_layout[0]
    # Blocks of 64 rows are assigned round-robin: warpgroup i starts with block i.
    own = a.advanced(context, m) if consumers > 1 else a.start
    a_descriptor, b_descriptor = a.descriptor(context, own), b.descriptor(context, b.start)
    registers = list(_accumulators(context, op, fragment, blocks))
    instruction = _Wgmma(tiled.atom, a.is_transposed, b.is_transposed)
    starts = not isinstance(context.get(op.acc), Pending)
    nvvm.WgmmaFenceAlignedOp()
    for depth in range(0, a.depth, k):
        b_slice = _moved(context, b_descriptor, b.offset(0, depth))
        for block in range(blocks):
            a_slice = _moved(context, a_descriptor, a.offset(block * consumers * m, depth))
            registers[block] = instruction.emit(registers[block], a_slice, b_slice, clears=starts and not depth)
    nvvm.WgmmaGroupSyncAlignedOp()
    context.values[op.result] = Pending(tuple(registers), fragment)


def lower_wgmma_promote(context: Context, op: sm.WgmmaPromoteOp) -> None:
    """Each block of 64 rows: fence, one wgmma for each k-slice, commit, wait, and an addition to its registers."""
    tiled, layout = tiled_mma_of(op.mma), gemm_layout(op)
    total = context.fragment(op.sum)
    fragment = total.type
    blocks = _blocks(op, tiled, fragment)
    m, _, k = tiled.atom.shape_mnk
    a, b = (_Operand.of(context, op, name, layout) for name in "ab")
    consumers = tiled.atom_layout[0]
    own = a.advanced(context, m) if consumers > 1 else a.start
    a_descriptor, b_descriptor = a.descriptor(context, own), b.descriptor(context, b.start)
    instruction = _Wgmma(tiled.atom, a.is_transposed, b.is_transposed)
    zero = llvm.ZeroOp(_registers(fragment, blocks)).res
    each = len(total.registers) // blocks
    added: list[ir.Value] = []
    for block in range(blocks):
        registers = zero
        nvvm.WgmmaFenceAlignedOp()
        for depth in range(0, a.depth, k):
            slices = a.offset(block * consumers * m, depth), b.offset(0, depth)
            descriptors = (_moved(context, *one) for one in zip((a_descriptor, b_descriptor), slices, strict=True))
            registers = instruction.emit(registers, *descriptors, clears=not depth)
        nvvm.WgmmaGroupSyncAlignedOp()
        partial = _vectors(sm.PtxWgmmaWaitOp(0, registers).result, total.width, fragment.element_type)
        sums = total.registers[block * each : (block + 1) * each]
        added += [arith.addf(x, y) for x, y in zip(sums, partial, strict=True)]
    context.values[op.retired] = context.tid  # a proof, not a value: nothing reads it
    context.values[op.result] = replace(total, registers=tuple(added))


def _registers(fragment: sm.FragmentType, blocks: int) -> ir.Type:
    """The registers that wgmma takes for the accumulators of a block of 64 rows."""
    _, values = extents(tv_of(fragment.tv))
    return llvm.StructType.get_literal([fragment.element_type] * (values // blocks))


def _vectors(struct: ir.Value, width: int, element: ir.Type) -> list[ir.Value]:
    """The registers of a struct as vectors."""
    parts = [llvm.ExtractValueOp(element, struct, [i]).result for i in range(len(struct.type.body))]
    groups = (parts[i : i + width] for i in range(0, len(parts), width))
    return [vector.FromElementsOp(vector_type(width, element), group).result for group in groups]


def _blocks(op: sm.WgmmaOp | sm.WgmmaPromoteOp, tiled: TiledMma, fragment: sm.FragmentType) -> int:
    """The number of wgmmas along M per warpgroup and k-slice."""
    m, n, _ = tiled.atom.shape_mnk
    rows, columns = fragment.shape
    step = m * tiled.atom_layout[0]
    if columns != n or rows % step or tiled.atom_layout[1:] != (1, 1):
        raise Refusal(op, f"an accumulator of {rows}×{columns}: the warpgroups multiply {step}×{n} per step, along M")
    if tv_of(fragment.tv) != tiled.tv("c", (rows, columns)):
        raise Refusal(op, "the accumulator does not have the thread-value layout of the tiled mma")
    return int(rows // step)


@dataclass(frozen=True)
class _Operand:
    """A or B in shared memory: where it starts, how it lies; transposed where its rows are those of K."""

    start: ir.Value
    panels: Panels
    is_transposed: bool

    @classmethod
    def of(cls, context: Context, op: sm.WgmmaOp | sm.WgmmaPromoteOp, name: str, layout: GemmLayout) -> "_Operand":
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
                f"swizzle<3,{base},3>, <2,{base},3> or <1,{base},3>",
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
        build = context.build
        return element_pointer(
            self.start, build.mul(build.udiv(context.tid, WARPGROUP_THREADS), self.offset(rows, 0)), build.i8
        )

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


def _moved(context: Context, descriptor: ir.Value, offset: int) -> ir.Value:
    """The descriptor moved by `offset` bytes."""
    return context.build.add(descriptor, offset >> _UNIT_BITS)


def _accumulators(context: Context, op: sm.WgmmaOp, fragment: sm.FragmentType, blocks: int) -> tuple[ir.Value, ...]:
    """The accumulators as the structs of registers that wgmma takes, one for each block of 64 rows."""
    given = context.get(op.acc)
    if isinstance(given, Pending):
        return given.registers
    splat = op.acc.owner
    if (
        isinstance(splat, ir.Block)
        or not isinstance(splat.opview, sm.SplatOp)
        or ir.FloatAttr(splat.opview.value).value
    ):
        raise Refusal(op, "starts from an accumulator that is neither pending nor sm.splat 0.0")
    return tuple(llvm.ZeroOp(_registers(fragment, blocks)).res for _ in range(blocks))


class _Wgmma:
    """nvvm.wgmma.mma_async of one atom, its attributes made once."""

    def __init__(self, atom: MmaAtom, a_transposed: bool, b_transposed: bool) -> None:
        m, n, k = atom.shape_mnk
        one = enum_attribute(nvvm.WGMMAScaleIn.one)
        layouts = {False: nvvm.MMALayout.row, True: nvvm.MMALayout.col}
        self.shape = mma_shape(m, n, k)
        self.adding, self.clearing = (
            enum_attribute(scale) for scale in (nvvm.WGMMAScaleOut.one, nvvm.WGMMAScaleOut.zero)
        )
        self.attributes = {
            **{
                f"type{side}": enum_attribute(nvvm.WGMMATypes[element_type(dtype).ptx])
                for side, dtype in (("A", atom.a_dtype), ("B", atom.b_dtype), ("D", atom.c_dtype))
            },
            "scaleA": one,
            "scaleB": one,
            "layoutA": enum_attribute(layouts[a_transposed]),
            "layoutB": enum_attribute(layouts[not b_transposed]),
        }

    def emit(self, acc: ir.Value, a: ir.Value, b: ir.Value, *, clears: bool) -> ir.Value:
        """A · B, added to the accumulators unless it `clears` them.

        Clearing avoids registers of zeros: ptxas serialises wgmma (C7520) if such a register is also used for another
        zero.
        """
        scale = self.clearing if clears else self.adding
        return nvvm.WgmmaMmaAsyncOp(acc.type, acc, a, b, self.shape, scaleD=scale, **self.attributes).results_


def lower_mma_wait(context: Context, op: sm.MmaWaitOp) -> None:
    """The last wait returns the registers, so that no read of them is moved above it."""
    pending = context.get(op.acc)
    assert isinstance(pending, Pending)
    count = op.pending.value
    context.values[op.retired] = context.tid  # a proof, not a value: nothing reads it
    if count:
        nvvm.WgmmaWaitGroupSyncOp(count)
        context.values[op.result] = pending
        return
    # Each struct goes through its own wait; after the first wait nothing is in flight.
    structs = [sm.PtxWgmmaWaitOp(0, struct).result for struct in pending.registers]
    width = 4
    registers = [part for struct in structs for part in _vectors(struct, width, pending.type.element_type)]
    context.values[op.result] = Fragment(tuple(registers), width, pending.type)
