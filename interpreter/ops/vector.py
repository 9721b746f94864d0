"""The vector dialect, and the llvm dialect's ops on vectors: rearranging their elements in registers.

A vector is an array (32, *shape), or (1, *shape) if uniform; None is poison, which may only be inserted into.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.numbers.accesses import Values
from lowtide.interpreter.numbers.codes import ZERO_TYPE
from lowtide.interpreter.numbers.packed import Mixed, Packed
from lowtide.interpreter.numbers.registers import Halves, Number
from lowtide.interpreter.program.batches import Batch, Bulk
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.program import Program
from lowtide.interpreter.program.types import Scalar, Vector

OPS = OpTable(acts=False)

_DYNAMIC = -(2**63)


def as_rows(value: Any, type: Scalar | Vector) -> Any:
    """A scalar as a column (32,) or (1,), a vector unchanged: values that can be joined along lanes."""
    if isinstance(type, Vector):
        return value
    array = np.asarray(value)
    if array.ndim:
        return array
    uniform = array.reshape(1)
    return uniform if type.is_float else uniform.astype(type.dtype)  # of a Python integer


def scalar_of(column: Any, type: Scalar) -> Any:
    """A column (32,) unchanged; (1,) as the uniform scalar."""
    if len(column) > 1:
        return column
    return column[0] if type.is_float else column[0].item()


def _empty(state: AgentState, type: Vector, lanes: int) -> Any:
    dtype = state.machine.domain.payload if type.element.is_float else type.element.dtype
    return np.zeros((lanes, *type.shape), dtype)


def _prepare_position(op: DecodedOp, program: Program) -> Any:
    """The position, with _DYNAMIC for run-time indices. Ops of llvm have one run-time index."""
    return tuple(op.attributes.get("static_position", (_DYNAMIC,)))


def _position(state: AgentState, op: DecodedOp, vector: Vector, dynamic: Sequence[Any]) -> tuple[Any, ...]:
    """The position with its run-time indices; an index that differs by lane is a column."""
    if not dynamic:
        return op.data
    given = iter(dynamic)
    position = tuple(next(given) if index == _DYNAMIC else index for index in op.data)
    for index, extent in zip(position, vector.shape, strict=False):
        outside = (index < 0) | (index >= extent)
        if outside.any() if isinstance(outside, np.ndarray) else outside:
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


@OPS.effects("llvm.extractelement", prepare=_prepare_position)
@OPS.effects("vector.extract", prepare=_prepare_position, bulk=_EXTRACTS)
def extract(state: AgentState, op: DecodedOp, vector: Any, *dynamic: Any) -> Any:
    position, type = _position(state, op, op.operand_types[0], dynamic), op.result_types[0]
    if isinstance(vector, Packed | Number | Halves):
        return vector.at((slice(None), *position))
    by_lane = any(isinstance(index, np.ndarray) for index in position)
    place = (state.lanes % len(vector) if by_lane else slice(None), *position)
    value = vector[place]
    return value if isinstance(type, Vector) else scalar_of(value, type)


@OPS.effects("vector.insert", prepare=_prepare_position)
def insert(state: AgentState, op: DecodedOp, value: Any, vector: Any, *dynamic: Any) -> Any:
    type = op.result_types[0]
    column = as_rows(value, op.operand_types[0] if op.name == "vector.insert" else type.element)
    position = _position(state, op, type, dynamic)
    by_lane = any(isinstance(index, np.ndarray) for index in position)
    lanes = max(len(column), 1 if vector is None else len(vector), len(state.lanes) if by_lane else 1)
    result = _empty(state, type, lanes)
    if vector is not None:
        result[:] = vector
    place = (state.lanes if by_lane else slice(None), *position)
    result[place] = column
    return result


@OPS.effects("llvm.insertelement", prepare=_prepare_position)
def insertelement(state: AgentState, op: DecodedOp, vector: Any, value: Any, index: Any) -> Any:
    """As vector.insert, also for vectors of registers that hold numbers."""
    vector, value = of_one_kind(vector), of_one_kind(value)
    if isinstance(vector, Packed):
        _, value = all_packed((vector, value)) or (vector, value)
    if not isinstance(value, Packed):
        return insert(state, op, value, vector, index)
    (at,) = _position(state, op, op.result_types[0], (index,))
    return _with_number(vector, value, int(at), op.result_types[0].shape[0])


def _with_number(vector: Any, value: Packed, index: int, count: int) -> Packed:
    """A vector of registers with one of them replaced. Registers of an unwritten vector are zero."""
    lanes = max(len(value), 1 if vector is None else len(vector))
    payload = np.zeros((lanes, count, value.payload.shape[-1]), value.payload.dtype)
    if isinstance(vector, Packed):
        payload[:] = vector.payload
    payload[:, index] = value.payload
    dtypes = [each.dtype for each in (value, vector) if isinstance(each, Packed)]
    return Packed(payload, next((dtype for dtype in dtypes if dtype != ZERO_TYPE), ZERO_TYPE))


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


@OPS.effects("vector.from_elements")
def from_elements(state: AgentState, op: DecodedOp, *values: Any) -> Any:
    type = op.result_types[0]
    if (packed := all_packed(values)) is not None:
        return stacked(packed)
    columns = [as_rows(value, type.element) for value in values]
    result = _empty(state, type, max(map(len, columns)))
    flat = result.reshape(len(result), -1)
    for at, column in enumerate(columns):
        flat[:, at] = column
    return result


@OPS.implements("vector.to_elements")
def to_elements(state: AgentState, op: DecodedOp) -> None:
    vector = state.values[op.operands[0]]
    flat = vector.reshape(len(vector), -1)
    for index, (slot, type) in enumerate(zip(op.results, op.result_types, strict=True)):
        state.values[slot] = scalar_of(flat[:, index], type)


@OPS.effects("vector.broadcast")
def broadcast(state: AgentState, op: DecodedOp, value: Any) -> Any:
    value, shape = of_one_kind(value), op.result_types[0].shape
    if isinstance(value, Packed):
        return Packed(_spread(value.payload, (*shape, value.payload.shape[-1])), value.dtype)
    return _spread(as_rows(value, op.operand_types[0]), shape)


def _spread(rows: Values, shape: Sequence[int]) -> Values:
    """Rows (32 or 1, …), each repeated to this shape."""
    missing = len(shape) + 1 - rows.ndim
    rows = rows.reshape(len(rows), *(1,) * missing, *rows.shape[1:])
    return np.broadcast_to(rows, (len(rows), *shape))


@OPS.effects("vector.shape_cast")
def shape_cast(state: AgentState, op: DecodedOp, vector: Any) -> Any:
    return vector.reshape(len(vector), *op.result_types[0].shape)


def _slices(op: DecodedOp, program: Program) -> Any:
    attributes = op.attributes
    sizes = attributes.get("sizes") or op.operand_types[0].shape
    steps = zip(attributes["offsets"], sizes, attributes["strides"], strict=True)
    return (slice(None), *(slice(at, at + (size - 1) * step + 1, step) for at, size, step in steps))


@OPS.implements("vector.extract_strided_slice", prepare=_slices)
def extract_strided_slice(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = state.values[op.operands[0]][op.data]


@OPS.effects("vector.insert_strided_slice", prepare=_slices)
def insert_strided_slice(state: AgentState, op: DecodedOp, part: Any, vector: Any) -> Any:
    type = op.result_types[0]
    result = _empty(state, type, max(len(part), 1 if vector is None else len(vector)))
    if vector is not None:
        result[:] = vector
    result[op.data] = part
    return result


def _prepare_shuffle(op: DecodedOp, program: Program) -> Any:
    """The elements: a slice if they are a run of one operand's, else an array of numbers."""
    mask, first = list(op.attributes["mask"]), op.operand_types[0].shape[0]
    start, end = mask[0], mask[-1] + 1
    is_run = mask == list(range(start, end)) and (end <= first or start >= first)
    return slice(start, end) if is_run else np.array(mask), first


@OPS.effects("vector.shuffle", prepare=_prepare_shuffle)
def shuffle(state: AgentState, op: DecodedOp, x: Any, y: Any) -> Any:
    mask, first = op.data
    if (packed := all_packed((x, y))) is not None:
        return shuffled(packed[0], packed[1], op.attributes["mask"])
    if isinstance(mask, slice):
        return x[:, mask] if mask.start < first else y[:, mask.start - first : mask.stop - first]
    if len(x) != len(y):
        lanes = max(len(x), len(y))
        x, y = (np.broadcast_to(side, (lanes, *side.shape[1:])) for side in (x, y))
    return np.concatenate((x, y), axis=1)[:, mask]


@OPS.effects("llvm.shufflevector")
def shufflevector(state: AgentState, op: DecodedOp, *both: Any) -> Any:
    """Takes elements of both vectors by number; for -1, any element."""
    mask = [max(0, place) for place in op.attributes["mask"]]
    if (packed := all_packed([vector for vector in both if vector is not None])) is not None:
        return shuffled(packed[0], packed[-1], mask)
    lanes = max(1 if vector is None else len(vector) for vector in both)
    type = op.operand_types[0]
    sides = [_empty(state, type, lanes) if x is None else np.broadcast_to(x, (lanes, *type.shape)) for x in both]
    return np.concatenate(sides, axis=1)[:, mask]


@OPS.effects("vector.interleave")
def interleave(state: AgentState, op: DecodedOp, x: Any, y: Any) -> Any:
    """Elements of both in turn. canonicalize makes it from such a shuffle."""
    if (packed := all_packed((x, y))) is not None:
        count = packed[0].payload.shape[1]
        return shuffled(packed[0], packed[1], np.arange(2 * count).reshape(2, count).T.reshape(-1).tolist())
    lanes = max(len(x), len(y))
    pairs = np.stack([np.broadcast_to(side, (lanes, *side.shape[1:])) for side in (x, y)], axis=2)
    return pairs.reshape(lanes, -1, *x.shape[2:])
