"""The memref dialect: properties of matrices for kernels and the host."""

from dataclasses import replace
from typing import Any

import numpy as np

from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.matrices import Matrix
from lowtide.interpreter.ops.tile_operands import matrix_at
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.types import MemRef

OPS = OpTable()

DYNAMIC = -(2**63)


def _matrix(state: AgentState, op: DecodedOp) -> Matrix:
    value: Any = state.values[op.operands[0]]
    if not isinstance(value, Matrix):
        raise state.violation(op, "the operand must be a matrix in global memory [matrix-operand]")
    return value


def _taken(state: AgentState, op: DecodedOp) -> list[list[int]]:
    """Offsets, sizes and strides, each a constant or an operand."""
    given = iter(op.operands[1:])
    return [
        [state.values[next(given)] if value == DYNAMIC else value for value in op.attributes[f"static_{name}"]]
        for name in ("offsets", "sizes", "strides")
    ]


@OPS.implements("memref.dim")
def dim(state: AgentState, op: DecodedOp) -> None:
    shape, index = _matrix(state, op).shape, state.values[op.operands[1]]
    if not 0 <= index < len(shape):
        raise state.violation(op, f"dimension {index} of a memref of {len(shape)} dimensions [memref-dimension]")
    state.values[op.results[0]] = shape[index]


@OPS.implements("memref.load")
def load(state: AgentState, op: DecodedOp) -> None:
    """An integer of a vector, such as the end of a group."""
    vector, number = _matrix(state, op), state.values[op.operands[1]]
    if len(vector.shape) != 1 or not 0 <= number < vector.shape[0]:
        raise state.violation(
            op,
            f"loads element {number} of {vector.name}, whose shape is {list(vector.shape)}; load an element of a "
            "vector, inside its extent [vector-element]",
        )
    place = vector.addresses(0, np.array([number]))
    (found,) = state.machine.memory.load(state.access(op), place, vector.element.name, 1).reshape(-1).tolist()
    state.values[op.results[0]] = int(found)


@OPS.implements("memref.extract_aligned_pointer_as_index")
def extract_aligned_pointer(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = _matrix(state, op).address


@OPS.implements("memref.extract_strided_metadata")
def extract_strided_metadata(state: AgentState, op: DecodedOp) -> None:
    matrix = _matrix(state, op)
    strides: tuple[int, ...] = (*matrix.strides, 1)
    strides = MemRef.turned(strides) if matrix.is_column_major else strides
    for slot, value in zip(op.results, (matrix, 0, *matrix.shape, *strides), strict=True):
        state.values[slot] = value


@OPS.implements("memref.reinterpret_cast")
def reinterpret_cast(state: AgentState, op: DecodedOp) -> None:
    """A matrix on the memory of another one, with the same first element."""
    source, type = _matrix(state, op), op.result_types[0]
    offsets, sizes, strides = _taken(state, op)
    if offsets != [0] or strides[-1] != 1:
        raise state.violation(
            op, f"offset {offsets[0]}, strides {strides}; take 0, and 1 for columns [reinterpret-cast]"
        )
    state.values[op.results[0]] = Matrix(source.name, source.address, tuple(sizes), tuple(strides[:-1]), type.element)


@OPS.implements("memref.cast", "memref.memory_space_cast")
def cast(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = state.values[op.operands[0]]


@OPS.implements("memref.subview")
def subview(state: AgentState, op: DecodedOp) -> None:
    """The first rows and columns of a matrix, such as the rows up to the end of a group; or the vector of a group,
    which is a row of a matrix; or its matrix, which is one of a batch."""
    source, (offsets, sizes, strides) = _matrix(state, op), _taken(state, op)
    if len(op.result_types[0].shape) < len(sizes) and sizes[0] == 1:
        source, offsets, sizes, strides = matrix_at(state, op, source, offsets[0]), offsets[1:], sizes[1:], strides[1:]
    if any(offsets) or set(strides) != {1} or any(size > most for size, most in zip(sizes, source.shape, strict=True)):
        raise state.violation(
            op, f"takes sizes {sizes} at {offsets}, not the first of {list(source.shape)} [first-rows-of]"
        )
    state.values[op.results[0]] = replace(source, shape=tuple(sizes))
