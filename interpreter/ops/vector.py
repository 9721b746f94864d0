"""The vector dialect: rearranging the elements of vectors in registers.

A vector is an array (32, *shape), or (1, *shape) if uniform; None is poison, which may only be inserted into.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.numbers.cells import ZERO_TYPE, Values
from lowtide.interpreter.numbers.packed import Mixed, Packed
from lowtide.interpreter.numbers.registers import Number
from lowtide.interpreter.program.batches import Batch, Bulk
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.program import Program
from lowtide.interpreter.program.types import Scalar, Type, Vector

OPS = OpTable(acts=False)

_DYNAMIC = -(2**63)


def as_rows(value: Any, type: Type) -> Any:
    """A scalar as a column (32,) or (1,), a vector unchanged: values that can be joined along lanes."""
    if isinstance(type, Vector):
        return value
    array = np.asarray(value)
    if array.ndim:
        return array
    uniform = array.reshape(1)
    assert isinstance(type, Scalar)
    return uniform if type.is_float else uniform.astype(type.dtype)  # of a Python integer


def scalar_of(column: Any, type: Scalar) -> Any:
    """A column (32,) unchanged; (1,) as the uniform scalar."""
    if len(column) > 1:
        return column
    return column[0] if type.is_float else column[0].item()


def _empty(state: AgentState, type: Vector, lanes: int) -> Any:
    dtype = state.machine.domain.payload if type.element.is_float else type.element.dtype
    return np.zeros((lanes, *type.shape), dtype)


def _result(value: Any, type: Type) -> Any:
    return value if isinstance(type, Vector) else scalar_of(value, type)  # type: ignore[arg-type]


def _static_position(op: DecodedOp, program: Program) -> None:
    op.data = tuple(op.attributes["static_position"])


def _position(state: AgentState, op: DecodedOp, dynamic: Sequence[int]) -> tuple[Any, ...]:
    """The position with its run-time indices; an index that differs by lane is a column."""
    if not dynamic:
        return op.data
    slots = iter(dynamic)
    position = tuple(state.values[next(slots)] if index == _DYNAMIC else index for index in op.data)
    vector = op.operand_types[0 if op.name == "vector.extract" else 1]
    for index, extent in zip(position, vector.shape, strict=False):  # type: ignore[union-attr]
        if np.any((np.asarray(index) < 0) | (np.asarray(index) >= extent)):
            raise state.violation(op, f"position {index} is outside the vector's {extent} elements [vector-position]")
    return position


def _extracts(state: AgentState, batch: Batch) -> None:
    values = state.values
    for result, operand, place, type in batch.data:
        vector = values[operand]
        if not isinstance(vector, np.ndarray):
            values[result] = vector.at(place)
            continue
        value = vector[place]
        values[result] = value if len(value) > 1 or isinstance(type, Vector) else scalar_of(value, type)


def _prepare_extracts(ops: Sequence[DecodedOp]) -> Any:
    return [(op.results[0], op.operands[0], (slice(None), *op.data), op.result_types[0]) for op in ops]


_EXTRACTS = Bulk(
    _extracts, key=lambda op: None if len(op.operands) == 1 else op, accesses=False, prepare=_prepare_extracts
)


@OPS.implements("vector.extract", prepare=_static_position, bulk=_EXTRACTS)
def extract(state: AgentState, op: DecodedOp) -> None:
    vector = state.values[op.operands[0]]
    position = _position(state, op, op.operands[1:])
    if isinstance(vector, Packed | Number):
        state.values[op.results[0]] = vector.at((slice(None), *position))
        return
    by_lane = any(isinstance(index, np.ndarray) for index in position)
    place = (state.lanes % len(vector) if by_lane else slice(None), *position)
    state.values[op.results[0]] = _result(vector[place], op.result_types[0])


@OPS.implements("vector.insert", prepare=_static_position)
def insert(state: AgentState, op: DecodedOp) -> None:
    value = as_rows(state.values[op.operands[0]], op.operand_types[0])
    vector, type = state.values[op.operands[1]], op.result_types[0]
    assert isinstance(type, Vector)
    position = _position(state, op, op.operands[2:])
    by_lane = any(isinstance(index, np.ndarray) for index in position)
    lanes = max(len(value), 1 if vector is None else len(vector), len(state.lanes) if by_lane else 1)
    result = _empty(state, type, lanes)
    if vector is not None:
        result[:] = vector
    place = (state.lanes if by_lane else slice(None), *position)
    result[place] = value
    state.values[op.results[0]] = result


def stacked(values: Sequence[Packed]) -> Packed:
    """Registers that hold numbers of one type, as a vector."""
    lanes = max(map(len, values))
    rows = [np.broadcast_to(value.payload, (lanes, *value.payload.shape[1:])) for value in values]
    return Packed(np.stack(rows, axis=1), next((x.dtype for x in values if x.dtype != ZERO_TYPE), ZERO_TYPE))


def all_packed(values: Sequence[Any]) -> list[Packed] | None:
    """The values if some hold numbers, with zeros as zeros of any type; None if none holds numbers."""
    values = [of_one_kind(value) for value in values]
    like = next((value for value in values if isinstance(value, Packed)), None)
    if like is None:
        return None
    numbers = like.payload.shape[-1]
    return [value if isinstance(value, Packed) else _zeros(value, numbers, like.payload.dtype) for value in values]


def of_one_kind(value: Any) -> Any:
    """A register that holds numbers in some lanes and zeros in others, as numbers; any other value unchanged."""
    if not isinstance(value, Mixed):
        return value
    parts = all_packed((value.first, value.second))
    return value if parts is None else parts[0].blend(value.condition, parts[1])


def _zeros(value: Any, numbers: int, dtype: Any) -> Packed:
    """Zero integers, or unwritten values, as registers of this many numbers. Raises InterpreterError."""
    bits = np.zeros(1, np.int64) if value is None else np.atleast_1d(np.asarray(value))
    if bits.any():
        raise InterpreterError(
            "a vector of integers beside one that holds numbers: cast one of them (llvm.bitcast) [vector-zeros]"
        )
    return Packed(np.zeros((*bits.shape, numbers), dtype), ZERO_TYPE)


def shuffled(x: Packed, y: Packed, mask: Sequence[int]) -> Packed:
    """Registers of two vectors that hold numbers of one type, by position in the concatenation of both."""
    lanes, dtype = max(len(x), len(y)), y.dtype if x.dtype == ZERO_TYPE else x.dtype
    rows = [np.broadcast_to(each.unpack(dtype), (lanes, *each.payload.shape[1:])) for each in (x, y)]
    return Packed(np.concatenate(rows, axis=1)[:, list(mask)], dtype)


@OPS.implements("vector.from_elements")
def from_elements(state: AgentState, op: DecodedOp) -> None:
    type = op.result_types[0]
    assert isinstance(type, Vector)
    values = [state.values[slot] for slot in op.operands]
    if (packed := all_packed(values)) is not None:
        state.values[op.results[0]] = stacked(packed)
        return
    columns = [as_rows(value, type.element) for value in values]
    dtype = state.machine.domain.payload if type.element.is_float else type.element.dtype
    result = np.empty((max(map(len, columns)), *type.shape), dtype)
    flat = result.reshape(len(result), -1)
    for at, column in enumerate(columns):
        flat[:, at] = column
    state.values[op.results[0]] = result


@OPS.implements("vector.to_elements")
def to_elements(state: AgentState, op: DecodedOp) -> None:
    vector = state.values[op.operands[0]]
    flat = vector.reshape(len(vector), -1)
    for index, (slot, type) in enumerate(zip(op.results, op.result_types, strict=True)):
        state.values[slot] = scalar_of(flat[:, index], type)  # type: ignore[arg-type]


@OPS.implements("vector.broadcast")
def broadcast(state: AgentState, op: DecodedOp) -> None:
    type = op.result_types[0]
    assert isinstance(type, Vector)
    value = of_one_kind(state.values[op.operands[0]])
    if isinstance(value, Packed):
        spread = _spread(value.payload, (*type.shape, value.payload.shape[-1]))
        state.values[op.results[0]] = Packed(spread, value.dtype)
    else:
        state.values[op.results[0]] = _spread(as_rows(value, op.operand_types[0]), type.shape)


def _spread(rows: Values, shape: Sequence[int]) -> Values:
    """Rows (32 or 1, …), each repeated to this shape."""
    missing = len(shape) + 1 - rows.ndim
    rows = rows.reshape(len(rows), *(1,) * missing, *rows.shape[1:])
    return np.broadcast_to(rows, (len(rows), *shape))


@OPS.implements("vector.shape_cast")
def shape_cast(state: AgentState, op: DecodedOp) -> None:
    type, vector = op.result_types[0], state.values[op.operands[0]]
    assert isinstance(type, Vector)
    state.values[op.results[0]] = vector.reshape(len(vector), *type.shape)


def _slices(op: DecodedOp, program: Program) -> None:
    attributes = op.attributes
    sizes = attributes.get("sizes") or op.operand_types[0].shape  # type: ignore[union-attr]
    steps = zip(attributes["offsets"], sizes, attributes["strides"], strict=True)
    op.data = (slice(None), *(slice(at, at + (size - 1) * step + 1, step) for at, size, step in steps))


@OPS.implements("vector.extract_strided_slice", prepare=_slices)
def extract_strided_slice(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = state.values[op.operands[0]][op.data]


@OPS.implements("vector.insert_strided_slice", prepare=_slices)
def insert_strided_slice(state: AgentState, op: DecodedOp) -> None:
    part, vector = (state.values[slot] for slot in op.operands)
    type = op.result_types[0]
    assert isinstance(type, Vector)
    result = _empty(state, type, max(len(part), 1 if vector is None else len(vector)))
    if vector is not None:
        result[:] = vector
    result[op.data] = part
    state.values[op.results[0]] = result


def _prepare_shuffle(op: DecodedOp, program: Program) -> None:
    """The elements: a slice if they are a run of one operand's, else an array of numbers."""
    mask, first = list(op.attributes["mask"]), op.operand_types[0].shape[0]  # type: ignore[union-attr]
    start, end = mask[0], mask[-1] + 1
    is_run = mask == list(range(start, end)) and (end <= first or start >= first)
    op.data = slice(start, end) if is_run else np.array(mask), first


@OPS.implements("vector.shuffle", prepare=_prepare_shuffle)
def shuffle(state: AgentState, op: DecodedOp) -> None:
    x, y = (state.values[slot] for slot in op.operands)
    mask, first = op.data
    if (packed := all_packed((x, y))) is not None:
        state.values[op.results[0]] = shuffled(packed[0], packed[1], op.attributes["mask"])
        return
    if isinstance(mask, slice):
        part = x[:, mask] if mask.start < first else y[:, mask.start - first : mask.stop - first]
        state.values[op.results[0]] = part
        return
    if len(x) != len(y):
        lanes = max(len(x), len(y))
        x, y = (np.broadcast_to(side, (lanes, *side.shape[1:])) for side in (x, y))
    state.values[op.results[0]] = np.concatenate((x, y), axis=1)[:, mask]


@OPS.implements("vector.interleave")
def interleave(state: AgentState, op: DecodedOp) -> None:
    """Elements of both in turn. canonicalize makes it from such a shuffle."""
    x, y = (state.values[slot] for slot in op.operands)
    if (packed := all_packed((x, y))) is not None:
        count = packed[0].payload.shape[1]
        state.values[op.results[0]] = shuffled(
            packed[0], packed[1], np.arange(2 * count).reshape(2, count).T.reshape(-1).tolist()
        )
        return
    lanes = max(len(x), len(y))
    pairs = np.stack([np.broadcast_to(side, (lanes, *side.shape[1:])) for side in (x, y)], axis=2)
    state.values[op.results[0]] = pairs.reshape(lanes, -1, *x.shape[2:])


@OPS.implements("vector.fma")
def fma(state: AgentState, op: DecodedOp) -> None:
    x, y, z = (state.values[slot] for slot in op.operands)
    type = op.result_types[0]
    assert isinstance(type, Vector)
    state.values[op.results[0]] = state.machine.domain.fma(x, y, z, type.element.name)
