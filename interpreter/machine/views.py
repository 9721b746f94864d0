"""Scopes of operations, and views: what comes before an action of a thread (PTX ISA, "Scope", "Causality Order")."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lowtide.interpreter.numbers.cells import LANES, WARPS, WHOLE_AGENT

Knowledge = NDArray[np.int32]
"""For each clock of a CTA, the number of ended epochs: array (clocks,)."""

_WARP = 32
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


def are_mutual(x: Origin, y: Origin, cluster: int) -> bool:
    """Whether each operation's scope includes the other's thread (PTX ISA, "Morally Strong Operations"). Clusters have
    `cluster` CTAs."""
    narrow = min(x.scope, y.scope)
    if narrow >= Scope.gpu or x.cta == y.cta:
        return True
    return narrow == Scope.cluster and x.cta // cluster == y.cta // cluster


@dataclass(eq=False, slots=True)
class Chain:
    """The number of writes in a chain: a strong write of a word, then atomic operations, each of the value that the one
    before it has written (PTX ISA, "Observation Order")."""

    writes: int = 0


@dataclass(frozen=True, slots=True)
class View:
    """What is ordered before an action: by CTA the ended epochs of its agents; by single thread its ended epochs, and
    of chains their first writes."""

    ctas: Mapping[int, Knowledge] = field(default_factory=dict)
    threads: Mapping[int, int] = field(default_factory=dict)
    chains: Mapping[Chain, int] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not (self.ctas or self.threads or self.chains)

    def joined(self, other: View) -> View:
        """The union."""
        if other is self or other.is_empty:
            return self
        if self.is_empty:
            return other
        ctas = dict(self.ctas)
        for cta, knowledge in other.ctas.items():
            mine = ctas.get(cta)
            ctas[cta] = knowledge if mine is None or mine is knowledge else joined(mine, knowledge)
        return View(ctas, _largest(self.threads, other.threads), _largest(self.chains, other.chains))

    def common(self, other: View) -> View:
        """The part that both have."""
        if other is self:
            return self
        ctas = {
            cta: np.minimum(mine[: len(theirs)], theirs[: len(mine)])
            for cta, mine in self.ctas.items()
            if (theirs := other.ctas.get(cta)) is not None
        }
        threads = {
            thread: min(epochs, other.epochs(thread))
            for thread, epochs in self.threads.items()
            if other.epochs(thread) > 0
        }
        chains = {chain: min(n, other.chains[chain]) for chain, n in self.chains.items() if chain in other.chains}
        return View(ctas, threads, chains)

    def within(self, other: View) -> bool:
        """Whether the other has all of this."""
        return (
            all(_is_within(mine, other.ctas.get(cta, nothing())) for cta, mine in self.ctas.items())
            and all(other.epochs(thread) >= epochs for thread, epochs in self.threads.items())
            and all(other.chains.get(chain, 0) >= number for chain, number in self.chains.items())
        )

    def epochs(self, thread: int) -> int:
        """The number of ended epochs of a thread."""
        cta, agent = cta_of(thread), thread % _CTA // LANES
        knowledge = self.ctas.get(cta)
        by_agent = int(knowledge[agent]) if knowledge is not None and agent < len(knowledge) else 0
        return max(by_agent, self.threads.get(thread, 0))

    def folded(self) -> View:
        """The same view, in which all lanes of a warp are an agent of their CTA."""
        if len(self.threads) < _WARP:
            return self
        by_agent: dict[int, list[int]] = defaultdict(list)
        for thread in self.threads:
            if thread % LANES != WHOLE_AGENT:
                by_agent[thread // LANES].append(self.threads[thread])
        ctas = dict(self.ctas)
        for number, epochs in by_agent.items():
            cta, agent = divmod(number, WARPS)
            if len(epochs) == _WARP:
                least = np.zeros(agent + 1, np.int32)
                least[agent] = min(epochs)
                ctas[cta] = joined(ctas.get(cta, nothing()), least)
        whole = View(ctas)
        return View(ctas, {t: n for t, n in self.threads.items() if whole.epochs(t) < n}, self.chains)


NOTHING = View()


def _largest(mine: Mapping[Any, int], more: Mapping[Any, int]) -> Mapping[Any, int]:
    if not more or mine is more:
        return mine
    if not mine:
        return more
    result = dict(mine)
    for key, value in more.items():
        if result.get(key, -1) < value:
            result[key] = value
    return result


def _is_within(mine: Knowledge, theirs: Knowledge) -> bool:
    shared = min(len(mine), len(theirs))
    return not (mine[:shared] > theirs[:shared]).any() and not mine[shared:].any()


def joined(first: Knowledge, second: Knowledge) -> Knowledge:
    """The union of two states of knowledge."""
    result = np.zeros(max(len(first), len(second)), np.int32)
    result[: len(first)] = first
    np.maximum(result[: len(second)], second, out=result[: len(second)])
    return result


def nothing() -> Knowledge:
    """Knowledge of no clock."""
    return np.zeros(0, np.int32)
