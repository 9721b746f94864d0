"""Plans: a few schedules, and intervals of M that say which of them each M of a family takes.

`planning.py` makes plans. This module needs no MLIR.
"""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from lowtide.runtime.serialized import LAUNCHES


@dataclass(frozen=True)
class Intervals:
    """`ends`: the last M of each interval, ascending; a larger M belongs to the last interval. `picks`: the index of
    each interval's schedule. `waits`: for each interval, whether the kernel starts only after the kernels before it in
    the stream have ended, although the schedule has `grid.launch = programmatic`."""

    ends: tuple[int, ...]
    picks: tuple[int, ...]
    waits: tuple[bool, ...]

    def at(self, m: int) -> int:
        """The index of the interval of an M."""
        return min(bisect_left(self.ends, m), len(self.ends) - 1)


@dataclass(frozen=True)
class SchedulePlan:
    """`schedules`: as text. `intervals`: one for all M, or two: the first for multiples of `unit`, where rows of A
    start on sectors of L2, the second for other M. `others`: for each schedule, the indices of the others that replace
    it if it cannot be compiled, the one with the least estimated cost first. `order`: the order of sums that all
    kernels must have; None if there is no such requirement. `mean`, `worst`: how much the estimated cost of the picked
    schedule exceeds that of the best one, as a share: the geometric mean over M, and the largest."""

    schedules: tuple[str, ...]
    intervals: tuple[Intervals, ...]
    unit: int
    others: tuple[tuple[int, ...], ...]
    order: str | None
    mean: float
    worst: float

    def in_turn(self, m: int) -> tuple[int, ...]:
        """The index of the schedule for an M, then those that replace it."""
        of = self._of(m)
        pick = of.picks[of.at(m)]
        return (pick, *self.others[pick])

    def waits(self, m: int) -> bool:
        """Whether the kernel of an M starts only after the kernels before it in the stream have ended."""
        of = self._of(m)
        return of.waits[of.at(m)]

    def schedule(self, index: int, m: int) -> str:
        """The schedule `index`, with the launch that its kernel has for an M."""
        text = self.schedules[index]
        return text.replace(*LAUNCHES) if self.waits(m) else text

    def rows(self, m: int) -> tuple[int, int | None]:
        """The first and the last M of the interval of `m`. The last interval has no end: None."""
        ends, at = self._of(m).ends, self._of(m).at(m)
        return ends[at - 1] + 1 if at else 0, ends[at] if at + 1 < len(ends) else None

    def _of(self, m: int) -> Intervals:
        return self.intervals[-1 if m % self.unit else 0]

    def entries(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)

    @classmethod
    def of(cls, entries: Mapping[str, Any]) -> "SchedulePlan":
        """The inverse of `entries()`, after a round trip through JSON."""
        found = {name.name: entries[name.name] for name in fields(cls)}
        intervals = tuple(
            Intervals(*(tuple(one[name.name]) for name in fields(Intervals))) for one in found["intervals"]
        )
        lists = {"schedules": tuple(found["schedules"]), "others": tuple(map(tuple, found["others"]))}
        return cls(**{**found, **lists, "intervals": intervals})
