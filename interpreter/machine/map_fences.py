"""Whether the TMA unit sees a tensor map in global memory as threads have left it.

Threads change a map through the generic proxy, and bulk copies read it through the tensormap proxy. A change comes
before a copy only if, along their order, a thread releases it to that proxy (fence.proxy.tensormap::generic.release, or
tensormap.cp_fenceproxy), and then a thread of the copy's CTA acquires the map (…acquire). The start of a kernel does
not acquire, so a map that an earlier kernel has written needs the acquire too. PTX ISA, "Proxies", "Causality Order",
"membar, fence".
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

from lowtide.interpreter.machine import patterns
from lowtide.interpreter.machine.clocks import Clocks
from lowtide.interpreter.machine.patterns import Ordering
from lowtide.interpreter.machine.views import Origin, Scope, View, are_mutual, cta_of, thread_of

Write = tuple[int, int]
"""The thread of the grid that last wrote some of a map's bytes in this launch, and its epoch + 1."""
Writes = frozenset[Write]


@dataclass(frozen=True, slots=True)
class _Release:
    """A release fence of a thread, in its epoch `stored` - 1, and what precedes it."""

    thread: int
    stored: int
    scope: Scope
    view: View


@dataclass(frozen=True, slots=True)
class _Acquire:
    """An acquire fence of a thread: the writes of the map that it found, and one of them that no release fence before
    it covers."""

    thread: int
    stored: int
    writes: Writes
    unreleased: Write | None


@dataclass(eq=False)
class MapFences:
    """The fences between the generic and the tensormap proxy in a launch: releases by CTA, and acquires by CTA and
    address of the map."""

    _releases: dict[int, list[_Release]] = field(default_factory=lambda: defaultdict(list))
    _acquires: dict[tuple[int, int], list[_Acquire]] = field(default_factory=lambda: defaultdict(list))

    def release(self, clocks: Clocks, warp: int, lanes: Sequence[int], scope: Scope, together: bool = False) -> None:
        """fence.proxy.tensormap::generic.release by these lanes; `together`: a barrier of the warp follows."""
        patterns.fence(clocks, warp, lanes, Ordering(scope, releases=True))
        for lane in lanes[:1] if together else lanes:
            view, thread = clocks.waiting(warp, lane).fenced[scope], thread_of(clocks.cta, warp, lane)
            self._releases[clocks.cta].append(_Release(thread, clocks.epoch(warp), scope, view))

    def acquire(self, clocks: Clocks, agent: tuple[int, int], address: int, writes: Writes, scope: Scope) -> None:
        """fence.proxy.tensormap::generic.acquire of a map by an agent's lane."""
        warp, lane = agent
        patterns.fence(clocks, warp, (lane,), Ordering(scope, acquires=True))
        own, thread = Origin(clocks.cta, scope), thread_of(clocks.cta, warp, lane)
        unreleased = next((each for each in sorted(writes) if not self._is_released(clocks, agent, each, own)), None)
        known = self._acquires[clocks.cta, address]
        known[:] = [each for each in known if each.writes == writes]
        if not any(each.thread == thread and each.unreleased is None for each in known):  # others may know that one
            known.append(_Acquire(thread, clocks.epoch(warp) + 1, writes, unreleased))
        clocks.views(warp, (lane,))  # what the thread writes later is in a later epoch

    def _is_released(self, clocks: Clocks, agent: tuple[int, int], write: Write, own: Origin) -> bool:
        """Whether a release fence after a write comes before the present of an agent's lane."""
        thread, stored = write
        usual = cta_of(thread)  # of the writer; then that of any other thread that knows the write
        others = (fences for cta, fences in self._releases.items() if cta != usual)
        return any(
            each.view.epochs(thread) >= stored
            and clocks.knows(*agent, each.thread, each.stored)
            and are_mutual(Origin(cta_of(each.thread), each.scope), own, clocks.cluster)
            for fences in chain((self._releases.get(usual, []),), others)
            for each in reversed(fences)
        )

    def lacks(self, clocks: Clocks, agent: tuple[int, int], address: int, writes: Writes) -> Write | str:
        """Why a copy by an agent's lane may not see a map: a write that is not released, or in words what the acquire
        lacks. Empty if the copy sees it."""
        found = self._acquires.get((clocks.cta, address), [])
        current = [each for each in found if each.writes == writes]
        known = [each for each in current if clocks.knows(*agent, each.thread, each.stored)]
        if any(each.unreleased is None for each in known):
            return ""
        for each in known:
            if each.unreleased is not None:
                return each.unreleased
        if current:
            return "with no barrier after the acquire fence of another thread"
        return "with no acquire fence after its last change" if found else "with no acquire fence in this CTA"
