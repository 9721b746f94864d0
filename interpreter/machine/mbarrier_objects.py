"""mbarriers at addresses of shared memory, and their operations by the active lanes of a warp.

PTX ISA, "mbarrier.init", "mbarrier.arrive", "mbarrier.expect_tx", "mbarrier.try_wait". An address may be in the window
of another CTA of the cluster if the instruction may signal it there.
"""

from typing import Any

import numpy as np

from lowtide.interpreter.machine import clusters, mbarriers
from lowtide.interpreter.machine.agents import ASK, AgentState, Cta, Steps, Wait
from lowtide.interpreter.machine.clusters import address_in, owner
from lowtide.interpreter.machine.lanes import active_lanes, active_rows, one_lane, uniform
from lowtide.interpreter.machine.mbarriers import MAX_ARRIVALS, OBJECT_BYTES, Mbarrier
from lowtide.interpreter.numbers.cells import Described


def initialise(state: AgentState, op: Described, address: Any, arrivals: Any) -> None:
    """One lane makes an mbarrier that expects this many arrivals in each phase."""
    one_lane(state, op, "initialise an mbarrier")
    address, arrivals = uniform(state, op, address), uniform(state, op, arrivals)
    shared, made = state.cta.shared, state.cta.mbarriers
    if address % OBJECT_BYTES:
        raise state.violation(
            op,
            f"an mbarrier at shared memory address {address:#x}; take a multiple of {OBJECT_BYTES} [mbarrier-address]",
        )
    if not 1 <= arrivals <= MAX_ARRIVALS:
        raise state.violation(op, f"{arrivals} arrivals; an mbarrier takes 1 … {MAX_ARRIVALS} [mbarrier-arrivals]")
    if address in made:
        raise state.violation(
            op, f"the mbarrier at {address:#x} is already initialised; invalidate it first [mbarrier-initialised-twice]"
        )
    name = f"the mbarrier at {address:#x}"
    shared.store(state.access(op), np.array([address]), np.zeros((1, 1)), "i64")
    barrier = Mbarrier.of(name, arrivals, state.cta, clusters.born(state))
    barrier.initialised, barrier.is_fenced = (state.warp, shared.clocks.epoch(state.warp)), False
    made[address] = barrier
    shared.claim(name, address - shared.origin, OBJECT_BYTES)


def show_initialised(state: AgentState) -> None:
    """The TMA unit and the cluster see the mbarriers that the warp has initialised (fence.mbarrier_init)."""
    for barrier in state.cta.mbarriers.values():
        if barrier.initialised is not None and barrier.initialised[0] == state.warp:
            barrier.is_fenced = True


def at(state: AgentState, op: Described, address: Any) -> Mbarrier:
    """The mbarrier at an address of the CTA's own shared memory, as seen by this agent."""
    place = uniform(state, op, address)
    found: Mbarrier | None = state.cta.mbarriers.get(place)
    if found is None or found.initialised is None:
        raise state.violation(
            op, f"no mbarrier has been initialised at shared memory address {place:#x} [mbarrier-uninitialised]"
        )
    warp, epoch = found.initialised
    if warp != state.warp and state.cta.shared.clocks.known[state.warp, warp] <= epoch:
        raise state.violation(
            op, f"race: uses {found.name}, which warp {warp} initialised, with no barrier between [mbarrier-race]"
        )
    return found


def in_cta(state: AgentState, op: Described, cta: Cta, address: int) -> Mbarrier:
    """The mbarrier of a CTA of the cluster at an address, which may be in the window of another."""
    address = address_in(cta, address)
    if cta is state.cta:
        return at(state, op, address)
    found = clusters.reach(state, op, cta, lambda cta: cta.mbarriers.get(address))
    if not found.is_fenced:
        raise state.violation(
            op,
            f"CTA {cta.index} has not shown {found.name} to the cluster; put nvvm.fence.mbarrier.init after it"
            " [mbarrier-in-cluster]",
        )
    return found


def wait_parity(state: AgentState, op: Described, address: Any, parity: Any) -> Steps:
    """Try until the phase of this parity has completed."""
    yield from mbarriers.wait(state, op, at(state, op, address), uniform(state, op, parity))


def arrive(state: AgentState, op: Described, address: Any, count: Any = 1, relaxed: bool = False) -> int:
    """Each active lane arrives `count` times; lanes may arrive in different CTAs of the cluster.

    Returns the phase of the last arrival.
    """
    each, (_, addresses) = uniform(state, op, count), active_rows(state, op, address)
    lanes, phase = active_lanes(state) // len(addresses), 0
    for pointer in addresses.tolist():
        barrier = in_cta(state, op, owner(state, op, pointer), pointer)
        phase = barrier.completed
        mbarriers.arrive(state, op, barrier, each * lanes, 0, relaxed)
    return phase


def arrive_expecting(state: AgentState, op: Described, address: Any, size: Any, relaxed: bool = False) -> int:
    """Each active lane expects this many bytes, and arrives once. Returns the phase of the arrival."""
    barrier, lanes = at(state, op, address), active_lanes(state)
    phase = barrier.completed
    mbarriers.arrive(state, op, barrier, lanes, lanes * uniform(state, op, size), relaxed)
    return phase


def expect(state: AgentState, op: Described, address: Any, size: Any) -> None:
    """Each active lane expects this many bytes."""
    mbarriers.expect(state, op, at(state, op, address), active_lanes(state) * uniform(state, op, size))


def poll_parity(state: AgentState, op: Described, address: Any, parity: Any) -> bool:
    """Whether one try finds the phase of this parity completed; a success tells the same as a wait."""
    barrier, asked = at(state, op, address), uniform(state, op, parity)
    if asked not in (0, 1):
        raise state.violation(op, f"a phase is known by its parity, 0 or 1, not {asked} [parity-polled]")
    state.touch(barrier.key, ASK)
    if not barrier.passed(asked):
        poll = Wait(lambda: barrier.passed(asked), lambda: f"for phase parity {asked}: {barrier.state}", op)
        state.polls.append(poll)
        return False
    mbarriers.learn(state, op, barrier, asked)
    return True
