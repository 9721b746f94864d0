"""The llvm dialect: elements of vectors in registers.

A vector is an array (32, n), or (1, n) if uniform. A vector of i32 that holds pairs of 16-bit floats is Packed; one
that carries floats into assembly is a Number. None is poison, which may only be inserted into.
"""

from typing import Any

import numpy as np

from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.numbers.cells import ZERO_TYPE
from lowtide.interpreter.numbers.packed import Packed
from lowtide.interpreter.numbers.registers import Halves, Number
from lowtide.interpreter.ops.vector import all_packed, as_rows, of_one_kind, scalar_of, shuffled
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.types import Vector

OPS = OpTable(acts=False)


@OPS.implements("llvm.extractelement")
def extractelement(state: AgentState, op: DecodedOp) -> None:
    vector, index = (state.values[slot] for slot in op.operands)
    type = op.operand_types[0]
    assert isinstance(type, Vector)
    _check_index(state, op, index, type)
    if isinstance(vector, Packed | Number | Halves):
        state.values[op.results[0]] = vector.at((slice(None), index))
        return
    lanes = state.lanes % len(vector) if isinstance(index, np.ndarray) else slice(None)
    state.values[op.results[0]] = scalar_of(vector[lanes, index], type.element)


@OPS.implements("llvm.insertelement")
def insertelement(state: AgentState, op: DecodedOp) -> None:
    vector, value, index = (of_one_kind(state.values[slot]) for slot in op.operands)
    type = op.result_types[0]
    assert isinstance(type, Vector)
    _check_index(state, op, index, type)
    if isinstance(vector, Packed):
        (_, value) = all_packed((vector, value)) or (vector, value)
    if isinstance(value, Packed):
        state.values[op.results[0]] = _with_number(vector, value, int(index), type.shape[0])
        return
    column = as_rows(value, type.element)
    by_lane = isinstance(index, np.ndarray)
    lanes = max(len(column), 1 if vector is None else len(vector), len(state.lanes) if by_lane else 1)
    result = np.zeros((lanes, *type.shape), _payload(state, type))
    if vector is not None:
        result[:] = vector
    result[state.lanes if by_lane else slice(None), index] = column
    state.values[op.results[0]] = result


def _with_number(vector: Any, value: Packed, index: int, count: int) -> Packed:
    """A vector of registers with one replaced; those of an unwritten vector are zero."""
    lanes = max(len(value), 1 if vector is None else len(vector))
    payload = np.zeros((lanes, count, value.payload.shape[-1]), value.payload.dtype)
    if isinstance(vector, Packed):
        payload[:] = vector.payload
    payload[:, index] = value.payload
    dtypes = [each.dtype for each in (value, vector) if isinstance(each, Packed)]
    return Packed(payload, next((dtype for dtype in dtypes if dtype != ZERO_TYPE), ZERO_TYPE))


@OPS.implements("llvm.shufflevector")
def shufflevector(state: AgentState, op: DecodedOp) -> None:
    """Elements of both vectors by number; the element for -1 may be anything."""
    both = [state.values[slot] for slot in op.operands]
    type = op.operand_types[0]
    assert isinstance(type, Vector)
    given = [vector for vector in both if vector is not None]
    if (packed := all_packed(given)) is not None:
        mask = [max(0, place) for place in op.attributes["mask"]]
        state.values[op.results[0]] = shuffled(packed[0], packed[-1], mask)
        return
    lanes = max(1 if vector is None else len(vector) for vector in both)
    whole = np.zeros((lanes, 2, *type.shape), _payload(state, type))
    for side, vector in enumerate(both):
        if vector is not None:
            whole[:, side] = vector
    chosen = [max(0, place) for place in op.attributes["mask"]]
    state.values[op.results[0]] = whole.reshape(lanes, -1)[:, chosen]


def _payload(state: AgentState, type: Vector) -> Any:
    return state.machine.domain.payload if type.element.is_float else type.element.dtype


def _check_index(state: AgentState, op: DecodedOp, index: Any, type: Vector) -> None:
    """Raises InterpreterError for a position outside the vector, and for one by lane in a vector of pairs."""
    if np.any((np.asarray(index) < 0) | (np.asarray(index) >= type.shape[0])):
        raise state.violation(
            op, f"position {index} is outside the vector's {type.shape[0]} elements [llvm-vector-position]"
        )
