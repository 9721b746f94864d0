"""The proxy fences of agents, which order a thread's reads of shared memory before a bulk copy over the same bytes.

Threads read through the generic proxy, and TMA writes through the async proxy. The two are ordered only by way of a
proxy fence (PTX ISA, "Memory Consistency Model", "Proxy-preserved base causality order"): the reader executes
fence.proxy.async after its read, and then releases the bytes.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.interpreter.numbers.cells import WHOLE_AGENT


class ProxyFences:
    """The fences of each agent, in order: the epoch of the agent, and the lanes that executed it (None: all)."""

    def __init__(self) -> None:
        self._fences: dict[int, list[tuple[int, Any]]] = {}

    def count(self, agent: int) -> int:
        """The number of fences that the agent has executed."""
        return len(self._fences.get(agent, ()))

    def add(self, agent: int, epoch: int, lanes: Any) -> None:
        """The agent's lanes execute a fence in this epoch."""
        self._fences.setdefault(agent, []).append((epoch, lanes))

    def ordered(self, agent: int, known: int) -> NDArray[np.int64]:
        """For each lane, and for WHOLE_AGENT, the number of fences up to the last one that covers it.

        Only fences in the first `known` epochs of this agent count: those are ordered before the agent that asks. A
        read is covered if fewer fences than this number came before it.
        """
        covered = np.zeros(WHOLE_AGENT + 1, np.int64)
        fences = self._fences.get(agent, ())
        for number in range(len(fences), 0, -1):
            epoch, lanes = fences[number - 1]
            if epoch >= known:
                continue
            if lanes is None:
                return np.maximum(covered, number)
            covered[lanes] = np.maximum(covered[lanes], number)
        return covered
