"""The gpu dialect inside a kernel: thread and block indices, and the CTA barrier."""

from typing import Any

from lowtide.interpreter.machine.agents import AgentState, Steps
from lowtide.interpreter.machine.barriers import barrier
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.program import DecodedOp, Program

OPS = OpTable()


def _prepare_dimension(op: DecodedOp, program: Program) -> None:
    op.data = op.attributes["dimension"].rstrip(">").split()[-1]


def _of_dimension(op: DecodedOp, x: Any, other: int) -> Any:
    """Launches have one dimension: the value of x, or what the others have."""
    return x if op.data == "x" else other


@OPS.implements("gpu.thread_id", prepare=_prepare_dimension)
def thread_id(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = _of_dimension(op, state.thread.astype("int64"), 0)


@OPS.implements("gpu.block_id", prepare=_prepare_dimension)
def block_id(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = _of_dimension(op, state.cta.index, 0)


@OPS.implements("gpu.block_dim", prepare=_prepare_dimension)
def block_dim(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = _of_dimension(op, state.machine.threads, 1)


@OPS.implements("gpu.grid_dim", prepare=_prepare_dimension)
def grid_dim(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = _of_dimension(op, state.machine.grid, 1)


@OPS.implements("gpu.lane_id")
def lane_id(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = state.lanes.astype("int64")


@OPS.implements("gpu.barrier")
def gpu_barrier(state: AgentState, op: DecodedOp) -> Steps:
    yield from barrier(state, op)
