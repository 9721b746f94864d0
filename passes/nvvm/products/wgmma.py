"""Lowering of wgmma to one thread's program."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import llvm, math, nvvm, vector

from lowtide.dialects import sm
from lowtide.dialects.enums import gemm_layout
from lowtide.dialects.sm import SlotRead
from lowtide.dialects.sm.timing import Timing
from lowtide.dialects.tile.layouts import tv_of
from lowtide.elements import element_type
from lowtide.passes.base import Refusal
from lowtide.passes.nvvm.products.matrix_descriptors import WgmmaOperand, moved
from lowtide.passes.nvvm.products.scale_factors import scale_factors
from lowtide.passes.nvvm.thread.attributes import enum_attribute, mma_shape
from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.nvvm.thread.values import Fragment, Pending, regroup, vector_type
from lowtide.passes.support.agents.atoms import tiled_mma_of, with_held_a
from lowtide.passes.support.ir.arithmetic import add
from lowtide.passes.support.ir.rewriting import defining_op
from lowtide.passes.support.problem.element_types import element_bits
from lowtide.targets import MmaAtom, TiledMma
from lowtide.targets.tv import extents

_WIDTH = 4  # accumulators of a vector
_REGISTER_BITS = 32


def lower_wgmma(context: Context, op: sm.WgmmaOp) -> None:
    """Fence, one wgmma for each k-slice of the buffers and each 64 rows of the warpgroup, commit; or a commit for each
    64 rows."""
    fragment = op.result.type.fragment
    product = _Product.of(context, op, fragment)
    registers = list(_accumulators(context, op, fragment, product.blocks))
    starts = _is_zero(op.acc)
    b_slices: dict[int, ir.Value] = {}
    nvvm.WgmmaFenceAlignedOp()
    for group in product.by_rows() if op.row_groups else (product.back_and_forth(),):
        for block, depth in group:
            if depth not in b_slices:
                b_slices[depth] = product.b_slice(context, depth)
            slices = product.a_slice(context, block, depth), b_slices[depth]
            registers[block] = product.instruction.emit(registers[block], *slices, clears=starts and not depth)
        nvvm.WgmmaGroupSyncAlignedOp()
    context.values[op.result] = Pending(tuple(registers), fragment)


def lower_wgmma_promote(context: Context, op: sm.WgmmaPromoteOp) -> None:
    """Each block of 64 rows and of the columns of a wgmma: fence, one wgmma for each k-slice, commit, wait, and an
    addition to its registers, with scales a fused multiply-add.

    Blocks of columns overlap: while the sums of one are added, the next one is multiplied.
    """
    total = context.fragment(op.sum)
    product = _Product.of(context, op, total.type)
    parts = [(row, column) for column in range(product.columns) for row in range(product.blocks)]
    zero = llvm.ZeroOp(_registers(total.type, len(parts))).res
    each = len(total.registers) // len(parts)
    started: list[ir.Value] = []
    added: list[ir.Value] = []
    factors: list[ir.Value] | None = None

    def start(row: int, column: int) -> ir.Value:
        registers = zero
        nvvm.WgmmaFenceAlignedOp()
        for depth in product.depths:
            slices = product.a_slice(context, row, depth), product.b_slice(context, depth, column)
            registers = product.instruction.emit(registers, *slices, clears=not depth)
        nvvm.WgmmaGroupSyncAlignedOp()
        return registers

    ahead = 1 if product.columns > 1 else 0
    overlaps = Timing.of(op.operation.parent.opview).slot is SlotRead.step_before
    for block in range(len(parts)):
        started += [start(*part) for part in parts[len(started) : block + 1 + ahead]]
        if overlaps and factors is None:  # before the scales of the next step are loaded
            factors = scale_factors(context, op, total.width, len(started))
        in_flight = len(started) - block - 1
        partial = _vectors(sm.PtxWgmmaWaitOp(in_flight, started[block]).result, total.width, total.type)
        if factors is None:  # after the wait: scales may arrive while the tensor cores multiply
            factors = scale_factors(context, op, total.width)
        sums = total.registers[block * each : (block + 1) * each]
        if factors:
            own = factors[block * each : (block + 1) * each]
            added += [math.FmaOp(x, y, z).result for x, y, z in zip(partial, own, sums, strict=True)]
        else:
            added += [add(x, y) for x, y in zip(sums, partial, strict=True)]
    context.values[op.retired] = context.tid  # a proof, not a value: nothing reads it
    context.values[op.result] = replace(total, registers=tuple(added))


@dataclass(frozen=True)
class _Product:
    """The wgmmas of a product of two buffers, for one warpgroup."""

    a: "WgmmaOperand | _HeldA"
    b: WgmmaOperand
    a_descriptor: ir.Value | None
    b_descriptor: ir.Value
    instruction: "_Wgmma"
    blocks: int
    """Of 64 rows, each a wgmma."""
    columns: int
    """Blocks of as many columns as a wgmma has."""
    width: int
    """Columns of a wgmma."""
    rows: int
    """From one block to the next: they are assigned to the warpgroups round-robin."""
    depths: range
    """Where each k-slice starts."""

    @classmethod
    def of(cls, context: Context, op: sm.WgmmaOp | sm.WgmmaPromoteOp, fragment: sm.FragmentType) -> "_Product":
        """Of an op, with accumulators of the type `fragment`. Emits the matrix descriptors."""
        tiled, layout = tiled_mma_of(op.mma), gemm_layout(op)
        blocks, columns = _blocks(op, tiled, fragment)
        m, n, k = tiled.atom.shape_mnk
        consumers = tiled.atom_layout[0]
        a: WgmmaOperand | _HeldA
        if isinstance(op.a.type, sm.FragmentType):
            a, a_descriptor, transposed = _HeldA.of(context, op, tiled), None, False
        else:
            a = WgmmaOperand.of(context, op, "a", layout)
            own = a.advanced(context, m) if consumers > 1 else a.start  # warpgroup i starts with block i
            a_descriptor, transposed = a.descriptor(context, own), a.is_transposed
        b = WgmmaOperand.of(context, op, "b", layout)
        instruction = _Wgmma(tiled.atom, transposed, b.is_transposed)
        descriptors = a_descriptor, b.descriptor(context, b.start)
        return cls(a, b, *descriptors, instruction, blocks, columns, n, consumers * m, range(0, b.depth, k))

    def back_and_forth(self) -> Iterator[tuple[int, int]]:
        """Blocks and where k-slices start: each wgmma has its slice of B or its accumulators in common with the one
        before."""
        for number, depth in enumerate(self.depths):
            blocks = range(self.blocks) if number % 2 == 0 else reversed(range(self.blocks))
            yield from ((block, depth) for block in blocks)

    def by_rows(self) -> Iterator[list[tuple[int, int]]]:
        """For each block all k-slices."""
        for block in range(self.blocks):
            yield [(block, depth) for depth in self.depths]

    def a_slice(self, context: Context, block: int, depth: int) -> "ir.Value | tuple[ir.Value, ...]":
        """A block of A at a k-slice: its descriptor, or its registers."""
        if isinstance(self.a, _HeldA):
            return self.a.slices[depth // self.depths.step * self.blocks + block]
        assert self.a_descriptor is not None
        return moved(context, self.a_descriptor, self.a.offset(block * self.rows, depth))

    def b_slice(self, context: Context, depth: int, column: int = 0) -> ir.Value:
        """The descriptor of a block of columns of B at a k-slice."""
        return moved(context, self.b_descriptor, self.b.offset(column * self.width, depth))


@dataclass(frozen=True)
class _HeldA:
    """A in registers: those of each block of 64 rows, one k-slice after the other."""

    slices: tuple[tuple[ir.Value, ...], ...]

    @classmethod
    def of(cls, context: Context, op: sm.WgmmaOp | sm.WgmmaPromoteOp, tiled: TiledMma) -> "_HeldA":
        held = context.fragment(op.a)
        tiled, shape = with_held_a(tiled), tuple(held.type.shape)
        if tv_of(held.type.tv) != tiled.tv("a", shape):
            raise Refusal(
                op, "an A in registers that does not have the thread-value layout of the tiled mma [wgmma-registers-a]"
            )
        width = _REGISTER_BITS // element_type(tiled.atom.a_dtype).bits
        registers = [llvm.BitcastOp(context.build.i32, each).result for each in regroup(held, width).registers]
        each = tiled.atom.registers("a")
        return cls(tuple(tuple(registers[at : at + each]) for at in range(0, len(registers), each)))


def _registers(fragment: sm.FragmentType, blocks: int) -> ir.Type:
    """The registers that wgmma takes for the accumulators of a block of 64 rows: one of each, or i32 of two."""
    _, values = extents(tv_of(fragment.tv))
    each = _REGISTER_BITS // element_bits(fragment.element_type)
    register = fragment.element_type if each == 1 else ir.IntegerType.get_signless(_REGISTER_BITS)
    return llvm.StructType.get_literal([register] * (values // blocks // each))


def _vectors(struct: ir.Value, width: int, fragment: sm.FragmentType) -> list[ir.Value]:
    """What the registers of a struct hold, as vectors."""
    element = fragment.element_type
    parts = [llvm.ExtractValueOp(part, struct, [i]).result for i, part in enumerate(struct.type.body)]
    if (each := _REGISTER_BITS // element_bits(element)) > 1:
        held = tuple(llvm.BitcastOp(vector_type(each, element), part).result for part in parts)
        return list(regroup(Fragment(held, each, fragment), width).registers)
    groups = (parts[i : i + width] for i in range(0, len(parts), width))
    return [vector.FromElementsOp(vector_type(width, element), group).result for group in groups]


def _blocks(op: sm.WgmmaOp | sm.WgmmaPromoteOp, tiled: TiledMma, fragment: sm.FragmentType) -> tuple[int, int]:
    """The number of wgmmas along M and along N per warpgroup and k-slice; only sums that are promoted have several
    along N."""
    m, n, _ = tiled.atom.shape_mnk
    rows, columns = fragment.shape
    step = m * tiled.atom_layout[0]
    most = columns // n if isinstance(op, sm.WgmmaPromoteOp) else 1
    if not 1 <= columns / n <= most or columns % n or rows % step or tiled.atom_layout[1:] != (1, 1):
        raise Refusal(
            op,
            f"an accumulator of {rows}×{columns}: the warpgroups multiply {step}×{n} per step, along M"
            " [wgmma-accumulator]",
        )
    if tv_of(fragment.tv) != tiled.tv("c", (rows, columns)):
        raise Refusal(op, "the accumulator does not have the thread-value layout of the tiled mma [wgmma-layout]")
    return int(rows // step), int(columns // n)


def _accumulators(context: Context, op: sm.WgmmaOp, fragment: sm.FragmentType, blocks: int) -> tuple[ir.Value, ...]:
    """The accumulators as the structs of registers that wgmma takes, one for each block of 64 rows."""
    given = context.get(op.acc)
    if isinstance(given, Pending):
        return given.registers
    if _is_zero(op.acc):
        return tuple(llvm.ZeroOp(_registers(fragment, blocks)).res for _ in range(blocks))
    return _structs(context.fragment(op.acc), blocks)


def _is_zero(acc: ir.Value) -> bool:
    """Whether accumulators are known to be zero."""
    splat = defining_op(acc)
    return isinstance(splat, sm.SplatOp) and not ir.FloatAttr(splat.value).value


def _structs(held: Fragment, blocks: int) -> tuple[ir.Value, ...]:
    """Readable accumulators as structs of registers, one for each of `blocks` blocks of 64 rows."""
    struct = _registers(held.type, blocks)
    per_register = _REGISTER_BITS // element_bits(held.type.element_type)
    values = [llvm.BitcastOp(struct.body[0], each).result for each in regroup(held, per_register).registers]
    found = []
    for first in range(0, len(values), len(struct.body)):
        block = llvm.UndefOp(struct).res
        for place, value in enumerate(values[first : first + len(struct.body)]):
            block = llvm.InsertValueOp(block, value, [place]).res
        found.append(block)
    return tuple(found)


class _Wgmma:
    """nvvm.wgmma.mma_async of one atom, its attributes made once."""

    def __init__(self, atom: MmaAtom, a_transposed: bool, b_transposed: bool) -> None:
        m, n, k = atom.shape_mnk
        self.name, self.b_transposed = atom.name, b_transposed
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

    def emit(self, acc: ir.Value, a: ir.Value | tuple[ir.Value, ...], b: ir.Value, *, clears: bool) -> ir.Value:
        """A · B, added to the accumulators unless it `clears` them.

        Clearing avoids registers of zeros: ptxas serialises wgmma (C7520) if such a register is also used for another
        zero.
        """
        if isinstance(a, tuple):
            transposed = self.b_transposed or None
            return sm.PtxWgmmaOp(self.name, acc, list(a), b, clears=clears or None, transposed=transposed).result
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
    registers = (*pending.ready, *_waited(0, pending.registers, pending.type))
    context.values[op.result] = Fragment(registers, _WIDTH, pending.type)


def lower_mma_wait_rows(context: Context, op: sm.MmaWaitRowsOp) -> None:
    """A wait that returns the registers of the first blocks of 64 rows, those of a warpgroup in `rows`."""
    pending = context.get(op.acc)
    assert isinstance(pending, Pending)
    first, all_rows = op.rows.type, pending.type.shape[0]
    count, rest = divmod(len(pending.registers) * first.shape[0], all_rows)
    if rest or pending.ready:
        raise Refusal(
            op,
            f"makes {first.shape[0]} of {all_rows} rows readable, which are no whole wgmmas in flight"
            " [wgmma-rows-wait]",
        )
    ready = _waited(op.pending.value, pending.registers[:count], pending.type)
    context.values[op.rows] = Fragment(ready, _WIDTH, first)
    context.values[op.rest] = Pending(pending.registers[count:], pending.type, ready)


def _waited(groups: int, structs: Sequence[ir.Value], fragment: sm.FragmentType) -> tuple[ir.Value, ...]:
    """The vectors of accumulators. Each struct goes through its own wait; after the first wait no more than `groups`
    are in flight."""
    waited = [sm.PtxWgmmaWaitOp(groups, struct).result for struct in structs]
    return tuple(part for struct in waited for part in _vectors(struct, _WIDTH, fragment))
