"""Who is surely slower: successive elimination by paired times.

All who are left run once in each round, so times of one round are compared. Which of two is faster is decided by how
many rounds each has won: if neither is slower in the median, the number of rounds that one loses is binomial, whatever
the noise is (sign test). Outliers therefore count as one lost round.

The chance of a false verdict is at most 1 − confidence in all: half of it for dropping the fastest, half for stopping
too early. Each half is shared by the contenders that the fastest is compared with, and by the looks: look l gets the
share 1 / (l (l + 1)) of it, whose sum over all looks is 1. (Even-Dar, Mannor and Mansour, Action Elimination and
Stopping Conditions, 2006; the sign test takes the place of Hoeffding's inequality.)
"""

import math
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field

ROUNDS_PER_LOOK = 4
# Far behind in each of so many rounds: dropped without a test. Clocks and temperature move a kernel by 3 %.
_FAR, _FAR_ROUNDS = 1.25, 3


@dataclass
class Race:
    """Seconds of each contender, one for each round in which it took part: from the first on, without gaps.

    `margin`: how much faster than the winner another may be, as a share of its time.
    """

    confidence: float
    margin: float
    seconds: dict[str, list[float]] = field(default_factory=dict)
    dropped: set[str] = field(default_factory=set)

    @property
    def left(self) -> list[str]:
        """Those that are not known to be slower."""
        return [name for name in self.seconds if name not in self.dropped]

    @property
    def rounds(self) -> int:
        """That all who are left have run."""
        return min((len(self.seconds[name]) for name in self.left), default=0)

    def leader(self) -> str:
        """The least median of those left; the first of equals."""
        return min(self.left, key=lambda name: statistics.median(self.seconds[name]))

    def add_round(self, times: Mapping[str, float]) -> None:
        """A time for each of those left; then who is surely slower is dropped."""
        for name in self.left:
            self.seconds[name].append(times[name])
        leader = self.leader()
        for name in self.left:
            if name != leader and (self._is_far_behind(name, leader) or self._surely_slower(name, leader)):
                self.dropped.add(name)

    def is_decided(self) -> bool:
        """Whether nobody left is faster than the leader by more than the margin, with the confidence asked for."""
        leader = self.leader()
        return all(name == leader or self._surely_not_faster(name, leader) for name in self.left)

    def ratio(self, name: str, other: str) -> float:
        """Of their times, the median over the rounds that both have run: over 1, `other` is faster."""
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
        """Whether so many won of the rounds so far are too many for an accident. Looks are every few rounds."""
        look, between = divmod(self.rounds, ROUNDS_PER_LOOK)
        if between or not look:
            return False
        share = (1 - self.confidence) / 2 / max(1, len(self.seconds) - 1) / (look * (look + 1))
        return chance_of(won, self.rounds) <= share


def chance_of(won: int, rounds: int) -> float:
    """That a fair coin shows so many heads or more."""
    return sum(math.comb(rounds, heads) for heads in range(won, rounds + 1)) / 2**rounds
