"""cp.async groups: the copies of a thread that a wait covers (PTX ISA, "cp.async.commit_group", "…wait_group").

Each thread counts its own groups. A copy belongs to the group that is open when it starts; `commit` closes it (it may
be empty); `wait(n)` returns when all but the last n closed groups have landed. A copy that is never committed never
lands.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lowtide.interpreter.machine.global_memory import GlobalMemory
from lowtide.interpreter.machine.memory import InFlight, SharedMemory, start_copy
from lowtide.interpreter.numbers.accesses import Access, Ints, Values


@dataclass(eq=False)
class Tracked:
    """Copies whose landing arrives at an mbarrier (async_arrivals.py): their lanes and groups."""

    flight: InFlight
    lanes: Ints
    group: Ints | int
    has_landed: bool = False


class AsyncCopies:
    """The cp.async of one CTA's threads, into its shared memory."""

    def __init__(self, shared: SharedMemory) -> None:
        self.shared = shared
        self._closed: NDArray[np.int64] = np.zeros((shared.clocks.warps, 32), np.int64)
        self._in_step = [True] * shared.clocks.warps  # whether the lanes of a warp have always committed together
        self._tracked: list[list[Tracked]] = [[] for _ in range(shared.clocks.warps)]
        self._started: list[list[tuple[InFlight, Ints, Ints | int]]] = [[] for _ in range(shared.clocks.warps)]

    def start(
        self,
        source: GlobalMemory,
        access: Access,
        shared_addresses: Ints,
        global_addresses: Ints,
        size: int,
        used: Ints | None = None,
    ) -> None:
        """cp.async of `size` bytes by each lane of `access.lanes`; bytes after the first `used` are zero-filled."""
        whole = start_copy(source, self.shared, access, shared_addresses, global_addresses, size, used, by_threads=True)
        for copy in whole.by_warp():
            warp, lanes = copy.access.warp, np.asarray(copy.access.lanes)
            closed = self._closed[warp]
            group = int(closed[0]) if self._in_step[warp] else closed[lanes]
            self._started[warp].append((copy, lanes, group))

    def commit(self, warp: int, active: Values | None = None) -> None:
        """cp.async.commit_group by the lanes of a warp (those where `active` (32,) is true)."""
        self._closed[warp] += 1 if active is None else active
        self._in_step[warp] &= active is None

    def track(self, warp: int, active: Values | None = None) -> list[Tracked]:
        """The copies in flight of the lanes of a warp (those where `active` (32,) is true), which an mbarrier now
        tracks; a wait for their groups still covers them."""
        found, remaining = [], []
        for copy, lanes, group in self._started[warp]:
            mine = np.ones(len(lanes), np.bool_) if active is None else active[lanes]
            groups = np.broadcast_to(group, mine.shape)
            if mine.any():
                found.append(Tracked(copy if mine.all() else copy.rows(mine), lanes[mine], groups[mine]))
            if not mine.all():
                remaining.append((copy.rows(~mine), lanes[~mine], groups[~mine]))
        self._started[warp] = remaining
        self._tracked[warp] = [each for each in self._tracked[warp] if not each.has_landed] + found
        return found

    def wait(self, warp: int, pending: int, active: Values | None = None) -> None:
        """cp.async.wait_group `pending` by the lanes of a warp (those where `active` (32,) is true)."""
        landed = self._closed[warp] - pending  # groups below this number
        in_step = self._in_step[warp] and active is None
        if active is not None:
            landed = np.where(active, landed, 0)
        remaining: list[tuple[InFlight, Ints, Ints | int]] = []
        for copy, lanes, group in self._started[warp]:
            if in_step:  # then all copies have been started in step
                if group < landed[0]:
                    self.shared.land(copy)
                else:
                    remaining.append((copy, lanes, group))
                continue
            done = group < landed[lanes]
            if done.any():
                self.shared.land(copy if done.all() else copy.rows(done))
            if not done.all():
                remaining.append((copy.rows(~done), lanes[~done], np.broadcast_to(group, done.shape)[~done]))
        self._started[warp] = remaining
        for tracked in self._tracked[warp]:
            covered = np.broadcast_to(tracked.group, tracked.lanes.shape) < landed[tracked.lanes]
            if not tracked.has_landed and covered.all():
                tracked.has_landed = True
                self.shared.land(tracked.flight)

    def wait_all(self, warp: int, active: Values | None = None) -> None:
        """cp.async.wait_all: a commit, and a wait for all groups."""
        self.commit(warp, active)
        self.wait(warp, 0, active)

    def in_flight(self, warp: int) -> int:
        """The number of copies of the warp's lanes that have started but not landed."""
        return sum(len(lanes) for _, lanes, _ in self._started[warp])
