"""The proxy fences of agents, which order accesses of shared memory by threads before those of the async proxy.

Threads access memory through the generic proxy; TMA and wgmma through the async proxy. An access of one proxy comes
before one of the other only by way of a proxy fence on the path between them (PTX ISA, "Memory Consistency Model",
"Proxy-preserved base causality order"). For a write, the fence may be that of any thread on the path: of the writer,
before it releases the bytes, or of the thread that starts the asynchronous operation, after it has acquired them. For a
read before a bulk copy over the same bytes, only a fence of the reader counts here.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.interpreter.machine.clocks import Clocks
from lowtide.interpreter.machine.views import Knowledge
from lowtide.interpreter.numbers.accesses import LANE_BITS, WHOLE_AGENT, Ints


@dataclass(frozen=True, slots=True)
class ProxyFence:
    """A fence in an epoch of an agent, by some of its lanes (None: all), with what the agent knew."""

    epoch: int
    lanes: Any
    known: Knowledge

    def follows(self, writer: Ints, stored: Ints) -> NDArray[np.bool_]:
        """Which writes come before it. `writer`: their threads; `stored`: their epochs + 1."""
        agents = writer >> LANE_BITS
        is_known = agents < len(self.known)  # later sources of writes come after it
        return is_known & (stored <= self.known[np.where(is_known, agents, 0)])


class ProxyFences:
    """The fences of each agent, in order."""

    def __init__(self) -> None:
        self._fences: dict[int, list[ProxyFence]] = {}

    def count(self, agent: int) -> int:
        """The number of fences that the agent has executed."""
        return len(self._fences.get(agent, ()))

    def add(self, agent: int, lanes: Any, clocks: Clocks) -> None:
        """The agent's lanes execute a fence now."""
        fence = ProxyFence(clocks.epoch(agent), lanes, clocks.known[agent].copy())
        self._fences.setdefault(agent, []).append(fence)

    def between(self, clocks: Clocks, reader: int, lane: Any, writer: Ints, stored: Ints) -> NDArray[np.bool_]:
        """Which writes come before a fence that comes before the present of a reader.

        `lane`: the reader's lanes, array (rows, 1), or WHOLE_AGENT. `writer`, `stored`: as in `ProxyFence.follows`,
        arrays (rows, units).
        """
        found = np.zeros(stored.shape, np.bool_)
        for agent, fences in self._fences.items():
            ended = bisect_left(fences, int(clocks.known[reader, agent]), key=lambda fence: fence.epoch)
            if ended:  # the last fence of the agent that all threads of the reader know; it knows most
                found |= fences[ended - 1].follows(writer, stored)
            if agent == reader:
                found |= _own(fences[ended:], lane, writer, stored)
        return found

    def ordered(self, agent: int, known: int) -> NDArray[np.int64]:
        """For each lane, and for WHOLE_AGENT, the number of fences up to the last one that covers it.

        Only fences in the first `known` epochs of this agent count: those are ordered before the agent that asks. A
        read is covered if fewer fences than this number came before it.
        """
        covered = np.zeros(WHOLE_AGENT + 1, np.int64)
        fences = self._fences.get(agent, ())
        for number in range(len(fences), 0, -1):
            fence = fences[number - 1]
            if fence.epoch >= known:
                continue
            if fence.lanes is None:
                return np.maximum(covered, number)
            covered[fence.lanes] = np.maximum(covered[fence.lanes], number)
        return covered


def _own(fences: Sequence[ProxyFence], lane: Any, writer: Ints, stored: Ints) -> NDArray[np.bool_]:
    """As `ProxyFences.between`, with fences that only the lanes that executed them know."""
    found, left = np.zeros(stored.shape, np.bool_), np.ones((len(stored), 1), np.bool_)  # lanes without a fence so far
    for fence in reversed(fences):
        by = left if fence.lanes is None else left & np.isin(lane, fence.lanes)
        if np.count_nonzero(by):
            found |= by & fence.follows(writer, stored)
            left = left & ~by
            if not np.count_nonzero(left):
                break
    return found
