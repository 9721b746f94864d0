"""Happens-before within one CTA: a vector clock for each agent (a warp, a warpgroup, a role, or the whole CTA).

An *epoch* of an agent ends at each of its ordering events. What an agent did in an epoch is ordered before the present
of another agent once that one knows a later epoch: `known[r, w] > epoch`. Threads of one warp are also not ordered
among themselves within an epoch (PTX ISA, "Memory Consistency Model": program order is per thread).

A writer that is not an agent, such as TMA, has a clock too: `add_source`. Its epochs are ended by the events that make
its writes visible (the phases of an mbarrier).
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Knowledge = NDArray[np.int32]
"""For each clock, the number of ended epochs: array (clocks,)."""


class Clocks:
    """The clocks of `warps` agents, and of further sources of writes, with their names for messages.

    `known[r, w]`: the number of ended epochs of w when r last heard of it; an agent's own on the diagonal. Sources
    learn nothing. `heard[r]`: by CTA, the clocks of other CTAs that r has acquired.
    """

    def __init__(self, warps: int, names: Sequence[str] = ()) -> None:
        self.warps = warps
        self.names = list(names) or [f"warp {warp}" for warp in range(warps)]
        self.known: NDArray[np.int32] = np.zeros((warps, warps), np.int32)
        self.heard: list[dict[int, Knowledge]] = [{} for _ in range(warps)]

    def add_source(self, name: str) -> int:
        """Adds a clock and returns its number: for a source that is not an agent, or for an agent of another CTA, which
        learns like the CTA's own agents."""
        self.known = np.pad(self.known, ((0, 1), (0, 1)))
        self.names.append(name)
        return len(self.names) - 1

    def epoch(self, warp: int) -> int:
        """The current epoch of an agent."""
        return int(self.known[warp, warp])

    def warp_sync(self, warp: int) -> None:
        """bar.warp.sync by all lanes: orders the lanes of the warp; other agents learn nothing."""
        self.known[warp, warp] += 1

    def barrier(self, warps: Sequence[int] | None = None) -> None:
        """bar.sync by `warps` (all if None): each then knows what any of them knew."""
        members = np.arange(self.warps) if warps is None else np.asarray(warps)
        self.known[members, members] += 1
        self.known[members] = self.known[members].max(axis=0)
        if any(self.heard[member] for member in members):
            together: dict[int, Knowledge] = {}
            for member in members:
                merged(together, self.heard[member])
            for member in members:
                self.heard[member] = dict(together)

    def release(self, warp: int) -> Knowledge:
        """End the agent's current epoch. Returns the knowledge of an agent that `acquire`s it."""
        self.known[warp, warp] += 1
        return self.known[warp].copy()

    def release_ordered(self, warp: int) -> Knowledge:
        """The release of a single thread: only what an ordering event put before it; its epoch continues."""
        return self.known[warp].copy()

    def acquire(self, warp: int, knowledge: Knowledge) -> None:
        """The agent learns released knowledge; it learns nothing about clocks added since then."""
        mine = self.known[warp, : len(knowledge)]
        np.maximum(mine, knowledge, out=mine)


def merged(into: dict[int, Knowledge], more: Mapping[int, Knowledge]) -> None:
    """Add to the knowledge of the clocks of CTAs."""
    for cta, knowledge in more.items():
        into[cta] = joined(into[cta], knowledge) if cta in into else knowledge


def joined(first: Knowledge, second: Knowledge) -> Knowledge:
    """The union of two states of knowledge."""
    result = np.zeros(max(len(first), len(second)), np.int32)
    result[: len(first)] = first
    np.maximum(result[: len(second)], second, out=result[: len(second)])
    return result


def nothing() -> Knowledge:
    """Knowledge of no clock."""
    return np.zeros(0, np.int32)
