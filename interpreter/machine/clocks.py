"""Happens-before: a vector clock for each agent of a CTA (a warp, a warpgroup, a role, or the whole CTA).

An *epoch* of an agent ends at each of its ordering events. What an agent did in an epoch is ordered before the present
of another agent once that one knows a later epoch: `known[r, w] > epoch`. Threads of one warp are also not ordered
among themselves until an event of the whole warp (PTX ISA, "Memory Consistency Model": program order is per thread). A
release by a single thread ends the epoch for that thread only, and what a single thread acquires is known to it alone
until the next event of the agent.

A writer that is not an agent, such as TMA, has a clock too: `add_source`. Its epochs are ended by the events that make
its writes visible (the phases of an mbarrier).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.interpreter.machine.views import NOTHING, Knowledge, Origin, Scope, View, cta_of, thread_of
from lowtide.interpreter.numbers.accesses import LANES, WARPS, WHOLE_AGENT

Views = dict[Origin, View]
"""By the operation that comes first in a pattern."""


@dataclass(eq=False, slots=True)
class Pending:
    """What memory fences of a thread act on (patterns.py): the views at its release fences, by scope; released views
    that it has read and not acquired; and views at fence.sc of any thread that come before its present."""

    fenced: dict[Scope, View] = field(default_factory=dict)
    seen: Views = field(default_factory=dict)
    sc: Views = field(default_factory=dict)


class Clocks:
    """The clocks of `warps` agents, and of further sources of writes, with their names for messages.

    `known[r, w]`: the number of ended epochs of w when r last heard of it; on the diagonal, of its own as a whole.
    `now`: the number of all ended epochs. Sources learn nothing. `heard[r]`: what r has acquired beyond that, of other
    CTAs and of single threads; `alone[r]`: by lane, what only that lane has. `visits[r]`: if r accesses the shared
    memory of other CTAs of the cluster, its number in the clocks of each of them. `cta` and the number of CTAs of a
    `cluster` are those of the launch.
    """

    def __init__(self, warps: int, names: Sequence[str] = ()) -> None:
        self.warps = warps
        self.names = list(names) or [f"warp {warp}" for warp in range(warps)]
        self.known: NDArray[np.int32] = np.zeros((warps, warps), np.int32)
        self.now = [0] * warps
        self.heard: list[View] = [NOTHING] * warps
        self.alone: list[dict[int, View]] = [{} for _ in range(warps)]
        self.pending: list[dict[int, Pending]] = [{} for _ in range(warps)]
        self.visits: list[dict[Clocks, int]] = [{} for _ in range(warps)]
        self.cta = 0
        self.cluster = 1

    def add_source(self, name: str) -> int:
        """Adds a clock and returns its number: for a source that is not an agent, or for an agent of another CTA, which
        learns like the CTA's own agents."""
        self.known = np.pad(self.known, ((0, 1), (0, 1)))
        self.now.append(0)
        self.names.append(name)
        return len(self.names) - 1

    def visit(self, warp: int, there: Clocks, number: int) -> None:
        """An agent begins to access the shared memory of another CTA, in whose clocks it has a number."""
        self.visits[warp][there] = number
        if (known := self._base(warp).ctas.get(there.cta)) is not None:
            there.acquire(number, known)

    def epoch(self, warp: int) -> int:
        """The current epoch of an agent."""
        return self.now[warp]

    def epochs(self, warps: Any) -> Any:
        """The current epoch of an agent, or of each in an array."""
        return self.now[warps] if isinstance(warps, int) else np.array(self.now, np.int32)[warps]

    def together(self, warp: int) -> int:
        """The number of epochs that ended for all threads of an agent."""
        return int(self.known[warp, warp])

    def _end_epoch(self, warp: int) -> None:
        self.now[warp] += 1
        self.known[warp, warp] = self.now[warp]
        for there, number in self.visits[warp].items() if warp < self.warps else ():
            there._end_epoch(number)

    def warp_sync(self, warp: int) -> None:
        """bar.warp.sync by all lanes: orders the lanes of the warp; other agents learn nothing."""
        self._end_epoch(warp)
        if self._has_heard(warp):
            self._share([warp])

    def barrier(self, warps: Sequence[int] | None = None) -> None:
        """bar.sync by `warps` (all if None): each then knows what any of them knew."""
        members = list(range(self.warps)) if warps is None else list(warps)
        for member in members:
            self._end_epoch(member)
        if any(map(self._has_heard, members)):
            self._share(members)
        self.known[members] = self.known[members].max(axis=0)

    def _has_heard(self, warp: int) -> bool:
        return bool(self.alone[warp] or self.pending[warp] or self.visits[warp]) or self.heard[warp] is not NOTHING

    def _share(self, members: Sequence[int]) -> None:
        """What a lane of the agents has heard, all lanes know; and all come after the fences of any."""
        views = [view for member in members for view in (self._heard_there(member), *self.alone[member].values())]
        view = reduce(View.joined, views, NOTHING)
        own = view.ctas.get(self.cta)
        threads = {
            agent: epochs
            for agent, epochs in view.threads.items()
            if agent // WARPS != self.cta or self.known[members, agent % WARPS].max() < epochs.max()
        }
        view = View({cta: each for cta, each in view.ctas.items() if cta != self.cta}, threads, view.chains)
        together: Views = {}
        for member in members:
            for pending in self.pending[member].values():
                merge(together, pending.sc)
                pending.sc = {}
        for member in members:
            if own is not None:
                self.acquire(member, own)
            self.heard[member] = view
            self.alone[member] = {}
            self._tell_visits(member, view)
            if together:
                self.waiting(member).sc = dict(together)

    def waiting(self, warp: int, lane: int = WHOLE_AGENT) -> Pending:
        """What the fences of a lane act on, beyond that of the whole agent."""
        return self.pending[warp].setdefault(lane, Pending())

    def release(self, warp: int) -> Knowledge:
        """End the agent's current epoch. Returns the knowledge of an agent that `acquire`s it."""
        self._end_epoch(warp)
        return self.known[warp].copy()

    def released(self, warp: int) -> View:
        """As `release`, with all that the agent has heard: for `learn`."""
        self.warp_sync(warp)
        return self._base(warp)

    def acquire(self, warp: int, knowledge: Knowledge) -> None:
        """The agent learns released knowledge; it learns nothing about clocks added since then."""
        mine = self.known[warp, : len(knowledge)]
        np.maximum(mine, knowledge, out=mine)

    # Single threads

    def views(self, warp: int, lanes: Iterable[int]) -> list[View]:
        """End the current epoch of these threads of an agent; returns what precedes the next action of each.

        For the lane WHOLE_AGENT, only what an ordering event put before it, and its epoch continues.
        """
        for there, number in self.visits[warp].items():
            there._end_epoch(number)
        base = self._base(warp)
        self.now[warp] += 1
        result = []
        for lane in lanes:
            view = base.joined(self.alone[warp].get(lane, NOTHING))
            if lane != WHOLE_AGENT:
                view = view.joined(View.of_thread(thread_of(self.cta, warp, lane), self.now[warp]))
            result.append(view)
        return result

    def _base(self, warp: int) -> View:
        """What precedes the present of all threads of an agent."""
        return View({self.cta: self.known[warp].copy()}).joined(self._heard_there(warp))

    def _heard_there(self, warp: int) -> View:
        """What an agent has heard, with what it knows of other CTAs whose shared memory it accesses."""
        visited = {there.cta: there.known[number].copy() for there, number in self.visits[warp].items()}
        return View(visited).joined(self.heard[warp]) if visited else self.heard[warp]

    def _tell_visits(self, warp: int, view: View) -> None:
        """Add a view to what the agent knows in each CTA whose shared memory it accesses, for all its lanes."""
        for there, number in self.visits[warp].items():
            if (known := view.ctas.get(there.cta)) is not None:
                there.acquire(number, known)

    def learn(self, warp: int, lane: int, view: View) -> None:
        """A thread acquires a view; with the lane WHOLE_AGENT, all threads of the agent."""
        self._tell_visits(warp, view)
        if lane != WHOLE_AGENT:
            self.alone[warp][lane] = self.alone[warp].get(lane, NOTHING).joined(view)
            return
        own = view.ctas.get(self.cta)
        if own is not None:
            self.acquire(warp, own)
            view = View({cta: each for cta, each in view.ctas.items() if cta != self.cta}, view.threads, view.chains)
        self.heard[warp] = self.heard[warp].joined(view)

    def settle(self, warp: int, lanes: int) -> None:
        """What each of the agent's lanes knows alone, the agent knows."""
        alone = self.alone[warp]
        if len(alone) == lanes:
            self.learn(warp, WHOLE_AGENT, reduce(View.common, alone.values()))
            base = self._base(warp)
            self.alone[warp] = {lane: view for lane, view in alone.items() if not view.within(base)}

    def knows(self, warp: int, lane: int, thread: int, stored: int) -> bool:
        """Whether an access in an epoch, `stored` - 1, of a thread of the grid is ordered before the lane's present."""
        if thread == thread_of(self.cta, warp, lane) and lane != WHOLE_AGENT:
            return True
        agent = thread // LANES % WARPS
        if cta_of(thread) == self.cta and stored <= self.known[warp, agent]:
            return True
        return any(view.epochs(thread) >= stored for view in self._heard_by(warp, lane))

    def observed(self, warp: int, lane: int, chain: Any, number: int) -> bool:
        """Whether a write of a chain is ordered before the lane's present."""
        return any(view.chains.get(chain, 0) >= number for view in self._heard_by(warp, lane))

    def _heard_by(self, warp: int, lane: int) -> Iterator[View]:
        yield self.heard[warp]
        if lane in self.alone[warp]:
            yield self.alone[warp][lane]

    def acquired(self, warp: int) -> View:
        """What the lanes of an agent have acquired of other CTAs and devices."""
        return reduce(View.joined, self.alone[warp].values(), self.heard[warp])

    def refine(
        self, warp: int, lanes: Any, racing: NDArray[np.bool_], thread: NDArray[Any], stored: NDArray[Any]
    ) -> None:
        """Clear the entries of `racing` (rows, units) that a row's lane knows about single threads, or alone.

        `lanes`: array (rows, 1), or WHOLE_AGENT. `thread`, `stored` as in `knows`, like `racing`.
        """
        if not self.alone[warp] and self.heard[warp] is NOTHING:
            return
        column = np.broadcast_to(lanes, (len(racing), 1))
        for row, unit in np.argwhere(racing):
            if self.knows(warp, int(column[row, 0]), int(thread[row, unit]), int(stored[row, unit])):
                racing[row, unit] = False


def merge(into: Views, more: Views) -> None:
    """Add to views, by origin."""
    for origin, view in more.items():
        into[origin] = into[origin].joined(view) if origin in into else view
