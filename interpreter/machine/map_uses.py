"""Bulk copies that may still read a tensor map which lies in memory.

Whoever changes a map before such a copy has completed leaves the copy undefined (PTX ISA, "Completion Mechanisms for
Asynchronous Copy Operations"). A load has completed for those who know the phase of its mbarrier, a store for those who
know that its thread has waited for its bulk group, with `.read` or without. Kernels also wait for bulk groups before
they change a map by which they load, so a wait counts for the loads before the commit, too. Only copies by the same CTA
are known.
"""

from collections import defaultdict
from dataclasses import dataclass, field

from lowtide.interpreter.machine.clocks import Clocks
from lowtide.interpreter.machine.views import cta_of
from lowtide.interpreter.numbers.accesses import Described


@dataclass(eq=False, slots=True)
class _Use:
    """A copy by a thread of the grid, in its bulk `group`. `landing`: the clock of the mbarrier that a load signals,
    and its phase; `waited`: the epoch + 1 of the thread's wait for the group."""

    op: Described
    thread: int
    group: int
    landing: tuple[int, int] | None
    waited: int | None = None

    def is_over(self, clocks: Clocks, warp: int, lane: int) -> bool:
        """Whether an agent's lane knows that the copy has read the map."""
        if self.landing is not None and clocks.known[warp, self.landing[0]] > self.landing[1]:
            return True
        return self.waited is not None and clocks.knows(warp, lane, self.thread, self.waited)


@dataclass(eq=False)
class MapUses:
    """The copies of a launch by maps in memory, by address of the map, and the number of bulk groups that each thread
    has committed."""

    _uses: dict[int, dict[tuple[int, int], _Use]] = field(default_factory=lambda: defaultdict(dict))
    _groups: dict[int, int] = field(default_factory=lambda: defaultdict(int))

    def begin(self, op: Described, address: int, thread: int, landing: tuple[int, int] | None = None) -> None:
        """A thread starts a copy by a map. `landing` as in `_Use`."""
        group = self._groups[thread]
        key = thread, group if landing is None else -1 - landing[0]  # the last one of each group and mbarrier
        self._uses[address][key] = _Use(op, thread, group, landing)

    def commit(self, thread: int) -> None:
        """A thread closes its bulk group."""
        if self._uses:
            self._groups[thread] += 1

    def wait(self, thread: int, pending: int, stored: int) -> None:
        """A thread has waited, in epoch `stored` - 1, for its groups but the `pending` youngest."""
        for uses in self._uses.values():
            for each in uses.values():
                if each.thread == thread and each.group < self._groups[thread] - pending and each.waited is None:
                    each.waited = stored

    def open(self, address: int, clocks: Clocks, warp: int, lane: int) -> Described | None:
        """A copy that may still read the map, as far as an agent's lane knows."""
        for key, each in list(self._uses.get(address, {}).items()):
            if cta_of(each.thread) != clocks.cta:
                continue
            if not each.is_over(clocks, warp, lane):
                return each.op
            del self._uses[address][key]
        return None
