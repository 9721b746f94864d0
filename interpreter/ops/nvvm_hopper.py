"""The nvvm dialect, Hopper: mbarriers, TMA, fences and registers, for one warp with any active lanes."""

from typing import Any

from lowtide.interpreter.machine import mbarrier_objects, register_pool, tma
from lowtide.interpreter.machine.agents import AgentState, Steps
from lowtide.interpreter.machine.barriers import elect, together
from lowtide.interpreter.machine.execution import violation
from lowtide.interpreter.machine.lanes import uniform
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.program import DecodedOp

OPS = OpTable()

# mbarriers ------------------------------------------------------------------------------------------------------------


@OPS.implements("nvvm.mbarrier.init")
def mbarrier_init(state: AgentState, op: DecodedOp) -> None:
    mbarrier_objects.initialise(state, op, *(state.values[slot] for slot in op.operands[:2]))


@OPS.implements("nvvm.fence.mbarrier.init")
def fence(state: AgentState, op: DecodedOp) -> None:
    """Shows the mbarriers that the warp has initialised to the TMA unit."""
    mbarrier_objects.show_initialised(state)


@OPS.implements("nvvm.mbarrier.try_wait.parity")
def try_wait_parity(state: AgentState, op: DecodedOp) -> Steps:
    """The op tries again until the phase has completed."""
    yield from mbarrier_objects.wait_parity(state, op, *(state.values[slot] for slot in op.operands[:2]))


@OPS.implements("nvvm.mbarrier.arrive")
def mbarrier_arrive(state: AgentState, op: DecodedOp) -> None:
    """Each active lane arrives, `count` times where given; lanes may arrive in different CTAs of the cluster."""
    address, *count = _operands(state, op)
    _give_phase(state, op, mbarrier_objects.arrive(state, op, address, count[0] if count else 1, _is_relaxed(op)))


@OPS.implements("nvvm.mbarrier.arrive.expect_tx")
def mbarrier_arrive_expect_tx(state: AgentState, op: DecodedOp) -> None:
    """Each active lane expects the bytes, and arrives."""
    if len(op.operands) > 2:
        raise violation(state, op, "a predicate is not interpreted; branch on it")
    address, size = _operands(state, op)
    _give_phase(state, op, mbarrier_objects.arrive_expecting(state, op, address, size, _is_relaxed(op)))


@OPS.implements("nvvm.mbarrier.expect_tx")
def mbarrier_expect_tx(state: AgentState, op: DecodedOp) -> None:
    mbarrier_objects.expect(state, op, *(state.values[slot] for slot in op.operands[:2]))


def _operands(state: AgentState, op: DecodedOp) -> list[Any]:
    return [state.values[slot] for slot in op.operands]


def _is_relaxed(op: DecodedOp) -> bool:
    return bool(op.attributes.get("relaxed", False))


def _give_phase(state: AgentState, op: DecodedOp, phase: int) -> None:
    for slot in op.results:
        state.values[slot] = phase


# TMA ------------------------------------------------------------------------------------------------------------------


@OPS.implements("nvvm.cp.async.bulk.tensor.shared.cluster.global")
def tma_load(state: AgentState, op: DecodedOp) -> None:
    """A box of a tensor into the CTA's shared memory, or to that address of each CTA whose bit a multicast's mask has.

    Coordinates come innermost first. Cache hints do nothing.
    """
    destination, map, coordinates, barrier, im2col, multicast, _, predicate = op.operand_groups()
    values = state.values
    if im2col:
        raise violation(state, op, "boxes of tiles are interpreted, no im2col")
    if predicate and not uniform(state, op, values[predicate[0]]):
        return
    mask = values[multicast[0]] if multicast else None
    corner = [values[slot] for slot in coordinates]
    tma.load(state, op, values[map[0]], corner, values[destination[0]], values[barrier[0]], mask)


@OPS.implements("nvvm.prefetch")
def hint(state: AgentState, op: DecodedOp) -> None:
    """A prefetch changes no number."""


@OPS.implements("nvvm.griddepcontrol")
def griddepcontrol(state: AgentState, op: DecodedOp) -> None:
    """A wait is for the kernels before this one; a dependent kernel's start changes nothing, since it waits itself."""
    if "wait" in op.attributes["kind"]:
        together(state, op)
        state.machine.memory.earlier_kernels_ended(state.cta.index, state.warp)


# Threads and registers ------------------------------------------------------------------------------------------------


@OPS.implements("nvvm.elect.sync")
def elect_sync(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = elect(state, op, *(state.values[slot] for slot in op.operands))


@OPS.implements("nvvm.setmaxregister")
def setmaxregister(state: AgentState, op: DecodedOp) -> Steps:
    is_increase = "increase" in op.attributes["action"]
    yield from register_pool.set_registers(state, op, op.attributes["regCount"], is_increase)
