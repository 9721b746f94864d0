"""Scopes of operations, and views: what comes before an action of a thread (PTX ISA, "Scope", "Causality Order")."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lowtide.interpreter.numbers.accesses import LANES, WARPS

Knowledge = NDArray[np.int32]
"""For each clock of a CTA, the number of ended epochs: array (clocks,)."""

_WARP = 32
ELSEWHERE = 1 << 32
"""Agents of other devices, such as copy engines, are numbered from here on, as CTAs of one agent."""
_CTA = WARPS * LANES


class Scope(IntEnum):
    """The threads that an operation includes: those of its CTA, of its cluster, of the GPU, of the system."""

    cta = 1
    cluster = 2
    gpu = 3
    sys = 4


@dataclass(frozen=True, slots=True)
class Strong:
    """The scope of a strong operation, and the bytes of each of its elements; whether it reads and writes at once."""

    scope: Scope
    size: int
    is_atomic: bool = False


class Origin(NamedTuple):
    """The CTA of a strong operation, and the operation's scope."""

    cta: int
    scope: Scope


def thread_of(cta: int, agent: int, lane: int) -> int:
    """The number of a thread in the grid; lane WHOLE_AGENT stands for all threads of the agent."""
    return (cta * WARPS + agent) * LANES + lane


def cta_of(thread: int) -> int:
    """The CTA of a thread of the grid."""
    return thread // _CTA


def is_elsewhere(cta: int) -> bool:
    """Whether this is not a CTA, but an agent of another device."""
    return cta >= ELSEWHERE


def are_mutual(x: Origin, y: Origin, cluster: int) -> bool:
    """Whether each operation's scope includes the other's thread (PTX ISA, "Morally Strong Operations"). Clusters have
    `cluster` CTAs."""
    narrow = min(x.scope, y.scope)
    if narrow >= Scope.sys or x.cta == y.cta:
        return True
    if is_elsewhere(x.cta) or is_elsewhere(y.cta):
        return False
    if narrow >= Scope.gpu:
        return True
    return narrow == Scope.cluster and x.cta // cluster == y.cta // cluster


@dataclass(eq=False, slots=True)
class Chain:
    """The number of writes in a chain: a strong write of a word, then atomic operations, each of the value that the one
    before it has written (PTX ISA, "Observation Order")."""

    writes: int = 0


@dataclass(frozen=True, slots=True)
class View:
    """What is ordered before an action: by CTA the ended epochs of its agents; by agent of the grid those of its single
    threads, by lane; and of chains their first writes. An agent all of whose threads are known is in its CTA.

    Views share their parts: none of the arrays and mappings is changed once it is in a view.
    """

    ctas: Mapping[int, Knowledge] = field(default_factory=dict)
    threads: Mapping[int, Knowledge] = field(default_factory=dict)
    chains: Mapping[Chain, int] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not (self.ctas or self.threads or self.chains)

    @staticmethod
    def of_thread(thread: int, epochs: int) -> View:
        """The ended epochs of one thread."""
        agent, lane = divmod(thread, LANES)
        return View(threads={agent: _only(lane, epochs)})

    def joined(self, other: View) -> View:
        """The union."""
        if other is self or other.is_empty:
            return self
        if self.is_empty:
            return other
        ctas, threads = _union(self.ctas, other.ctas), _union(self.threads, other.threads)
        chains = _largest(self.chains, other.chains)
        for each in (other, self):
            if ctas is each.ctas and threads is each.threads and chains is each.chains:
                return each
        if threads is not self.threads and threads is not other.threads:
            ctas, threads = _folded(ctas, threads, self.threads)
        return View(ctas, threads, chains)

    def common(self, other: View) -> View:
        """The part that both have."""
        if other is self:
            return self
        ctas = {
            cta: mine if mine is theirs else np.minimum(mine[: len(theirs)], theirs[: len(mine)])
            for cta, mine in self.ctas.items()
            if (theirs := other.ctas.get(cta)) is not None
        }
        threads = {
            agent: mine if mine is other.threads.get(agent) else np.minimum(mine, other.lanes(agent, len(mine)))
            for agent, mine in self.threads.items()
        }
        threads = {agent: epochs for agent, epochs in threads.items() if epochs.any()}
        chains = {chain: min(n, other.chains[chain]) for chain, n in self.chains.items() if chain in other.chains}
        return View(ctas, threads, chains)

    def within(self, other: View) -> bool:
        """Whether the other has all of this."""
        return (
            all(_is_within(mine, other.ctas.get(cta, nothing())) for cta, mine in self.ctas.items())
            and all(
                mine is other.threads.get(agent) or (mine <= other.lanes(agent, len(mine))).all()
                for agent, mine in self.threads.items()
            )
            and all(other.chains.get(chain, 0) >= number for chain, number in self.chains.items())
        )

    def of_agent(self, agent: int) -> int:
        """The number of epochs of an agent of the grid that have ended for all of its threads."""
        cta, agent = divmod(agent, WARPS)
        knowledge = self.ctas.get(cta)
        return int(knowledge[agent]) if knowledge is not None and agent < len(knowledge) else 0

    def lanes(self, agent: int, count: int) -> Knowledge:
        """The numbers of ended epochs of the first lanes of an agent of the grid."""
        found, alone = np.full(count, self.of_agent(agent), np.int32), self.threads.get(agent, nothing())[:count]
        np.maximum(found[: len(alone)], alone, out=found[: len(alone)])
        return found

    def epochs(self, thread: int) -> int:
        """The number of ended epochs of a thread."""
        agent, lane = divmod(thread, LANES)
        alone = self.threads.get(agent)
        return max(self.of_agent(agent), int(alone[lane]) if alone is not None and lane < len(alone) else 0)


NOTHING = View()


@lru_cache(maxsize=1024)
def _only(lane: int, epochs: int) -> Knowledge:
    found = np.zeros(max(_WARP, lane + 1), np.int32)
    found[lane] = epochs
    return found


def _folded(
    ctas: Mapping[int, Knowledge], threads: Mapping[int, Knowledge], before: Mapping[int, Knowledge]
) -> tuple[Mapping[int, Knowledge], Mapping[int, Knowledge]]:
    """The same, in which the agents that differ from `before` are in their CTAs if all their threads are known."""
    more, kept = dict(ctas), dict(threads)
    for agent, epochs in threads.items():
        if epochs is before.get(agent) or not (least := int(epochs.min())):
            continue
        cta, number = divmod(agent, WARPS)
        whole = np.zeros(number + 1, np.int32)
        whole[number] = least
        more[cta] = joined(more.get(cta, nothing()), whole)
        if epochs.max() <= more[cta][number]:
            del kept[agent]
    return more, kept


def _union(mine: Mapping[int, Knowledge], more: Mapping[int, Knowledge]) -> Mapping[int, Knowledge]:
    """The union; one of the two, if it has all of the other."""
    if not more or mine is more:
        return mine
    if not mine:
        return more
    large, small = (more, mine) if len(more) >= len(mine) else (mine, more)
    changed = {}
    for key, value in small.items():
        held = large.get(key)
        if held is not value and (now := value if held is None else joined(held, value)) is not held:
            changed[key] = now
    return {**large, **changed} if changed else large


def _largest(mine: Mapping[Any, int], more: Mapping[Any, int]) -> Mapping[Any, int]:
    if not more or mine is more:
        return mine
    large, small = (more, mine) if len(more) >= len(mine) else (mine, more)
    changed = {key: value for key, value in small.items() if large.get(key, -1) < value}
    return {**large, **changed} if changed else large


def _is_within(mine: Knowledge, theirs: Knowledge) -> bool:
    if mine is theirs:
        return True
    shared = min(len(mine), len(theirs))
    return not (mine[:shared] > theirs[:shared]).any() and not mine[shared:].any()


def joined(first: Knowledge, second: Knowledge) -> Knowledge:
    """The union of two states of knowledge; one of them, if it has all of the other."""
    if len(first) != len(second):
        result = np.zeros(max(len(first), len(second)), np.int32)
        result[: len(first)] = first
        np.maximum(result[: len(second)], second, out=result[: len(second)])
        return result
    result = np.maximum(first, second)
    made = result.tobytes()  # faster to compare than arrays of a few numbers
    if made == first.tobytes():
        return first
    return second if made == second.tobytes() else result


def nothing() -> Knowledge:
    """Knowledge of no clock."""
    return np.zeros(0, np.int32)
