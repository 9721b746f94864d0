"""The `sm.ptx_…` ops of several PTX instructions, for one warp with any active lanes.

Ops that are a single instruction are written as PTX; `sm.ptx_store` is a store of LLVM (llvm.py), and wgmma is in
nvvm_wgmma.py.
"""

import numpy as np

from lowtide.interpreter.machine import maxima, semaphores, waves
from lowtide.interpreter.machine.agents import AgentState, Steps
from lowtide.interpreter.machine.lanes import one_lane, uniform, whole_warp
from lowtide.interpreter.ops.instructions import enter
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.op_table import OpTable

OPS = OpTable()

enter(OPS, {"sm.ptx_round": lambda op: f"cvt.rna.{op.attributes['to']}.f32 $d, $0;"})


@OPS.implements("sm.ptx_await_wave")
def ptx_await_wave(state: AgentState, op: DecodedOp) -> Steps:
    one_lane(state, op, "begin a work tile")
    address, tiles, _ = (uniform(state, op, state.values[slot]) for slot in op.operands)
    yield from waves.begin(state, op, address, tiles)


@OPS.implements("sm.ptx_keep_pair")
def ptx_keep_pair(state: AgentState, op: DecodedOp) -> None:
    """The value itself."""
    state.values[op.results[0]] = state.values[op.operands[0]]


@OPS.implements("sm.ptx_mask_or")
def ptx_mask_or(state: AgentState, op: DecodedOp) -> None:
    value = state.values[op.operands[0]]
    own = ~value if "inverted" in op.attributes else value
    state.values[op.results[0]] = own & op.attributes["mask"] | op.attributes["bits"]


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
    """All lanes of the warp give a value; one atomic operation."""
    whole_warp(state, op)
    value, pointer = (state.values[slot] for slot in op.operands)
    maxima.lift(state, op, uniform(state, op, pointer), np.asarray(value))
