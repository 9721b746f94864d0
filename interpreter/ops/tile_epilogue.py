"""tile.store: the epilogue region on a tile or on each thread's elements, D, and its amax."""

from collections.abc import Iterator
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.dialects.tile import OperandKind
from lowtide.interpreter.machine import maxima
from lowtide.interpreter.machine.agents import AgentState, Steps
from lowtide.interpreter.machine.execution import run_block, violation
from lowtide.interpreter.machine.matrices import (
    Matrix,
    Window,
    is_inside,
    load_elements,
    load_inside,
    store_elements,
    store_inside,
)
from lowtide.interpreter.ops.tile_operands import IN_THE_SUM, matrix_at, part_of, window_at
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.program import DecodedBlock
from lowtide.interpreter.program.types import Fragment, Scalar, Tile

OPS = OpTable()

_AXES = {"full": (0, 1), "per_row": (0,), "per_column": (1,)}
"""The axes along which an operand has an element for each row or column of D."""


@OPS.implements("tile.store")
def store(state: AgentState, op: DecodedOp) -> Steps:
    (value,), *of_parts, d_slot, matrix, row_slot, column_slot, others = op.operand_groups()
    acc, type = state.values[value], op.operand_types[0]
    d, row, column, *operands = (state.values[slot] for slot in (*d_slot, *row_slot, *column_slot, *others))
    assert isinstance(type, Tile | Fragment)
    if matrix:
        number, kinds = state.values[matrix[0]], op.attributes.get("kinds", ())
        d = matrix_at(state, op, d, number)
        operands = [part_of(state, op, *each, number) for each in zip(operands, map(OperandKind, kinds), strict=True)]
    if of_parts[0]:
        part, parts, slot = (state.values[group[0]] for group in of_parts)
        known = state.machine.parts.setdefault(slot, {}) if parts > 1 else {}  # a whole sum has no slot
        known[part] = acc
        if len(known) < parts:
            return
        acc = reduce(lambda x, y: state.machine.domain.sum(x, y, type.element.name), (known[i] for i in range(parts)))
    window = Window(d, row, column, type.shape)
    if isinstance(type, Fragment):
        rows, columns = (part[state.thread] for part in type.tv.coordinates(type.shape[0]))
        yield from _epilogue_by_lane(state, op, acc, window, operands, rows, columns)
    else:
        yield from epilogue_whole(state, op, acc, window, operands)


def _operand_windows(op: DecodedOp, window: Window, operands: list[Any]) -> Iterator[Any]:
    """The window of each epilogue operand that lies where `window` lies in D; a scalar as it is."""
    kinds = [kind for kind in map(OperandKind, op.attributes.get("kinds", ())) if kind not in IN_THE_SUM]
    for operand, kind in zip(operands, kinds, strict=True):
        if kind == OperandKind.amax:
            continue
        if kind == OperandKind.scalar:
            yield operand
        else:
            offsets = {
                OperandKind.full: [window.row, window.column],
                OperandKind.per_row: [window.row],
                OperandKind.per_column: [window.column],
            }[kind]
            yield window_at(operand, kind, offsets, window.shape)


def _amax(op: DecodedOp, operands: list[Any]) -> list[Matrix]:
    """The operand that takes the largest absolute value of what D's elements are converted from, if there is one."""
    kinds = [kind for kind in map(OperandKind, op.attributes.get("kinds", ())) if kind not in IN_THE_SUM]
    return [operand for operand, kind in zip(operands, kinds, strict=True) if kind is OperandKind.amax]


def epilogue_whole(state: AgentState, op: DecodedOp, acc: NDArray[Any], window: Window, operands: list[Any]) -> Steps:
    rows, columns = window.inside
    elements: list[Any] = [acc[:rows, :columns]]
    for operand in _operand_windows(op, window, operands):
        if isinstance(operand, Window):
            _check_extents(state, op, operand, window)
            operand = load_inside(state, op, operand)
        elements.append(operand)
    result, *unconverted = yield from apply_block(state, op.regions[0], elements, (rows, columns))
    for amax, values in zip(_amax(op, operands), unconverted, strict=True):
        maxima.lift(state, op, amax.address, values)
    state.cta.shared.warp_sync(state.warp)  # all of it is read before any of it is written
    store_inside(state, op, window, result)


def _check_extents(state: AgentState, op: DecodedOp, operand: Window, window: Window) -> None:
    """Raises InterpreterError unless the operand has the rows, or columns, that D's window has."""
    for axis in _AXES[operand.kind]:
        if operand.inside[axis] != window.inside[axis]:
            rule = f"{operand.inside[axis]} {('rows', 'columns')[axis]} of {operand.matrix.name} lie in the tile"
            raise violation(
                state, op, f"{rule}, of D {window.inside[axis]}; an operand has the extents of D [operand-extents-of-d]"
            )


def _epilogue_by_lane(
    state: AgentState,
    op: DecodedOp,
    acc: NDArray[Any],
    window: Window,
    operands: list[Any],
    rows: NDArray[np.int64],
    columns: NDArray[np.int64],
) -> Steps:
    elements: list[Any] = [acc]
    for operand in _operand_windows(op, window, operands):
        is_window = isinstance(operand, Window)
        elements.append(load_elements(state, op, operand, rows, columns) if is_window else operand)
    result, *unconverted = yield from apply_block(state, op.regions[0], elements, rows.shape)
    for amax, values in zip(_amax(op, operands), unconverted, strict=True):
        maxima.lift(state, op, amax.address, values[is_inside(window, rows, columns)])
    store_elements(state, op, window, rows, columns, result)


def apply_block(state: AgentState, block: DecodedBlock, elements: list[Any], shape: tuple[int, ...]) -> Steps:
    """A scalar region applied to arrays of elements; what it yields, as arrays of `shape`."""
    for slot, type, value in zip(block.arguments, block.argument_types, elements, strict=True):
        state.values[slot] = value
        if isinstance(type, Scalar) and not type.is_float:  # what was read past an edge is a zero of the domain
            state.values[slot] = np.asarray(value).astype(type.dtype)
    results = yield from run_block(state, block)
    return [np.broadcast_to(result, shape) for result in results]
