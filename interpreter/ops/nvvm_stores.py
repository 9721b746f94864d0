"""The nvvm dialect: stmatrix, the proxy fence, and stores by TMA, for one warp with any active lanes."""

import re

import numpy as np

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine import maxima, semaphores, tma, warp_matrices, waves
from lowtide.interpreter.machine.agents import AgentState, Steps
from lowtide.interpreter.machine.execution import violation
from lowtide.interpreter.machine.lanes import active_rows, one_lane, uniform, whole_warp
from lowtide.interpreter.numbers import storage
from lowtide.interpreter.program.batches import Batch, Bulk
from lowtide.interpreter.program.ir_types import Scalar, Vector
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.program import DecodedOp, Program

OPS = OpTable()

_KIND = re.compile(r".*<([\w.]+)>.*")


def _prepare_stmatrix(op: DecodedOp, program: Program) -> None:
    attributes = op.attributes
    if re.findall(r"= (\d+)", attributes["shape"]) != ["8", "8"] or "b16" not in attributes["eltType"]:
        raise InterpreterError(f"{op.describe()}: stmatrix of 8x8 matrices of 16 bits is interpreted")
    op.data = "col" in attributes["layout"]


def _stmatrices(state: AgentState, batch: Batch) -> None:
    values = state.values
    addresses = [values[op.operands[0]] for op in batch.ops]
    registers = [[values[slot] for slot in op.operands[1:]] for op in batch.ops]
    warp_matrices.stmatrix_together(state, batch, addresses, registers, batch.ops[0].data)


@OPS.implements(
    "nvvm.stmatrix",
    prepare=_prepare_stmatrix,
    bulk=Bulk(_stmatrices, key=lambda op: (op.data, len(op.operands))),
)
def stmatrix(state: AgentState, op: DecodedOp) -> None:
    """Lanes 8 j to 8 j + 7 give the addresses of the rows of matrix j, each of 16 bytes (PTX ISA, "stmatrix")."""
    address, *registers = (state.values[slot] for slot in op.operands)
    warp_matrices.stmatrix(state, op, address, registers, op.data)


@OPS.implements("nvvm.fence.proxy")
def fence_proxy(state: AgentState, op: DecodedOp) -> None:
    """The async proxy sees what the lanes wrote into shared memory, and mbarriers that they initialised."""
    kind = _KIND.sub(r"\1", op.attributes["kind"])
    if kind not in ("async", "async.shared"):
        raise violation(
            state, op, f"a proxy fence {kind}, which orders nothing in shared memory; take async or async.shared"
        )
    tma.fence_proxy(state, op)


@OPS.implements("nvvm.cp.async.bulk.tensor.global.shared.cta")
def tma_store(state: AgentState, op: DecodedOp) -> None:
    """A box of the CTA's shared memory into a tensor; coordinates come innermost first. Cache hints do nothing."""
    map, source, coordinates, _, predicate = op.operand_groups()
    values = state.values
    if "tile" not in op.attributes.get("mode", "tile"):
        raise violation(state, op, "boxes of matrices are interpreted: no im2col, no scatter")
    if predicate and not uniform(state, op, values[predicate[0]]):
        return
    tma.store(state, op, values[map[0]], [values[slot] for slot in coordinates], values[source[0]])


@OPS.implements("nvvm.cp.async.bulk.commit.group")
def commit_group(state: AgentState, op: DecodedOp) -> None:
    tma.commit(state)


@OPS.implements("nvvm.cp.async.bulk.wait_group")
def wait_group(state: AgentState, op: DecodedOp) -> None:
    """Each active lane waits for its own groups."""
    tma.wait(state, op.attributes["group"], bool(op.attributes.get("read", False)))


@OPS.implements("sm.ptx_await_wave")
def ptx_await_wave(state: AgentState, op: DecodedOp) -> Steps:
    one_lane(state, op, "begin a work tile")
    address, tiles, _ = (uniform(state, op, state.values[slot]) for slot in op.operands)
    yield from waves.begin(state, op, address, tiles)


@OPS.implements("sm.ptx_store")
def ptx_store(state: AgentState, op: DecodedOp) -> None:
    """A vector to global memory; the cache operator changes no number."""
    value, address = (state.values[slot] for slot in op.operands)
    type = op.operand_types[0]
    element, count = (type.element, int(np.prod(type.shape))) if isinstance(type, Vector) else (type, 1)
    assert isinstance(element, Scalar)
    if not isinstance(address, np.ndarray):
        address = np.full(32, address, np.int64)
    access, rows = active_rows(state, op, address)
    dtype = element.name
    payload = np.asarray(value)
    payload = payload.reshape(1, 1) if payload.ndim == 0 else payload.reshape(len(payload), count)
    if state.mask is not None and len(payload) > 1:
        payload = payload[state.mask]
    state.machine.memory.store(access, rows, payload, dtype, count)


@OPS.implements("sm.ptx_keep_pair")
def ptx_keep_pair(state: AgentState, op: DecodedOp) -> None:
    """The same value."""
    state.values[op.results[0]] = state.values[op.operands[0]]


@OPS.implements("sm.ptx_mask_or")
def ptx_mask_or(state: AgentState, op: DecodedOp) -> None:
    value = state.values[op.operands[0]]
    own = ~value if "inverted" in op.attributes else value
    state.values[op.results[0]] = own & op.attributes["mask"] | op.attributes["bits"]


@OPS.implements("sm.ptx_round")
def ptx_round(state: AgentState, op: DecodedOp) -> None:
    value = np.asarray(state.values[op.operands[0]])
    payload = storage.rounded(value, str(op.attributes["to"]))
    state.values[op.results[0]] = payload if value.ndim else payload[()]


@OPS.implements("sm.ptx_semaphore_arrive")
def semaphore_arrive(state: AgentState, op: DecodedOp) -> None:
    """One addition for each active lane; one thread arrives for its CTA."""
    one_lane(state, op, "act on a semaphore")
    semaphores.arrive(state, op, uniform(state, op, state.values[op.operands[0]]))


@OPS.implements("sm.ptx_semaphore_wait")
def semaphore_wait(state: AgentState, op: DecodedOp) -> Steps:
    one_lane(state, op, "act on a semaphore")
    address, count = (uniform(state, op, state.values[slot]) for slot in op.operands)
    yield from semaphores.wait(state, op, address, count)


@OPS.implements("sm.ptx_semaphore_leave")
def semaphore_leave(state: AgentState, op: DecodedOp) -> None:
    one_lane(state, op, "act on a semaphore")
    address, last = (uniform(state, op, state.values[slot]) for slot in op.operands)
    semaphores.leave(state, op, address, last)


@OPS.implements("sm.ptx_raise_max")
def raise_max(state: AgentState, op: DecodedOp) -> None:
    """All lanes of the warp bring a value; one atomic operation."""
    whole_warp(state, op)
    value, pointer = (state.values[slot] for slot in op.operands)
    maxima.lift(state, op, uniform(state, op, pointer), np.asarray(value))
