"""Drops contenders that are surely slower: successive elimination by paired times.

All remaining contenders run once in each round, and times of the same round are compared. The number of rounds that
each of two has won decides which is faster: if neither is slower in the median, the number of rounds that one loses is
binomial, whatever the noise is (sign test). So an outlier counts as one lost round.

The total chance of a false verdict is at most 1 − confidence: half for dropping the fastest, half for stopping too
early. Each half is divided among the contenders that the fastest is compared with, and among the looks: look l gets the
share 1 / (l (l + 1)), whose sum over all looks is 1. (Even-Dar, Mannor and Mansour, Action Elimination and Stopping
Conditions, 2006; the sign test replaces Hoeffding's inequality.)
"""

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

ROUNDS_PER_LOOK = 4
# A contender this far behind in each of so many rounds is dropped untested. Clocks and temperature move times by 3 %.
_FAR, _FAR_ROUNDS = 1.25, 3


@dataclass
class Race:
    """Seconds of each contender, one for each round that it took part in, from the first on without gaps.

    `margin`: how much faster than the winner another contender may be, as a fraction of its time.
    """

    confidence: float
    margin: float
    seconds: dict[str, list[float]] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)

    @property
    def left(self) -> list[str]:
        """The contenders that are not known to be slower."""
        return [name for name in self.seconds if name not in self.dropped]

    @property
    def rounds(self) -> int:
        """The number of rounds that all remaining contenders have run."""
        return min((len(self.seconds[name]) for name in self.left), default=0)

    def leader(self) -> str:
        """The remaining contender with the least median; the first if several are equal."""
        return min(self.left, key=lambda name: statistics.median(self.seconds[name]))

    def add_round(self, times: Mapping[str, float]) -> None:
        """Add a time for each remaining contender, then drop those that are surely slower."""
        for name in self.left:
            self.seconds[name].append(times[name])
        leader = self.leader()
        for name in self.left:
            if name != leader and (self._is_far_behind(name, leader) or self._surely_slower(name, leader)):
                self.dropped.add(name)

    def is_decided(self) -> bool:
        """Whether, with the given confidence, no remaining contender is faster than the leader by more than the
        margin."""
        leader = self.leader()
        return all(name == leader or self._surely_not_faster(name, leader) for name in self.left)

    def ratio(self, name: str, other: str) -> float:
        """The median ratio of their times over the rounds that both have run; above 1 `other` is faster."""
        return statistics.median(x / y for x, y in zip(self.seconds[name], self.seconds[other], strict=False))

    def _surely_slower(self, name: str, leader: str) -> bool:
        pairs = self._pairs(name, leader)
        return self._is_sure(sum(own > best for own, best in pairs))

    def _surely_not_faster(self, name: str, leader: str) -> bool:
        pairs = self._pairs(name, leader)
        return self._is_sure(sum(own * (1 + self.margin) > best for own, best in pairs))

    def _is_far_behind(self, name: str, leader: str) -> bool:
        pairs = self._pairs(name, leader)
        return len(pairs) >= _FAR_ROUNDS and all(own > _FAR * best for own, best in pairs)

    def _pairs(self, name: str, leader: str) -> list[tuple[float, float]]:
        return list(zip(self.seconds[name], self.seconds[leader], strict=True))

    def _is_sure(self, won: int) -> bool:
        """Whether so many wins in the rounds so far are unlikely to be chance. Looks are every few rounds."""
        look, between = divmod(self.rounds, ROUNDS_PER_LOOK)
        if between or not look:
            return False
        share = (1 - self.confidence) / 2 / max(1, len(self.seconds) - 1) / (look * (look + 1))
        return chance_of(won, self.rounds) <= share


def chance_of(won: int, rounds: int) -> float:
    """The probability that a fair coin shows at least `won` heads."""
    return sum(math.comb(rounds, heads) for heads in range(won, rounds + 1)) / 2**rounds
