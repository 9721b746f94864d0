"""The CTAs of a cluster: ranks, the cluster barrier, and signals to mbarriers of other CTAs.

PTX ISA, "barrier.cluster": an arrival releases the thread's accesses, a wait acquires the released accesses of all;
ended threads are not waited for. "mapa", "mbarrier.arrive": an mbarrier of another CTA may be used once that CTA is
known to have initialised it, and until it has ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from lowtide.interpreter.machine.agents import AgentState, Cta, Steps, Wait
from lowtide.interpreter.machine.barriers import together
from lowtide.interpreter.machine.mbarriers import Mbarrier
from lowtide.interpreter.machine.teams import Seat
from lowtide.interpreter.machine.views import NOTHING, View
from lowtide.interpreter.numbers.accesses import WHOLE_AGENT, Described

Key = tuple[int, int]  # rank of a CTA, and one of its agents


WINDOW_BITS = 24  # of an address in the shared memory of a cluster; the CTA's rank is above them (seen on an H200)


def window(rank: int) -> int:
    """The start of the shared memory of the CTA with this rank in its cluster's shared memory, at level nvvm."""
    return rank << WINDOW_BITS


def size_of(state: AgentState) -> int:
    """The number of CTAs of the agent's cluster."""
    return len(state.cta.cluster.ctas)


def owner(state: AgentState, op: Described, pointer: int) -> Cta:
    """The CTA of the cluster whose shared memory a pointer addresses."""
    rank = pointer // window(1)
    if not 0 <= rank < size_of(state):
        raise state.violation(op, f"there is no CTA {rank} in a cluster of {size_of(state)} [cluster-rank]")
    found: Cta = state.cta.cluster.ctas[rank]
    return found


def rank_of(pointer: Any) -> Any:
    """The number in its cluster of the CTA whose shared memory a pointer addresses."""
    return pointer // window(1)


def address_in(cta: Cta, pointer: int) -> int:
    """The address in a CTA's shared memory that corresponds to a pointer into another CTA's."""
    return pointer % window(1) + window(cta.rank)


def mapped(state: AgentState, pointer: Any, rank: Any) -> Any:
    """The address in the shared memory of the CTA with a rank that corresponds to a pointer (PTX ISA, "mapa").

    LLVM may compute it for all threads ahead of the branch in which a few use it. So an illegal rank is an error only
    when something is accessed there.
    """
    ranks = np.broadcast_to(np.asarray(rank, np.int64), state.lanes.shape)
    return pointer % window(1) + ranks * window(1)


def receivers(state: AgentState, op: Described, mask: int) -> list[Cta]:
    """The CTAs of the cluster whose bits are set in a multicast mask (16 bits)."""
    bits = mask & 0xFFFF
    if not bits or bits >> size_of(state):
        raise state.violation(
            op, f"a multicast to the CTAs of mask {bits:#b}, in a cluster of {size_of(state)} [multicast-mask]"
        )
    return [cta for cta in state.cta.cluster.ctas if bits >> cta.rank & 1]


def clusters_at_a_time(sms: int, cluster: tuple[int, ...]) -> int:
    """Clusters that run at a time on `sms` SMs, with one CTA on each SM: at least one."""
    return max(1, sms // prod(cluster))


@dataclass(frozen=True)
class Signal:
    """The last use of an mbarrier by an agent of another CTA: its op, the phase, and the number of the agent's arrivals
    at the cluster barrier."""

    op: Described
    phase: int
    arrivals: int


@dataclass(eq=False)
class Cluster:
    """The CTAs of one cluster, by rank; the views gathered by their barrier; and the number of each agent's arrivals
    and waits there."""

    shape: tuple[int, int]
    ctas: list[Cta]
    rounds: int = 0
    ended: int = 0  # agents
    settled: int = 0  # the number of ended agents when the barrier was last checked for that
    arrived: dict[Key, int] = field(default_factory=dict)
    passed: dict[Key, int] = field(default_factory=dict)
    gathered: View = NOTHING
    released: View = NOTHING
    signals: dict[tuple[Key, Key, Mbarrier], Signal] = field(default_factory=dict)

    @classmethod
    def join(cls, shape: tuple[int, int], ctas: list[Cta]) -> None:
        """Make CTAs a cluster."""
        made = cls(shape, ctas)
        for rank, cta in enumerate(ctas):
            cta.cluster, cta.rank = made, rank

    def members(self, rank: int, of_row: bool, of_column: bool) -> list[Cta]:
        """A CTA, and those of its row of the cluster, of its column, or of both."""
        row, column = divmod(rank, self.shape[1])
        return [
            cta
            for cta in self.ctas
            if cta.rank == rank
            or (of_row and cta.rank // self.shape[1] == row)
            or (of_column and cta.rank % self.shape[1] == column)
        ]

    def settle(self) -> None:
        """End the barrier's round if all agents that have not ended have arrived in it."""
        if next(self._awaited(), None) is None:
            self.rounds += 1
            self.released, self.gathered = self.gathered, NOTHING

    def missing(self) -> list[str]:
        """The agents that the current round waits for."""
        return [f"CTA {cta.index} {seat.name}" for cta, seat in self._awaited()]

    def _awaited(self) -> Iterator[tuple[Cta, Seat]]:
        for cta in self.ctas:
            for seat in cta.machine.seats:
                if seat.index not in cta.ended and self.arrived.get((cta.rank, seat.index), 0) <= self.rounds:
                    yield cta, seat


def _key(state: AgentState) -> Key:
    return state.cta.rank, state.warp


def arrive(state: AgentState, op: Described, is_relaxed: bool = False) -> None:
    """barrier.cluster.arrive by all threads of the agent. `is_relaxed`: earlier accesses are not released."""
    together(state, op)
    cluster: Cluster = state.cta.cluster
    if cluster.arrived.get(_key(state), 0) > cluster.passed.get(_key(state), 0):
        raise state.violation(
            op, "arrives again at the cluster's barrier before it has waited for the others [cluster-arrives-twice]"
        )
    if not is_relaxed:
        cluster.gathered = cluster.gathered.joined(state.cta.shared.clocks.released(state.warp))
    cluster.arrived[_key(state)] = cluster.arrived.get(_key(state), 0) + 1
    if state.machine.order is not None:
        state.machine.order.release(state.key, (cluster, cluster.arrived[_key(state)]))
    cluster.settle()


def wait(state: AgentState, op: Described) -> Steps:
    """barrier.cluster.wait by all threads of the agent."""
    together(state, op)
    cluster: Cluster = state.cta.cluster
    mine = cluster.arrived.get(_key(state), 0)
    if mine == cluster.passed.get(_key(state), 0):
        raise state.violation(op, "waits at the cluster's barrier before it has arrived [cluster-waits-first]")

    def is_over() -> bool:
        if cluster.rounds < mine and cluster.settled != cluster.ended:
            cluster.settled = cluster.ended
            cluster.settle()
        return cluster.rounds >= mine

    yield Wait(is_over, lambda: f"cluster barrier: not {', '.join(cluster.missing())}")
    state.cta.shared.clocks.learn(state.warp, WHOLE_AGENT, cluster.released)
    cluster.passed[_key(state)] = mine
    if state.machine.order is not None:
        state.machine.order.acquire(state.key, (cluster, mine))


def born(state: AgentState) -> int:
    """The time at which the agent initialises an mbarrier: the number of its arrivals at the cluster barrier."""
    return int(state.cta.cluster.arrived.get(_key(state), 0))


def reach(state: AgentState, op: Described, cta: Cta, find: Callable[[Cta], Mbarrier | None]) -> Mbarrier:
    """The mbarrier of a CTA of the cluster that the op signals. Raises InterpreterError if it may not be used now."""
    found = find(cta)
    if cta is state.cta:
        assert found is not None
        return found
    cluster: Cluster = state.cta.cluster
    if len(cta.ended) == len(cta.machine.seats):
        raise state.violation(
            op,
            f"signals an mbarrier of CTA {cta.index}, which has ended; {_BARRIER} before any CTA ends"
            " [cluster-cta-ended]",
        )
    if found is None or cluster.passed.get(_key(state), 0) <= found.born:
        raise state.violation(
            op,
            f"signals an mbarrier of CTA {cta.index}, which may not have initialised it; {_BARRIER} after the "
            "initialisation [cluster-uninitialised]",
        )
    signal = Signal(op, found.completed, cluster.arrived[_key(state)])
    if not any(key[1][0] == cta.rank for key in cluster.signals):
        cta.at_end.append(lambda ending: _check_signals(ending, cluster))
    cluster.signals[_key(state), (cta.rank, 0), found] = signal
    return found


_BARRIER = "put a cluster barrier (sm.cluster_barrier, nvvm.cluster.arrive and .wait)"


def _check_signals(ending: AgentState, cluster: Cluster) -> None:
    """At the end of a CTA: check that a wait of its own orders all signals of other CTAs before it."""
    own = ending.cta
    passed = max(cluster.passed.get((own.rank, seat.index), 0) for seat in own.machine.seats)
    for ((rank, agent), (target, _), barrier), signal in cluster.signals.items():
        if target != own.rank or passed > signal.arrivals:
            continue
        if barrier.clocks.known[: barrier.clocks.warps, barrier.source].max() <= signal.phase:
            sender = cluster.ctas[rank]
            raise ending.violation(
                signal.op,
                f"the CTA ends while CTA {sender.index} {sender.machine.seats[agent].name} may still signal "
                f"{barrier.name}; {_BARRIER} before any CTA ends [cluster-ends-early]",
            )
