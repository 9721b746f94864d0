"""mbarriers at addresses of shared memory, and their operations by the active lanes of a warp.

PTX ISA, "mbarrier.init", "mbarrier.inval", "mbarrier.arrive", "mbarrier.expect_tx", "mbarrier.try_wait". An address may
be in the window of another CTA of the cluster if the instruction may signal it there.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from lowtide.interpreter.machine import clusters, mbarriers
from lowtide.interpreter.machine.agents import ASK, AgentState, Cta, Steps, Wait
from lowtide.interpreter.machine.clusters import address_in, owner
from lowtide.interpreter.machine.lanes import active_lane_numbers, active_lanes, active_rows, one_lane, uniform
from lowtide.interpreter.machine.mbarriers import MAX_ARRIVALS, OBJECT_BYTES, Mbarrier
from lowtide.interpreter.machine.reliances import PARITY_BIT, UNUSED_MBARRIERS
from lowtide.interpreter.numbers.accesses import Described
from lowtide.interpreter.numbers.codes import UNWRITTEN


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
        _make_again(state, op, address)
    name = f"the mbarrier at {address:#x}"
    access, rows = active_rows(state, op, np.full(len(state.lanes), address))
    shared.store(access, rows, np.zeros((1, 1)), "i64")
    barrier = Mbarrier.of(name, arrivals, state.cta, clusters.born(state))
    barrier.initialised, barrier.is_fenced = (state.warp, shared.clocks.epoch(state.warp)), False
    made[address] = barrier
    shared.claim(name, address - shared.origin, OBJECT_BYTES, partial(_ended_unused, state.cta, address))


def _make_again(state: AgentState, op: Described, address: int) -> None:
    """An mbarrier that is already initialised ends, if nothing has used it."""
    relied, old = state.machine.observers.relied, at(state, op, address)
    broken = state.violation(
        op, f"the mbarrier at {address:#x} is already initialised; invalidate it first [mbarrier-initialised-twice]"
    )
    if relied is None or not old.is_unused:
        raise broken
    relied.on(UNUSED_MBARRIERS, str(broken))
    invalidate(state, op, address)


def _ended_unused(cta: Cta, address: int) -> int | None:
    """Other accesses reach the bytes of an mbarrier. If nothing has used it, it ends; returns the epoch + 1 of its
    initialisation."""
    barrier = cta.mbarriers[address]
    if not barrier.is_unused:
        return None
    del cta.mbarriers[address]
    return int(barrier.initialised[1]) + 1


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


@dataclass(frozen=True)
class Arrival:
    """How an instruction arrives: `relaxed`: earlier accesses are not released; `drops`: later phases expect as many
    arrivals less; `completes`: it may be the last of its phase."""

    relaxed: bool = False
    drops: bool = False
    completes: bool = True


_PENDING_BITS = 20
PLAIN = Arrival()


def arrive(state: AgentState, op: Described, address: Any, count: Any = 1, size: Any = 0, how: Arrival = PLAIN) -> Any:
    """Each active lane expects `size` more bytes and arrives `count` times; lanes may arrive in different CTAs of the
    cluster.

    Returns the state before each arrival: the phase, and its pending arrivals in the low 20 bits.
    """
    each, expected = uniform(state, op, count), uniform(state, op, size)
    _, addresses = active_rows(state, op, address)
    lanes, found = active_lanes(state) // len(addresses), []
    if not 1 <= each <= MAX_ARRIVALS:
        raise state.violation(op, f"{each} arrivals at once; take 1 … {MAX_ARRIVALS} [arrivals-at-once]")
    for pointer in addresses.tolist():
        barrier = in_cta(state, op, owner(state, op, pointer), pointer)
        made = each * lanes
        if not how.completes and made == barrier.pending:
            raise state.violation(
                op, f"is the last arrival of {barrier.name}, and would complete its phase; .noComplete says that it is"
                " not the last [arrival-completes]",
            )  # fmt: skip
        found += [barrier.completed << _PENDING_BITS | max(0, barrier.pending - at * each) for at in range(lanes)]
        if how.drops:
            barrier.arrivals -= made
        mbarriers.arrive(state, op, barrier, made, expected * lanes, how.relaxed)
    if len(found) == 1:
        return found[0]
    tokens = np.zeros(len(state.lanes), np.int64)
    tokens[active_lane_numbers(state)] = found
    return tokens


def expect(state: AgentState, op: Described, address: Any, size: Any) -> None:
    """Each active lane expects this many bytes."""
    place = uniform(state, op, address)
    barrier = in_cta(state, op, owner(state, op, place), place)
    mbarriers.expect(state, op, barrier, active_lanes(state) * uniform(state, op, size))


def complete(state: AgentState, op: Described, address: Any, size: Any) -> None:
    """Each active lane counts this many bytes as landed, without a copy."""
    place = uniform(state, op, address)
    barrier = in_cta(state, op, owner(state, op, place), place)
    mbarriers.complete_bytes(state, op, barrier, barrier.completed, active_lanes(state) * uniform(state, op, size))


def invalidate(state: AgentState, op: Described, address: Any) -> None:
    """One lane ends an mbarrier: its bytes are plain memory again, with nothing written there."""
    one_lane(state, op, "invalidate an mbarrier")
    barrier, place, shared = at(state, op, address), uniform(state, op, address), state.cta.shared
    if barrier.load is not None and barrier.load[0] >= barrier.completed:
        raise state.violation(op, f"{barrier.name} still counts a copy; wait for it before [mbarrier-busy]")
    del state.cta.mbarriers[place]
    shared.disclaim(barrier.name, place - shared.origin, OBJECT_BYTES)
    access, rows = active_rows(state, op, np.full(len(state.lanes), place))
    shared.store(access, rows, np.zeros((1, 1)), "i64")
    shared.codes[place - shared.origin : place - shared.origin + OBJECT_BYTES] = UNWRITTEN


def pending_count(token: Any) -> Any:
    """The pending arrivals in the state before an arrival."""
    return token & (1 << _PENDING_BITS) - 1


def poll_state(state: AgentState, op: Described, address: Any, token: Any) -> bool:
    """Whether one try finds the phase completed that the state of an arrival belongs to."""
    barrier, rows = at(state, op, address), np.asarray(token)
    tokens = rows.reshape(-1) if rows.ndim == 0 or state.mask is None else rows[state.mask]
    phases = np.unique(tokens >> _PENDING_BITS).tolist()
    if len(phases) != 1 or not 0 <= barrier.completed - phases[0] <= 1:
        raise state.violation(
            op, f"asks for phases {phases} of {barrier.name}, which is in phase {barrier.completed}; only the present "
            "phase and the one before can be asked for [phase-of-state]",
        )  # fmt: skip
    return _poll(state, op, barrier, phases[0] & 1)


def poll_parity(state: AgentState, op: Described, address: Any, parity: Any) -> bool:
    """Whether one try finds the phase of this parity completed; a success tells the same as a wait."""
    barrier, asked = at(state, op, address), uniform(state, op, parity)
    if asked not in (0, 1):
        broken = state.violation(op, f"a phase is known by its parity, 0 or 1, not {asked} [parity-polled]")
        if state.machine.observers.relied is None:
            raise broken
        state.machine.observers.relied.on(PARITY_BIT, str(broken))
        asked &= 1
    return _poll(state, op, barrier, asked)


def _poll(state: AgentState, op: Described, barrier: Mbarrier, asked: int) -> bool:
    state.touch(barrier.key, ASK)
    if not barrier.passed(asked):
        poll = Wait(lambda: barrier.passed(asked), lambda: f"for phase parity {asked}: {barrier.state}", op)
        state.polls.append(poll)
        return False
    mbarriers.learn(state, op, barrier, asked)
    return True
