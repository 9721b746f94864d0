"""Reductions in one thread's program: of the thread's elements, over lanes by shuffles, and stores of partial
results."""

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from mlir import ir
from mlir.dialects import arith, llvm, math, nvvm, scf, vector

from lowtide.dialects import sm
from lowtide.dialects.tile import ResultKind
from lowtide.dialects.tile.layouts import tv_of
from lowtide.passes.nvvm.accesses.runs import thread_origin
from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.nvvm.thread.memory import element_pointer, is_before_edge
from lowtide.passes.nvvm.thread.thread_offsets import layout_offset
from lowtide.passes.nvvm.thread.values import Fragment, GlobalMatrix, element_of, vector_type
from lowtide.passes.support.agents.reductions import lines_of, reduction_of
from lowtide.passes.support.ir.arithmetic import number
from lowtide.reductions import OF_NOTHING, Reduction
from lowtide.targets import split_coordinates

Partial = tuple[ir.Value, ...]  # one value, or the maximum and the sum of a logsumexp
_INFINITY = float("inf")
_CHAINS = 4  # of values that a thread reduces


def kind_of(op: ir.OpView) -> Reduction:
    """The reduction of an op."""
    found = reduction_of(ResultKind(ir.IntegerAttr(op.kind).value))
    assert found is not None
    return found


def lower_reduce(context: Context, op: sm.ReduceOp) -> None:
    """Reduces each line of a thread. An element outside the matrix is replaced by a value that changes nothing."""
    reduction, window, fragment = kind_of(op), context.window(op.window), context.fragment(op.value)
    tv, shape = tv_of(fragment.type.tv), tuple(fragment.type.shape)
    split = split_coordinates(tv, shape)
    by_row = reduction.axis == "row"
    origins = thread_origin(context, window, split.turned if window.turned else split)
    row0, column0 = origins[::-1] if window.turned else origins
    # Only elements past the end of a line are replaced: whole lines outside the matrix are not stored.
    across0, steps = (column0, split.col_values) if by_row else (row0, split.row_values)
    dim = int(by_row != window.turned)
    elements = [element_of(register, i) for register in fragment.registers for i in range(fragment.width)]
    nothing = number(elements[0].type, OF_NOTHING[reduction.operation])
    lines, found, before = lines_of(tv, shape, reduction.axis), [], _partials(context, op.partial, reduction)
    targets = _targets(context, op, (row0, column0), [offset for offset, _ in lines.values])
    exists: dict[int, ir.Value | None] = {}
    for step in dict.fromkeys(steps):
        exists[step] = is_before_edge(context, window, dim, context.build.add(across0, step))
    for index, (_, held) in enumerate(lines.values):
        taken = []
        for place in held:
            counts = exists[steps[place]]
            if targets is not None:  # elements outside the matrix are no targets: see _targets
                counts = context.build.eq(context.build.add(across0, steps[place]), targets[index])
            taken.append(elements[place] if counts is None else arith.select(counts, elements[place], nothing))
        found.append(_reduced(reduction, taken, before[index] if before else None))
    type_ = vector_type(1, elements[0].type)
    registers = tuple(vector.FromElementsOp(type_, [x]).result for partial in found for x in partial)
    context.values[op.result] = Fragment(registers, 1, op.result.type)


def _partials(context: Context, value: ir.Value | None, reduction: Reduction) -> list[Partial]:
    """The partial results of each line in a fragment; none without one."""
    if value is None:
        return []
    values = [element_of(register, 0) for register in context.fragment(value).registers]
    width = 2 if reduction.is_pair else 1
    return [tuple(values[at : at + width]) for at in range(0, len(values), width)]


def _targets(
    context: Context, op: sm.ReduceOp, origin: tuple[ir.Value, ir.Value], offsets: Sequence[int]
) -> list[ir.Value] | None:
    """For each line, the index of the target in it; −1 if the line or the index is outside the matrix."""
    if op.target is None:
        return None
    build, window, by_row = context.build, context.window(op.target), kind_of(op).axis == "row"
    edges, found = context.window(op.window), []
    dims = edges.matrix.extents[::-1] if edges.turned else edges.matrix.extents
    start, extent = origin[0 if by_row else 1], window.matrix.extents[-1]
    for offset in offsets:
        place = build.add(start, offset)
        exists = build.ult(place, extent)
        pointer = element_pointer(
            window.matrix.pointer, build.zext(build.select(exists, place, 0), build.i64), window.matrix.element
        )
        value = llvm.LoadOp(build.i32, pointer, alignment=4).result
        is_inside = build.and_(exists, build.ult(value, dims[1 if by_row else 0]))
        found.append(build.select(is_inside, value, -1))
    return found


def _reduced(reduction: Reduction, values: Sequence[ir.Value], before: Partial | None) -> Partial:
    """The partial result of values, joined with the partial result before."""
    if not reduction.is_pair:
        return (_fold(reduction, [*([] if before is None else before), *values]),)
    most = _fold(Reduction(reduction.axis, "max"), [*([] if before is None else before[:1]), *values])
    start = finite(most)
    powers: Iterable[ir.Value] = (
        math.exp(arith.subf(value, start)) for value in values
    )  # each is made where it is added
    if before is not None:
        earlier = arith.mulf(before[1], math.exp(arith.subf(before[0], start)))
        powers = itertools.chain([earlier], powers)
    return most, _fold(Reduction(reduction.axis, "sum"), powers)


def _fold(reduction: Reduction, values: Iterable[ir.Value]) -> ir.Value:
    """Reduces values by independent chains, which take the values in turn; then the chains, one after the other. A tree
    would need a register for each value."""
    function, chains = _FUNCTIONS[reduction.operation], list[ir.Value]()
    for number_, value in enumerate(values):
        if number_ < _CHAINS:
            chains.append(value)
        else:
            chains[number_ % _CHAINS] = function(chains[number_ % _CHAINS], value)
    return functools.reduce(function, chains)


_FUNCTIONS: dict[str, Callable[[ir.Value, ir.Value], ir.Value]] = {
    "sum": arith.addf,
    "value": arith.addf,
    "max": arith.maximumf,
    "min": arith.minimumf,
}


def combined(reduction: Reduction, x: Partial, y: Partial) -> Partial:
    """Two partial results as one."""
    if not reduction.is_pair:
        return (_FUNCTIONS[reduction.operation](x[0], y[0]),)
    most = arith.maximumf(x[0], y[0])
    start = finite(most)
    parts = [arith.mulf(total, math.exp(arith.subf(largest, start))) for largest, total in (x, y)]
    return most, arith.addf(*parts)


def finite(value: ir.Value) -> ir.Value:
    """The value, 0 if it is infinite."""
    infinite = arith.cmpf(arith.CmpFPredicate.OEQ, math.absf(value), number(value.type, _INFINITY))
    return arith.select(infinite, number(value.type, 0.0), value)


def lower_store_reduced(context: Context, op: sm.StoreReducedOp) -> None:
    """Reduces over the lanes with the same lines by butterfly shuffles. In each step a lane keeps half of its lines,
    and gives the partial results of the others away. If it has a single line, or if its lines are not evenly apart,
    both lanes keep all, and the first of them stores."""
    build, reduction, like = context.build, kind_of(op), sm.FragmentType(ir.TypeAttr(op.layout).value)
    tv, shape = tv_of(like.tv), tuple(like.shape)
    lines, split = lines_of(tv, shape, reduction.axis), split_coordinates(tv, shape)
    split = split if reduction.axis == "row" else split.turned
    partials, offsets = _partials(context, op.partial, reduction), [offset for offset, _ in lines.values]
    further: ir.Value | int = 0
    alike = 0  # the bits in which the numbers of lanes with the same results differ
    for bit in lines.shuffles:
        half = len(partials) // 2
        apart = {high - low for low, high in zip(offsets[:half], offsets[half:], strict=False)}
        if len(partials) % 2 or len(apart) != 1:
            partials = [combined(reduction, x, tuple(_exchanged(context, each, bit) for each in x)) for x in partials]
            alike |= bit
            continue
        is_second = build.ne(build.and_(context.tid, bit), 0)
        partials = _halved(context, reduction, partials, bit, is_second)
        offsets, further = offsets[:half], build.add(further, build.select(is_second, min(apart), 0))
    matrix = context.get(op.target)
    assert isinstance(matrix, GlobalMatrix)
    if op.batch is not None:
        matrix = _of_batch(context, matrix, context.scalar(op.batch))
    slot = context.scalar(op.slot)
    if lines.warps > 1:
        warp = build.mul(build.udiv(context.tid, 32), 32)
        slot = build.add(slot, build.udiv(layout_offset(build, split.col_thread, warp), lines.step))
    first = build.add(context.scalar(op.first), layout_offset(build, split.row_thread, context.tid))
    first, width = build.add(first, further), len(partials[0])
    stored = scf.IfOp(build.eq(build.and_(context.tid, alike), 0))
    with ir.InsertionPoint(stored.then_block):
        rows = [_row(context, matrix, build.add(build.mul(slot, width), number_)) for number_ in range(width)]
        for offset, partial in zip(offsets, partials, strict=True):
            place = build.add(first, offset)
            inside = scf.IfOp(build.ult(place, matrix.extents[1]))
            with ir.InsertionPoint(inside.then_block):
                for row, value in zip(rows, partial, strict=True):
                    pointer = element_pointer(row, build.zext(place, build.i64), matrix.element)
                    llvm.StoreOp(value, pointer, alignment=4)
                scf.YieldOp([])
        scf.YieldOp([])


def _halved(
    context: Context, reduction: Reduction, partials: list[Partial], bit: int, is_second: ir.Value
) -> list[Partial]:
    """One step of a butterfly: the lane keeps the second half of its lines if `is_second`, otherwise the first."""
    half, found = len(partials) // 2, []
    for low, high in zip(partials[:half], partials[half:], strict=True):
        own = tuple(arith.select(is_second, y, x) for x, y in zip(low, high, strict=True))
        given = tuple(arith.select(is_second, x, y) for x, y in zip(low, high, strict=True))
        found.append(combined(reduction, own, tuple(_exchanged(context, each, bit) for each in given)))
    return found


def _exchanged(context: Context, value: ir.Value, bit: int) -> ir.Value:
    build = context.build
    return nvvm.ShflOp(
        value.type, build.constant(-1), value, build.constant(bit), build.constant(31), nvvm.ShflKind.bfly
    ).res


def _row(context: Context, matrix: GlobalMatrix, row: ir.Value) -> ir.Value:
    build = context.build
    return element_pointer(matrix.pointer, build.mul(build.zext(row, build.i64), matrix.row_stride), matrix.element)


def _of_batch(context: Context, batch: GlobalMatrix, number_: ir.Value) -> GlobalMatrix:
    build, (stride, *strides) = context.build, batch.strides
    pointer = element_pointer(batch.pointer, build.mul(build.zext(number_, build.i64), stride), batch.element)
    return replace(batch, pointer=pointer, strides=tuple(strides), extents=batch.extents[1:])
