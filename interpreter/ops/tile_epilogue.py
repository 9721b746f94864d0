"""tile.store: the epilogue region on a tile or on each thread's elements, and the results that it writes."""

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lowtide.dialects.tile import OperandKind, ResultKind
from lowtide.interpreter.machine import maxima, reductions
from lowtide.interpreter.machine.agents import AgentState, Steps
from lowtide.interpreter.machine.execution import run_block
from lowtide.interpreter.machine.matrices import (
    Ints,
    Matrix,
    Window,
    is_inside,
    load_elements,
    load_inside,
    store_elements,
    store_inside,
)
from lowtide.interpreter.machine.reductions import Slots, reduction_of, slots_of
from lowtide.interpreter.ops.tile_operands import NOT_OF_EPILOGUE, matrix_at, part_of, window_at
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.program import DecodedBlock
from lowtide.interpreter.program.types import Fragment, Scalar
from lowtide.reductions import Reduction

OPS = OpTable()


class Reducing(NamedTuple):
    """A result that is a reduction. `slots`: the places of its partial results, if it has some. `targets`: the operand
    `target` of a row_value or a column_value. `joins`: whether the reduction is combined with the one in memory, of the
    earlier products of a batch."""

    reduction: Reduction
    matrix: Matrix
    slots: Slots | None = None
    targets: Matrix | None = None
    joins: bool = False


# A full result is written to a window. An amax is raised. An absent result is a window that is not written.
Target = Window | Matrix | Reducing


class Place(NamedTuple):
    """The origin of a tile in the full results, its shape, and its numbers of rows and columns inside."""

    row: int
    column: int
    shape: tuple[int, int]
    inside: tuple[int, int]


_AXES = {"full": (0, 1), "per_row": (0,), "per_column": (1,)}
"""The axes along which an operand has an element for each row or column of D."""


@OPS.implements("tile.store")
def store(state: AgentState, op: DecodedOp) -> Steps:
    (value,), *of_parts, outs, matrix, (row,), (column,), others = op.operand_groups()
    acc, type = state.values[value], op.operand_types[0]
    results, operands = ([state.values[slot] for slot in slots] for slots in (outs, others))
    if matrix:
        number, kinds = state.values[matrix[0]], op.attributes.get("kinds", ())
        results = [result_of_part(state, op, *each, number) for each in zip(results, result_kinds(op), strict=True)]
        operands = [part_of(state, op, *each, number) for each in zip(operands, map(OperandKind, kinds), strict=True)]
    if of_parts[0]:
        part, parts, slot = (state.values[group[0]] for group in of_parts)
        known = state.machine.parts.setdefault(slot, {}) if parts > 1 else {}  # a whole sum has no slot
        known[part] = acc
        if len(known) < parts:
            return
        acc = reduce(lambda x, y: state.machine.domain.sum(x, y, type.element.name), (known[i] for i in range(parts)))
    shape = (type.shape[0], type.shape[1] // 2) if "pairs" in op.attributes else type.shape
    targets = targets_at(op, results, (state.values[row], state.values[column]), shape, operands)
    operands = [x for x, kind in zip(operands, operand_kinds(op), strict=True) if kind not in NOT_OF_EPILOGUE]
    if isinstance(type, Fragment):
        yield from _epilogue_by_lane(state, op, acc, type, targets, operands)
    else:
        first = next(target for target in targets if isinstance(target, Window))
        place = Place(first.row, first.column, first.shape, first.inside)
        yield from epilogue_whole(state, op, acc, place, targets, operands)


def result_kinds(op: DecodedOp) -> list[ResultKind]:
    """The kind of each result."""
    return [ResultKind(kind) for kind in op.attributes["out_kinds"]]


def result_of_part(state: AgentState, op: DecodedOp, result: Matrix, kind: ResultKind, number: int) -> Matrix:
    """The part of a result that one product of a batch writes. All products share an amax and results of one
    element."""
    reduction = reduction_of(kind)
    is_shared = kind is ResultKind.amax or (reduction is not None and reduction.axis == "all")
    return result if is_shared else matrix_at(state, op, result, number)


def targets_at(
    op: DecodedOp,
    results: list[Matrix],
    origin: tuple[int, int],
    shape: tuple[int, int],
    operands: Sequence[Any],
    joins: bool = False,
) -> list[Target]:
    """The part of each result that a tile at `origin` writes. `operands`: those of the op."""
    found: list[Target] = []
    columns = next((x for x, kind in zip(operands, operand_kinds(op), strict=True) if kind is OperandKind.target), None)
    kinds = result_kinds(op)
    full = next((x for x, kind in zip(results, kinds, strict=True) if is_window(kind)), None)
    for result, kind in zip(results, kinds, strict=True):
        reduction = reduction_of(kind)
        if is_window(kind):
            found.append(Window(result, *origin, shape))
        elif reduction is None:
            found.append(result)
        else:
            slots = None
            if len(result.shape) > 1 and full is not None:
                extent = full.shape[-1 if reduction.axis == "row" else -2]
                slots = slots_of(reduction, result, origin, shape, extent)
            found.append(Reducing(reduction, result, slots, columns, joins and reduction.axis == "all"))
    return found


def is_window(kind: ResultKind) -> bool:
    """Whether a result has the extents of A · B."""
    return kind in (ResultKind.full, ResultKind.absent)


def operand_kinds(op: DecodedOp) -> list[OperandKind]:
    """The kind of each operand."""
    return [OperandKind(kind) for kind in op.attributes.get("kinds", ())]


def _operand_windows(op: DecodedOp, place: Place | Window, operands: list[Any]) -> Iterator[Any]:
    """For each epilogue operand, its window at the tile's place in the results; scalars are unchanged."""
    kinds = [kind for kind in operand_kinds(op) if kind not in NOT_OF_EPILOGUE]
    for operand, kind in zip(operands, kinds, strict=True):
        if kind == OperandKind.scalar:
            yield operand
        else:
            offsets = {
                OperandKind.full: [place.row, place.column],
                OperandKind.per_row: [place.row],
                OperandKind.per_column: [place.column],
            }[kind]
            yield window_at(operand, kind, offsets, place.shape)


def _pairs(op: DecodedOp, acc: NDArray[Any]) -> list[NDArray[Any]]:
    """The accumulators that the region takes for the elements of a tile: all, or both columns of each pair."""
    if "pairs" not in op.attributes:
        return [acc]
    return [acc[:, 0::2], acc[:, 1::2]] if "interleaved" in op.attributes else np.split(acc, 2, axis=1)


def epilogue_whole(
    state: AgentState, op: DecodedOp, acc: NDArray[Any], place: Place, targets: list[Target], operands: list[Any]
) -> Steps:
    rows, columns = place.inside
    elements: list[Any] = [sums[:rows, :columns] for sums in _pairs(op, acc)]
    for operand in _operand_windows(op, place, operands):
        if isinstance(operand, Window):
            _check_extents(state, op, operand, place)
            operand = load_inside(state, op, operand)
        elements.append(operand)
    results = yield from apply_block(state, op.regions[0], elements, (rows, columns))
    pairs = list(zip(_computed(op, targets), results, strict=True))
    for target, values in pairs:
        if isinstance(target, Matrix):
            maxima.lift(state, op, target.address, values)
        elif isinstance(target, Reducing):
            _reduce_whole(state, op, target, values, place)
    state.cta.shared.warp_sync(state.warp)  # all reads come before all writes
    for target, values in pairs:
        if isinstance(target, Window):
            store_inside(state, op, target, values)


def _computed(op: DecodedOp, targets: list[Target]) -> list[Target]:
    """The targets for which the region yields a value."""
    return [x for x, kind in zip(targets, result_kinds(op), strict=True) if kind is not ResultKind.absent]


def _reduce_whole(state: AgentState, op: DecodedOp, target: Reducing, values: NDArray[Any], place: Place) -> None:
    """Reduces the values of a tile, and writes the agent's share of the lines: results, or partial results."""
    domain, reduction = state.machine.domain, target.reduction
    counts = _counted(state, op, target, values.shape, place) if reduction.operation == "value" else np.True_
    lines = {"row": values, "column": values.T, "all": values.reshape(1, -1)}[reduction.axis]
    counts = counts.T if reduction.axis == "column" and np.ndim(counts) else counts
    share = np.arange(len(lines))[state.share]
    partial = tuple(x[share] for x in reductions.along(domain, reduction, lines, counts))
    if target.slots is not None:
        for slot in range(target.slots.number):
            nothing = reductions.of_nothing(domain, reduction, share.shape)
            reductions.write(state, op, target.slots, slot, share, nothing if slot else partial)
        return
    found = reductions.finished(domain, reduction, partial)
    addresses, element = target.matrix.addresses(0, share), target.matrix.element.name
    if target.joins:
        known = state.machine.memory.load(state.access(op), addresses, element)[:, 0]
        both = (reductions.of_values(domain, reduction, x) for x in (known, found))
        found = reductions.finished(domain, reduction, reductions.combined(domain, reduction, *both))
    if len(share):
        state.machine.memory.store(state.access(op), addresses, found[:, None], element)


def _counted(state: AgentState, op: DecodedOp, target: Reducing, shape: Any, place: Place) -> NDArray[np.bool_]:
    """Which values of a tile are targets: those in the wanted column of their row, or in the wanted row of their
    column."""
    assert target.targets is not None
    rows, columns = shape
    if target.reduction.axis == "row":
        wanted = load_inside(state, op, Window(target.targets, place.row, 0, (rows, 1), "per_row"))
        return np.asarray(wanted == place.column + np.arange(columns))
    wanted = load_inside(state, op, Window(target.targets, 0, place.column, (1, columns), "per_column"))
    return np.asarray(wanted == (place.row + np.arange(rows))[:, None])


def _check_extents(state: AgentState, op: DecodedOp, operand: Window, place: Place) -> None:
    """Raises InterpreterError unless the operand has the rows, or columns, that the results have in the tile."""
    for axis in _AXES[operand.kind]:
        if operand.inside[axis] != place.inside[axis]:
            rule = f"{operand.inside[axis]} {('rows', 'columns')[axis]} of {operand.matrix.name} are in the tile"
            raise state.violation(
                op, f"{rule}, of D {place.inside[axis]}; an operand has the extents of D [operand-extents-of-d]"
            )


def _epilogue_by_lane(
    state: AgentState, op: DecodedOp, acc: NDArray[Any], type: Fragment, targets: list[Target], operands: list[Any]
) -> Steps:
    rows, columns = (part[state.thread] for part in type.tv.coordinates(type.shape[0]))
    first = next(target for target in targets if isinstance(target, Window))
    elements: list[Any] = [acc]
    if "pairs" in op.attributes:
        own, others = places_of_pairs(state, op, rows, columns, first.shape[1])
        elements = [acc[:, own], acc[:, others]]
        rows, columns = rows[:, own], columns[:, own]
    for operand in _operand_windows(op, first, operands):
        is_window = isinstance(operand, Window)
        elements.append(load_elements(state, op, operand, rows, columns) if is_window else operand)
    results = yield from apply_block(state, op.regions[0], elements, rows.shape)
    for target, values in zip(_computed(op, targets), results, strict=True):
        if isinstance(target, Window):
            store_elements(state, op, target, rows, columns, values)
        elif isinstance(target, Reducing):
            _reduce_by_lane(state, op, target, type, values, first)
        else:
            maxima.lift(state, op, target.address, values[is_inside(first, rows, columns)])


def _reduce_by_lane(
    state: AgentState, op: DecodedOp, target: Reducing, type: Fragment, values: NDArray[Any], window: Window
) -> None:
    """Reduces the lanes' values of each line to one partial result of their warp. Other slots of the warp get the
    partial result of no values."""
    domain, reduction, slots = state.machine.domain, target.reduction, target.slots
    assert slots is not None
    held = reductions.held_lines(reduction, type)
    partial = reduced_lines(state, op, reduction, (values, window, target_window(target, window)), type)
    lines = held.lines[state.thread]
    partial = reductions.exchanged(domain, reduction, lines, partial)
    chosen = reductions.first_lanes(lines)
    ranks = held.ranks[state.thread][:, None]
    if held.sharing > slots.number:
        _reduce_together(state, op, target, (lines[chosen], ranks[chosen], tuple(x[chosen] for x in partial)))
        return
    for step in range(0, slots.number, held.sharing):
        nothing = reductions.of_nothing(domain, reduction, lines.shape)
        stored, slot = nothing if step else partial, np.broadcast_to(ranks + step, lines.shape)
        kept = chosen[:, None] & (slot < slots.number)
        reductions.write(
            state,
            op,
            slots,
            slot[kept],
            lines[kept],
            tuple(x[kept] for x in stored),
            np.broadcast_to(state.lanes[:, None], lines.shape)[kept],
        )


def _reduce_together(state: AgentState, op: DecodedOp, target: Reducing, own: tuple[Any, Any, Any]) -> None:
    """Stores partial results if a tile has fewer slots than warps: the last agent of the tile stores those of all
    agents. `own`: the lines, the places of the warp among the warps with the same lines, and the agent's partial
    results."""
    reduction, domain, slots = target.reduction, state.machine.domain, target.slots
    assert slots is not None
    given = state.cta.reduced.setdefault((id(op), slots, state.team.members), {})
    given[state.warp] = own
    if len(given) < len(state.team.members):
        return
    del state.cta.reduced[id(op), slots, state.team.members]
    found: dict[int, list[tuple[int, reductions.Partial]]] = {}
    for lines, ranks, partial in given.values():
        for warp, rank in enumerate(ranks[:, 0].tolist()):
            for place, line in enumerate(lines[warp].tolist()):
                found.setdefault(line, []).append((rank, tuple(x[warp, place] for x in partial)))
    for line, parts in found.items():
        total = reductions.of_nothing(domain, reduction, ())
        for _, partial in sorted(parts, key=lambda part: part[0]):
            total = reductions.combined(domain, reduction, total, partial)
        for slot in range(slots.number):
            stored = reductions.of_nothing(domain, reduction, (1,)) if slot else tuple(np.reshape(x, 1) for x in total)
            reductions.write(state, op, slots, slot, np.array([line]), stored, state.lanes[:1])


def target_window(target: Reducing, window: Window) -> Window | None:
    """The window of the wanted columns, or rows, of a tile."""
    if target.targets is None or target.reduction.operation != "value":
        return None
    if target.reduction.axis == "row":
        return Window(target.targets, window.row, 0, window.shape, "per_row")
    return Window(target.targets, 0, window.column, window.shape, "per_column")


def reduced_lines(
    state: AgentState,
    op: DecodedOp,
    reduction: Reduction,
    taken: tuple[NDArray[Any], Window, Window | None],
    type: Fragment,
) -> reductions.Partial:
    """Each lane's partial result for each line of its elements: arrays (lanes, lines). `taken`: the elements, their
    window in the matrix, and the window of the targets. Elements outside the matrix do not count."""
    values, window, wanted = taken
    rows, columns = (part[state.thread] for part in type.tv.coordinates(type.shape[0]))
    counts = is_inside(window, rows, columns)
    if wanted is not None:
        places = load_elements(state, op, wanted, rows, columns)
        is_row = reduction.axis == "row"
        counts = counts & (places == (window.column + columns if is_row else window.row + rows))
    order = reductions.held_lines(reduction, type).values[state.thread]
    shape = order.shape

    def in_lines(of: NDArray[Any]) -> NDArray[Any]:
        return np.take_along_axis(of, order.reshape(len(of), -1), axis=1).reshape(shape)

    return reductions.along(state.machine.domain, reduction, in_lines(values), in_lines(counts))


def places_of_pairs(state: AgentState, op: DecodedOp, rows: Ints, columns: Ints, width: int) -> tuple[Ints, Ints]:
    """The numbers of each thread's values in the first half of the columns, and of the values at the same places in the
    second half. Raises InterpreterError if a thread does not hold both."""
    own = np.flatnonzero(columns[0] < width)
    places = {
        (row, column): at for at, (row, column) in enumerate(zip(rows[0].tolist(), columns[0].tolist(), strict=True))
    }
    others = np.array([places.get((rows[0, at], columns[0, at] + width), -1) for at in own], np.int64)
    held = (others >= 0).all() and np.array_equal(rows[:, own], rows[:, others])
    if not held or not np.array_equal(columns[:, own] + width, columns[:, others]):
        raise state.violation(
            op, "needs both columns of a pair in one thread; take warps that hold whole rows of a tile [held-pairs]"
        )
    return own, others


def apply_block(state: AgentState, block: DecodedBlock, elements: Sequence[Any], shape: tuple[int, ...]) -> Steps:
    """Apply a scalar region to arrays of elements; its results are arrays of `shape`."""
    for slot, type, value in zip(block.arguments, block.argument_types, elements, strict=True):
        state.values[slot] = value
        if isinstance(type, Scalar) and not type.is_float:  # elements read past an edge are zeros of the domain
            state.values[slot] = np.asarray(value).astype(type.dtype)
    results = yield from run_block(state, block)
    return [np.broadcast_to(result, shape) for result in results]
