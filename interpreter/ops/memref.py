"""The memref dialect: what a kernel or the host asks of a matrix."""

from typing import Any

from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.execution import violation
from lowtide.interpreter.machine.matrices import Matrix
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.program import DecodedOp

OPS = OpTable()


def _matrix(state: AgentState, op: DecodedOp) -> Matrix:
    value: Any = state.values[op.operands[0]]
    if not isinstance(value, Matrix):
        raise violation(state, op, "the operand must be a matrix in global memory")
    return value


@OPS.implements("memref.dim")
def dim(state: AgentState, op: DecodedOp) -> None:
    shape, index = _matrix(state, op).shape, state.values[op.operands[1]]
    if not 0 <= index < len(shape):
        raise violation(state, op, f"dimension {index} of a memref of {len(shape)} dimensions")
    state.values[op.results[0]] = shape[index]


@OPS.implements("memref.extract_aligned_pointer_as_index")
def extract_aligned_pointer(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = _matrix(state, op).address


@OPS.implements("memref.extract_strided_metadata")
def extract_strided_metadata(state: AgentState, op: DecodedOp) -> None:
    matrix = _matrix(state, op)
    strides = (matrix.row_stride, 1) if len(matrix.shape) == 2 else (1,)
    for slot, value in zip(op.results, (matrix, 0, *matrix.shape, *strides), strict=True):
        state.values[slot] = value


@OPS.implements("memref.cast", "memref.memory_space_cast")
def cast(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = state.values[op.operands[0]]
