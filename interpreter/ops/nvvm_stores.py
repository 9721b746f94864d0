"""The nvvm dialect: stmatrix, the proxy fence, and stores by TMA, for one warp of which any lanes are active."""

import re
from typing import Any

import numpy as np

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine import hardware, semaphores, tensor_stores, waves
from lowtide.interpreter.machine.agents import AgentState, Steps
from lowtide.interpreter.machine.execution import violation
from lowtide.interpreter.machine.lanes import active_lanes, active_rows, uniform, whole_warp
from lowtide.interpreter.machine.tensor_maps import TensorMap
from lowtide.interpreter.numbers.cells import ZERO_TYPE
from lowtide.interpreter.numbers.packed import Packed, unpack
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


@OPS.implements("nvvm.stmatrix", prepare=_prepare_stmatrix)
def stmatrix(state: AgentState, op: DecodedOp) -> None:
    """Lanes 8 j to 8 j + 7 give the addresses of the rows of matrix j, each of 16 bytes (PTX ISA, "stmatrix")."""
    whole_warp(state, op)
    address, *registers = (state.values[slot] for slot in op.operands)
    packed = [register.dtype for register in registers if isinstance(register, Packed) and register.dtype != ZERO_TYPE]
    if not packed and any(not isinstance(register, Packed) and np.any(register) for register in registers):
        raise violation(
            state, op, "registers of plain integers; cast vectors of two 16-bit floats to i32 (llvm.bitcast)"
        )
    dtype = packed[0] if packed else ZERO_TYPE
    domain, count = state.machine.domain, len(registers)
    values = np.empty((32, count, 2), domain.payload)
    for index, register in enumerate(registers):
        values[:, index] = unpack(register, dtype, domain)
    lanes = np.arange(8 * count)
    rows = address[lanes] if isinstance(address, np.ndarray) else np.full(len(lanes), address, np.int64)
    written = hardware.stmatrix(values, count, op.data)
    state.cta.shared.store(state.access(op, lanes), rows, written, dtype, 8)


@OPS.implements("nvvm.fence.proxy")
def fence_proxy(state: AgentState, op: DecodedOp) -> None:
    """The async proxy sees what the lanes wrote into shared memory, and mbarriers that they initialised."""
    kind = _KIND.sub(r"\1", op.attributes["kind"])
    if kind not in ("async", "async.shared"):
        raise violation(
            state, op, f"a proxy fence {kind}, which orders nothing in shared memory; take async or async.shared"
        )
    lanes = None if state.mask is None else state.lanes[state.mask]
    state.cta.shared.fence_proxy(state.access(op, lanes))
    for barrier in state.cta.mbarriers.values():
        if barrier.initialised is not None and barrier.initialised[0] == state.warp:
            barrier.is_fenced = True


@OPS.implements("nvvm.cp.async.bulk.tensor.global.shared.cta")
def tma_store(state: AgentState, op: DecodedOp) -> None:
    """A box of the CTA's shared memory into a tensor; coordinates come innermost first. Cache hints do nothing."""
    map, source, coordinates, _, predicate = op.operand_groups()
    if "tile" not in op.attributes.get("mode", "tile"):
        raise violation(state, op, "boxes of matrices are interpreted: no im2col, no scatter")
    if predicate and not uniform(state, op, state.values[predicate[0]]):
        return
    count, found = active_lanes(state), state.values[map[0]]
    if count != 1:
        raise violation(state, op, f"{count} lanes start a store by TMA; one thread does: elect it")
    if not isinstance(found, TensorMap):
        raise violation(state, op, "the descriptor is no tensor map; pass one from sm.tensor_map to the kernel")
    if len(coordinates) != len(found.box):
        raise violation(state, op, f"{len(coordinates)} coordinates for a map of {len(found.box)} dimensions")
    corner = tuple(uniform(state, op, state.values[slot]) for slot in reversed(coordinates))
    address = uniform(state, op, state.values[source[0]])
    tensor_stores.store_box(state, op, found, corner, address, _active(state)[0])


@OPS.implements("nvvm.cp.async.bulk.commit.group")
def commit_group(state: AgentState, op: DecodedOp) -> None:
    for lane in _active(state):
        if (state.warp, lane) in state.cta.stores:  # an empty group is one too, but nothing can tell
            tensor_stores.commit(state, lane)


@OPS.implements("nvvm.cp.async.bulk.wait_group")
def wait_group(state: AgentState, op: DecodedOp) -> None:
    """Each active lane waits for its own groups."""
    for lane in _active(state):
        if (state.warp, lane) in state.cta.stores:
            tensor_stores.wait(state, op.attributes["group"], bool(op.attributes.get("read", False)), lane)


def _active(state: AgentState) -> list[int]:
    """The active lanes."""
    mask: Any = slice(None) if state.mask is None else state.mask
    return [int(lane) for lane in state.lanes[mask]]


@OPS.implements("sm.ptx_await_wave")
def ptx_await_wave(state: AgentState, op: DecodedOp) -> Steps:
    if active_lanes(state) != 1:
        raise violation(state, op, f"{active_lanes(state)} lanes begin a work tile; one thread does: elect it")
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


@OPS.implements("sm.ptx_semaphore_arrive")
def semaphore_arrive(state: AgentState, op: DecodedOp) -> None:
    """One addition for each active lane; one thread arrives for its CTA."""
    _one_lane(state, op)
    semaphores.arrive(state, op, uniform(state, op, state.values[op.operands[0]]))


@OPS.implements("sm.ptx_semaphore_wait")
def semaphore_wait(state: AgentState, op: DecodedOp) -> Steps:
    _one_lane(state, op)
    address, count = (uniform(state, op, state.values[slot]) for slot in op.operands)
    yield from semaphores.wait(state, op, address, count)


@OPS.implements("sm.ptx_semaphore_leave")
def semaphore_leave(state: AgentState, op: DecodedOp) -> None:
    _one_lane(state, op)
    address, last = (uniform(state, op, state.values[slot]) for slot in op.operands)
    semaphores.leave(state, op, address, last)


def _one_lane(state: AgentState, op: DecodedOp) -> None:
    if (count := active_lanes(state)) != 1:
        raise violation(state, op, f"{count} lanes act on a semaphore; one thread does for its CTA: elect it")
