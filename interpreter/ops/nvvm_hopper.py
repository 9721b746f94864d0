"""The nvvm dialect, Hopper: mbarriers, TMA, fences and registers, for one warp of which any lanes are active."""

from typing import Any

import numpy as np

from lowtide.interpreter.machine import clusters, mbarriers, tensor_maps
from lowtide.interpreter.machine.agents import AgentState, Cta, Steps, Wait, registers_that_fit
from lowtide.interpreter.machine.barriers import together
from lowtide.interpreter.machine.execution import violation
from lowtide.interpreter.machine.lanes import active_lanes, active_rows, uniform
from lowtide.interpreter.machine.mbarriers import OBJECT_BYTES, Mbarrier
from lowtide.interpreter.machine.teams import WARP
from lowtide.interpreter.machine.tensor_maps import TensorMap
from lowtide.interpreter.machine.warpgroups import meet
from lowtide.interpreter.ops.nvvm_clusters import address_in, owner, receivers
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.program import DecodedOp

OPS = OpTable()


def _one_lane(state: AgentState, op: DecodedOp, what: str) -> None:
    count = active_lanes(state)
    if count != 1:
        raise violation(state, op, f"{count} lanes {what}; one thread does: elect it")


# mbarriers ------------------------------------------------------------------------------------------------------------


@OPS.implements("nvvm.mbarrier.init")
def mbarrier_init(state: AgentState, op: DecodedOp) -> None:
    _one_lane(state, op, "initialise an mbarrier")
    address, arrivals = (uniform(state, op, state.values[slot]) for slot in op.operands[:2])
    shared, made = state.cta.shared, state.cta.mbarriers
    if address % OBJECT_BYTES:
        raise violation(
            state, op, f"an mbarrier at shared memory address {address:#x}; take a multiple of {OBJECT_BYTES}"
        )
    if not 1 <= arrivals <= mbarriers.MAX_ARRIVALS:
        raise violation(state, op, f"{arrivals} arrivals; an mbarrier takes 1 … {mbarriers.MAX_ARRIVALS}")
    if address in made:
        raise violation(state, op, f"the mbarrier at {address:#x} is initialised already; invalidate it before")
    name = f"the mbarrier at {address:#x}"
    shared.store(state.access(op), np.array([address]), np.zeros((1, 1)), "i64")
    barrier = Mbarrier.of(name, arrivals, state.cta, clusters.born(state))
    barrier.initialised, barrier.is_fenced = (state.warp, shared.clocks.epoch(state.warp)), False
    made[address] = barrier
    shared.claim(name, address - shared.origin, OBJECT_BYTES)


@OPS.implements("nvvm.fence.mbarrier.init")
def fence(state: AgentState, op: DecodedOp) -> None:
    """Shows the mbarriers that the warp has initialised to the TMA unit."""
    for barrier in state.cta.mbarriers.values():
        if barrier.initialised is not None and barrier.initialised[0] == state.warp:
            barrier.is_fenced = True


def _mbarrier(state: AgentState, op: DecodedOp, slot: int) -> Mbarrier:
    """The mbarrier that a pointer names, seen by this agent."""
    return _mbarrier_at(state, op, uniform(state, op, state.values[slot]))


def _mbarrier_at(state: AgentState, op: DecodedOp, address: int) -> Mbarrier:
    """The mbarrier at an address of the CTA's own shared memory, seen by this agent."""
    found: Mbarrier | None = state.cta.mbarriers.get(address)
    if found is None or found.initialised is None:
        raise violation(state, op, f"no mbarrier has been initialised at shared memory address {address:#x}")
    warp, epoch = found.initialised
    if warp != state.warp and state.cta.shared.clocks.known[state.warp, warp] <= epoch:
        raise violation(state, op, f"race: uses {found.name}, which warp {warp} initialised, with no barrier between")
    return found


@OPS.implements("nvvm.mbarrier.try_wait.parity")
def try_wait_parity(state: AgentState, op: DecodedOp) -> Steps:
    """The op tries again until the phase has completed."""
    barrier = _mbarrier(state, op, op.operands[0])
    yield from mbarriers.wait(state, op, barrier, uniform(state, op, state.values[op.operands[1]]))


@OPS.implements("nvvm.mbarrier.arrive")
def mbarrier_arrive(state: AgentState, op: DecodedOp) -> None:
    """Each active lane arrives, `count` times where given; lanes may arrive in different CTAs of the cluster."""
    count = uniform(state, op, state.values[op.operands[1]]) if len(op.operands) > 1 else 1
    _, addresses = active_rows(state, op, state.values[op.operands[0]])
    lanes = active_lanes(state) // len(addresses)
    for pointer in addresses.tolist():
        _arrive(state, op, _in_cta(state, op, owner(state, pointer), pointer), count * lanes, 0)


def _in_cta(state: AgentState, op: DecodedOp, cta: Cta, address: int) -> Mbarrier:
    """The mbarrier of a CTA of the cluster at an address, which may be in the window of another."""
    address = address_in(cta, address)
    if cta is state.cta:
        return _mbarrier_at(state, op, address)
    found = clusters.reach(state, op, cta, lambda cta: cta.mbarriers.get(address))
    if not found.is_fenced:
        raise violation(
            state,
            op,
            f"CTA {cta.index} has not shown {found.name} to the cluster; put nvvm.fence.mbarrier.init after it",
        )
    return found


@OPS.implements("nvvm.mbarrier.arrive.expect_tx")
def mbarrier_arrive_expect_tx(state: AgentState, op: DecodedOp) -> None:
    """Each active lane expects the bytes, and arrives."""
    if len(op.operands) > 2:
        raise violation(state, op, "a predicate is not interpreted; branch on it")
    barrier, lanes = _mbarrier(state, op, op.operands[0]), active_lanes(state)
    _arrive(state, op, barrier, lanes, lanes * uniform(state, op, state.values[op.operands[1]]))


@OPS.implements("nvvm.mbarrier.expect_tx")
def mbarrier_expect_tx(state: AgentState, op: DecodedOp) -> None:
    size = uniform(state, op, state.values[op.operands[1]])
    mbarriers.expect(state, op, _mbarrier(state, op, op.operands[0]), active_lanes(state) * size)


def _arrive(state: AgentState, op: DecodedOp, barrier: Mbarrier, count: int, expected: int) -> None:
    phase = barrier.completed
    mbarriers.arrive(state, op, barrier, count, expected, bool(op.attributes.get("relaxed", False)))
    for slot in op.results:
        state.values[slot] = phase


# TMA ------------------------------------------------------------------------------------------------------------------


@OPS.implements("nvvm.cp.async.bulk.tensor.shared.cluster.global")
def tma_load(state: AgentState, op: DecodedOp) -> None:
    """A box of a tensor into the CTA's shared memory, or to that address of each CTA whose bit a multicast's mask has.

    Coordinates come innermost first. Cache hints do nothing.
    """
    destination, map, coordinates, barrier, im2col, multicast, _, predicate = op.operand_groups()
    if im2col:
        raise violation(state, op, "boxes of tiles are interpreted, no im2col")
    if predicate and not uniform(state, op, state.values[predicate[0]]):
        return
    _one_lane(state, op, "start a copy by TMA")
    found, source = _mbarrier(state, op, barrier[0]), state.values[map[0]]
    if not isinstance(source, TensorMap):
        raise violation(state, op, "the descriptor is no tensor map; pass one from sm.tensor_map to the kernel")
    if not found.is_fenced:
        raise violation(
            state, op, f"the TMA unit may not see {found.name} initialised; put nvvm.fence.mbarrier.init after the init"
        )
    if len(coordinates) != len(source.box):
        raise violation(state, op, f"{len(coordinates)} coordinates for a map of {len(source.box)} dimensions")
    corner = tuple(uniform(state, op, state.values[slot]) for slot in reversed(coordinates))
    address, signal = (uniform(state, op, state.values[slot]) for slot in (destination[0], barrier[0]))
    mask = uniform(state, op, state.values[multicast[0]]) if multicast else 1 << state.cta.rank
    signalled = [_in_cta(state, op, cta, signal) for cta in receivers(state, op, mask)]
    tensor_maps.load_box(state, op, source, corner, address, signalled)


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
    """True for one of the active lanes: the first."""
    active: Any = np.ones(len(state.lanes), np.bool_) if state.mask is None else state.mask
    state.values[op.results[0]] = state.lanes == np.argmax(active)


@OPS.implements("nvvm.setmaxregister")
def setmaxregister(state: AgentState, op: DecodedOp) -> Steps:
    """Registers come from those that the CTA's other warps gave back; an increase waits for them.

    PTX ISA, "setmaxnreg". At entry each thread has the number that the kernel gives, else the largest multiple of
    eight that fits.
    """
    meet(state, op)
    cta, wanted = state.cta, op.attributes["regCount"]
    held = cta.registers.get(state.warp, state.machine.registers or registers_that_fit(state.machine.threads))
    action = "increase" if "increase" in op.attributes["action"] else "decrease"
    if (wanted < held) if action == "increase" else (wanted > held):
        raise violation(state, op, f"asks for {wanted} registers per thread, but each has {held}: that is no {action}")
    needed = (wanted - held) * WARP
    if needed > 0:
        yield Wait(
            lambda: cta.free_registers >= needed,
            lambda: f"for {needed} registers of the CTA's, of which {cta.free_registers} are free",
        )
    cta.free_registers -= needed
    cta.registers[state.warp] = wanted
