"""Accesses to the shared memory of other CTAs of the cluster (PTX ISA, "ld", "st", "atom", ".shared::cluster").

The agent is a guest of the other CTA, and has a clock there. Cluster barriers, and arrivals at mbarriers of that CTA,
order its accesses. The other CTA must have begun before the access, and must not end before it.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from lowtide.interpreter.machine.agents import AgentState, Cta
from lowtide.interpreter.machine.clusters import owner, rank_of
from lowtide.interpreter.machine.lanes import active_lane_numbers, by_lane
from lowtide.interpreter.numbers.accesses import Described
from lowtide.interpreter.numbers.blending import blend


def reaches(state: AgentState, address: Any) -> bool:
    """Whether an active lane's address is in the shared memory of another CTA."""
    ranks = by_lane(rank_of(address), len(state.lanes))
    ranks = ranks if state.mask is None else ranks[state.mask]
    return bool((ranks != state.cta.rank).any())


def by_owner(state: AgentState, op: Described, address: Any, access: Callable[[], tuple[Any, ...]]) -> tuple[Any, ...]:
    """Run an access once for each CTA that lanes address, with these lanes active. Returns the loaded registers."""
    outer, ranks = state.mask, by_lane(rank_of(address))
    lanes, found = active_lane_numbers(state), None
    try:
        for rank in np.unique(ranks[lanes]).tolist():
            state.mask = np.isin(np.arange(len(state.lanes)), [lane for lane in lanes if ranks[lane] == rank])
            home = owner(state, op, int(address if np.ndim(address) == 0 else address[np.flatnonzero(state.mask)[0]]))
            with _guest(state, op, home):
                made = access()
            pairs = zip(made, made if found is None else found, strict=True)
            found = tuple(blend(state.mask, new, old) for new, old in pairs)
    finally:
        state.mask = outer
    return found or ()


@contextmanager
def _guest(state: AgentState, op: Described, home: Cta) -> Iterator[None]:
    """A context in which the accesses of the agent are to the shared memory of `home`. Checks that `home` runs."""
    if home is state.cta:
        yield
        return
    cluster, key = state.cta.cluster, (state.cta.rank, state.warp)
    if not cluster.passed.get(key, 0):
        raise state.violation(
            op,
            f"accesses shared memory of CTA {home.index}, which may not have begun; put a cluster barrier before the"
            " access [cluster-not-begun]",
        )
    if len(home.ended) == len(home.machine.seats):
        raise state.violation(op, _ended(home))
    guest = home.guest(state)
    arrivals, epoch = cluster.arrived[key], home.shared.clocks.epoch(guest)
    state.remote = home, guest
    try:
        yield
    finally:
        state.remote = None
    if (guest, arrivals) not in home.visited:
        home.visited.add((guest, arrivals))
        home.at_end.append(lambda ending: _check_end(ending, op, state, guest, (arrivals, epoch)))


def _ended(cta: Cta) -> str:
    return (
        f"accesses shared memory of CTA {cta.index}, which may have ended; put a cluster barrier between the "
        "access and the end of the CTA [cluster-access-at-end]"
    )


def _check_end(ending: AgentState, op: Described, visitor: AgentState, guest: int, last: tuple[int, int]) -> None:
    """At the end of a CTA, check that one of its own waits orders it after an access by another CTA."""
    own, (arrivals, epoch) = ending.cta, last
    clocks = own.shared.clocks
    passed = max(own.cluster.passed.get((own.rank, seat.index), 0) for seat in own.machine.seats)
    if passed <= arrivals and clocks.known[: clocks.warps, guest].max() <= epoch:
        raise visitor.violation(op, _ended(own))
