"""tile.store: the epilogue region on a tile or on each thread's elements, and the results that it writes."""

from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lowtide.dialects.tile import OperandKind, ResultKind
from lowtide.interpreter.machine import maxima
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
from lowtide.interpreter.ops.tile_operands import NOT_OF_EPILOGUE, matrix_at, part_of, window_at
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.program import DecodedBlock
from lowtide.interpreter.program.types import Fragment, Scalar

OPS = OpTable()

# A full result is written in a window, the value of an amax is raised.
Target = Window | Matrix


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
    targets = targets_at(op, results, (state.values[row], state.values[column]), shape)
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
    """The part of a result that one product of a batch writes; all products share an amax."""
    return matrix_at(state, op, result, number) if kind is ResultKind.full else result


def targets_at(op: DecodedOp, results: list[Matrix], origin: tuple[int, int], shape: tuple[int, int]) -> list[Target]:
    """The part of each result that a tile at `origin` writes."""
    return [
        Window(result, *origin, shape) if kind is ResultKind.full else result
        for result, kind in zip(results, result_kinds(op), strict=True)
    ]


def _operand_windows(op: DecodedOp, place: Place | Window, operands: list[Any]) -> Iterator[Any]:
    """For each epilogue operand, its window at the tile's place in the results; scalars are unchanged."""
    kinds = [kind for kind in map(OperandKind, op.attributes.get("kinds", ())) if kind not in NOT_OF_EPILOGUE]
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
    for target, values in zip(targets, results, strict=True):
        if isinstance(target, Matrix):
            maxima.lift(state, op, target.address, values)
    state.cta.shared.warp_sync(state.warp)  # all reads come before all writes
    for target, values in zip(targets, results, strict=True):
        if isinstance(target, Window):
            store_inside(state, op, target, values)


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
    for target, values in zip(targets, results, strict=True):
        if isinstance(target, Window):
            store_elements(state, op, target, rows, columns, values)
        else:
            maxima.lift(state, op, target.address, values[is_inside(first, rows, columns)])


def places_of_pairs(state: AgentState, op: DecodedOp, rows: Ints, columns: Ints, width: int) -> tuple[Ints, Ints]:
    """Which values of each thread are in the first half of the columns, and, in the same order, those at the same place
    in the second half. Raises InterpreterError if a thread does not hold both."""
    own = np.flatnonzero(columns[0] < width)
    places = {
        (row, column): at for at, (row, column) in enumerate(zip(rows[0].tolist(), columns[0].tolist(), strict=True))
    }
    others = np.array([places.get((rows[0, at], columns[0, at] + width), -1) for at in own], np.int64)
    held = (others >= 0).all() and np.array_equal(rows[:, own], rows[:, others])
    if not held or not np.array_equal(columns[:, own] + width, columns[:, others]):
        raise state.violation(
            op, "needs both columns of a pair in one thread; take warps that hold whole rows of the tile [held-pairs]"
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
