"""Which accesses of a launch are ordered before an access: by barriers within a CTA, by semaphores between CTAs, and by
a wait for the kernels before this one in a programmatic launch. Nothing else orders accesses of different threads."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from lowtide.interpreter.machine.allocations import Allocations
from lowtide.interpreter.machine.clocks import Clocks
from lowtide.interpreter.machine.views import ELSEWHERE, NOTHING, View, is_elsewhere
from lowtide.interpreter.numbers.accesses import (
    LANES,
    WARPS,
    WHOLE_AGENT,
    Access,
    Ints,
    Span,
    Values,
    lane_column,
    thread_name,
)
from lowtide.interpreter.program.batches import NotTogether

NARROW = "and the scopes of the two do not include each other's thread"


class LaunchOrder(Allocations):
    """Memory with the clocks of the CTAs of a launch."""

    def __init__(self, payload: Any = np.float64) -> None:
        super().__init__(payload)
        self.clocks: dict[int, Clocks] = {}
        #: Of each other device that writes here: notes its writes again, which no launch orders.
        self.devices: list[Callable[[], None]] = []
        self._fenced: dict[tuple[int, int], View] = {}  # by agent: what its last proxy fence comes after
        self._earlier_kernels: dict[int, int] | None = None  # their clock in each CTA; None if they have ended
        # By CTA and agent: the epoch of its wait for them, and the lanes that waited (None: all).
        self._waiting: dict[tuple[int, int], tuple[int, Ints | None]] = {}

    def begin_order(self, programmatic: bool) -> None:
        """A launch without CTAs yet. In a `programmatic` one, the kernels before it may not have ended."""
        self.clocks = {}
        self._fenced = {}
        self._earlier_kernels = {} if programmatic else None
        self._waiting = {}

    def enter(self, cta: int, clocks: Clocks, cluster: int = 1) -> None:
        """A CTA of this launch, with the clocks of its warps; it is in a cluster of so many CTAs."""
        clocks.cta, clocks.cluster = cta, cluster
        self.clocks[cta] = clocks
        if self._earlier_kernels is not None:
            self._earlier_kernels[cta] = clocks.add_source("the kernels before")

    def earlier_kernels_ended(self, cta: int, warp: int, lanes: Ints | None = None) -> None:
        """Lanes of the agent (None: all) have waited for the preceding kernels. Other agents learn it from the agent;
        its other lanes learn it when its epoch ends."""
        if self._earlier_kernels is not None:
            clocks = self.clocks[cta]
            epoch, waited = self._waiting.get((cta, warp), (clocks.together(warp), np.zeros(0, np.int64)))
            if epoch == clocks.together(warp) and waited is not None:
                self._waiting[cta, warp] = epoch, None if lanes is None else np.union1d(waited, lanes)
            clocks.known[warp, self._earlier_kernels[cta]] = 1

    def check_earlier_kernels(self, access: Access, span: Span) -> None:
        """Raise for an access that may come before the end of the kernels before this one."""
        if self._earlier_kernels is None or not span.addresses.size:
            return
        if access.warps is not None:
            raise NotTogether
        clocks = self.clocks[access.cta]
        has_ended = bool(clocks.known[access.warp, self._earlier_kernels[access.cta]])
        epoch, lanes = self._waiting.get((access.cta, access.warp), (-1, None))
        if access.lanes is not None and lanes is not None and epoch == clocks.together(access.warp):
            has_ended &= bool(np.isin(access.lanes, lanes).all())
        if not has_ended:
            rule = (
                "the kernels before this one may still write here; wait for them by griddepcontrol.wait before"
                " [earlier-kernels]"
            )
            self.fail(access, span.addresses, 0, 0, rule)

    def fence_proxy(self, cta: int, warp: int) -> None:
        """An agent executes fence.proxy.async: what it has acquired comes before its TMA loads that follow."""
        if self.devices and cta in self.clocks:
            self._fenced[cta, warp] = self.clocks[cta].acquired(warp)

    def unfenced(self, access: Access, thread: Ints, stored: Ints) -> NDArray[np.bool_]:
        """The writes of other devices, by threads in epochs, between which and a TMA load of the agent no proxy fence
        was executed."""
        fenced = self._fenced.get((access.cta, access.warp), NOTHING)
        elsewhere = (thread - 1) // (LANES * WARPS) >= ELSEWHERE
        found: NDArray[np.bool_] = elsewhere.copy()
        pairs = {(int(at), int(epoch)) for at, epoch in zip(thread[elsewhere], stored[elsewhere], strict=True)}
        for at, epoch in pairs:
            if fenced.epochs(at - 1) >= epoch:
                found &= ~((thread == at) & (stored == epoch))
        return found

    def late(self, access: Access, rows: Ints, threads: Ints, epochs: Ints) -> Values:
        """Which accesses of threads in epochs are not ordered before the access of a row of one agent; all (n,)."""
        of_rows = replace(access, lanes=None if access.lanes is None else np.asarray(access.lanes)[rows], ops=())
        return self.unordered(of_rows, threads[:, None], epochs[:, None])[:, 0]

    def thread(self, access: Access) -> Any:
        """The grid-wide number of each row's thread, + 1."""
        first = (cta_of(access) * WARPS + access.agents) * LANES + 1
        return (np.int64(first) if isinstance(first, int) else first) + lane_column(access)

    def epoch_of(self, access: Access) -> Any:
        """The epoch of each row's agent; 0 for the host."""
        if access.cta not in self.clocks:
            return 0
        if access.crews is None:
            return self.clocks[access.cta].epochs(access.agents)
        each = [self.clocks[cta] for cta in access.ctas]
        return np.array([clocks.now[: clocks.warps] for clocks in each], np.int32)[access.crews, access.agents]

    def _known_to(self, access: Access, agents: Any) -> Any:
        """What the agent of each row knows of other agents of its CTA: the number of ended epochs."""
        if access.crews is None:
            return self.clocks[access.cta].known[access.agents, agents]
        each = [self.clocks[cta] for cta in access.ctas]
        if np.max(agents, initial=0) >= each[0].warps:  # a source of writes
            raise NotTogether
        known = np.stack([clocks.known[: clocks.warps, : clocks.warps] for clocks in each])
        return known[access.crews, access.agents, agents]

    def unordered(self, access: Access, thread: Ints, stored: Ints) -> NDArray[np.bool_]:
        """The accesses by other threads (0: no thread) in these epochs that are not ordered before this access."""
        number = thread - 1
        warp, lane = number // LANES, lane_column(access)
        others = (number >= 0) & (warp // WARPS != cta_of(access))
        racing: NDArray[np.bool_] = others & ~self._is_acquired(access, warp, stored) if others.any() else others
        if access.cta in self.clocks:
            agents = access.agents
            mine = (number >= 0) & ~others
            late = stored > self._known_to(access, np.where(mine, warp % WARPS, 0))
            same = (warp % WARPS == agents) & (number % LANES == lane) & (number % LANES != WHOLE_AGENT)
            racing |= mine & late & ~same
            if access.warps is None and racing.any():
                number, stored = (np.broadcast_to(each, racing.shape) for each in (number, stored))
                self.clocks[access.cta].refine(access.warp, lane, racing, number, stored)
        return racing

    def fail_race(self, access: Access, span: Span, row: int, byte: int, rule: str, thread: int, site: int) -> NoReturn:
        """Raise the error of a race with a thread of the grid, whose name replaces {} in `rule`."""
        if access.warps is not None:
            raise NotTogether
        other = thread - 1
        cta = other // LANES // WARPS
        names: Sequence[str] = self.clocks[cta].names if cta in self.clocks else ()
        who = names[0] if is_elsewhere(cta) else f"CTA {cta} {thread_name(other % (LANES * WARPS), names)}"
        remedy = (
            "put a barrier of the CTA between the two"
            if cta == access.cta
            else "if the CTAs should not share these elements, check the grid and the masks; if they should, let its "
            "CTA arrive at a semaphore after that, and this one wait for it before"
        )
        if NARROW in rule:
            others = ".sys, which includes other devices", ".gpu, the scope of an operation that names none"
            wanted = others[0 if is_elsewhere(cta) else 1]
            remedy = f"widen them to {wanted}"
        elif is_elsewhere(cta) or is_elsewhere(access.cta):
            remedy = "write the flag behind the data, and wait for it before they are read"
        what = f"race {rule.format(who)}, nothing orders the two; it did so{self.by(site)}; {remedy} [global-race]"
        self.fail(access, span.addresses, row, byte, what)

    def _is_acquired(self, access: Access, warp: Ints, stored: Ints) -> NDArray[np.bool_]:
        """Which writes of other CTAs the accessing agent has acquired: by warp of the grid, and epoch + 1."""
        heard = self.clocks[access.cta].heard[access.warp].ctas if access.cta in self.clocks else {}
        result = np.zeros(warp.shape, np.bool_)
        if access.warps is not None:  # each may have heard of others
            return result
        for cta, knowledge in heard.items():
            theirs = (warp // WARPS == cta) & (warp % WARPS < len(knowledge))
            result |= theirs & (stored <= knowledge[np.where(theirs, warp % WARPS, 0)])
        return result


def cta_of(access: Access) -> Any:
    """The CTA of each row, array (n, 1), or of all rows."""
    return access.cta if access.crews is None else np.array(access.ctas, np.int64)[access.crews]
