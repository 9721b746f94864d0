"""The schedules that may serve a family, and their estimated cost at each M.

Candidates are the schedules that the choice ranks near the best at some M. This module is all that plans know of the
choice and of its cost model.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf, log2
from types import MappingProxyType
from typing import Any

import numpy as np

from lowtide.dialects.tile import OperandsKind, PackKind, TailKind
from lowtide.dialects.tile.agents import AGENT_PATHS
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.schedules.choice import swap
from lowtide.passes.schedules.choice.candidates import worth_dividing
from lowtide.passes.schedules.choice.choice import ranked
from lowtide.passes.schedules.cost.cost import cost
from lowtide.passes.schedules.facts.alignment import PACK_FIELDS, multiplied
from lowtide.passes.schedules.facts.resources import ctas_per_sm
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target

_NEAR, _MOST_NEAR = 1.05, 5  # of the best cost at an M, and how many schedules
_SCANNED = 40  # ranked schedules that are looked at for an M
#: Factors of 2 from the nearest M where a candidate is near the best. Farther away it is used only if there is no
#: other: estimates are calibrated on grids for which the choice would take the schedule.
_REACH, _OUT_OF_REACH = 1.0, 1e18  # cycles for each of them
#: Fields that the compilation chooses, so that it may take less of them if the code of a kernel spills.
_OPEN = (
    "multiply.fragment_buffers",
    "epilogue.tile",
    "epilogue.buffers",
    "epilogue.swizzle",
    "epilogue.prefetch",
    "epilogue.start",
)
#: The fields that the cost depends on.
_FORM = (
    "grid.tile",
    "grid.cluster",
    "grid.ctas_per_sm",
    "grid.tail",
    "grid.k_division",
    "grid.operands",
    "mainloop.k",
    *AGENT_PATHS,
    "multiply.atom",
    "multiply.atoms",
    "mainloop.a.copy",
    "mainloop.b.copy",
    "epilogue.path",
)
#: The share that a field costs if the choice sets it in another way for this M; the model does not know these fields.
#: Measured on an H200: an order that divides by run-time values 5 % at 1024³, waves in step 1 to 3 %, one stage less
#: 1.5 % at 2048³. Others are below 1 %.
_FIELD_COSTS: Mapping[str, float] = MappingProxyType({"grid.order": 0.03, "grid.waves": 0.02, "mainloop.stages": 0.015})
_OTHER_FIELD_COST = 0.005
_OCTAVE_COST = 0.002  # for each factor of 2 to the nearest M where the choice ranks the schedule near the best

_Form = tuple[Any, ...]


@dataclass(frozen=True)
class Candidate:
    """`schedule`: the fields that a plan fixes. `complete`: with all fields, as chosen for one M. `seen`: the log2 of
    each M where it is near the best."""

    schedule: Schedule
    complete: Schedule
    form: _Form
    seen: list[float]

    def octaves(self, m: int) -> float:
        """The factors of 2 from an M to the nearest where the schedule is near the best."""
        return min(abs(seen - log2(m)) for seen in self.seen)

    def is_in_reach(self, m: int) -> bool:
        return self.octaves(m) <= _REACH

    @property
    def rows(self) -> int:
        """M of a tile, or of the tiles of a cluster: the cost changes at its multiples."""
        along = 1 if self.complete.grid.operands is OperandsKind.swapped else 0
        return self.complete.tile_mnk[along] * self.complete.cluster[along]


class Estimates:
    """`at` gives the problem of an M, with extents that the kernel does not know."""

    def __init__(self, at: Callable[[int], Problem], target: Target, given: Schedule) -> None:
        self._at, self._target, self._given = at, target, given
        self._cycles: dict[tuple[_Form, int], float] = {}
        self._own: dict[tuple[_Form, int], Schedule] = {}  # the schedule of a form, as chosen for an M
        self._rows: list[int] = []

    def candidates(self, rows: Sequence[int], accepts: Callable[[Schedule], bool]) -> list[Candidate]:
        """The accepted schedules near the best at these M, ascending. Raises ScheduleError if no schedule is legal."""
        found: dict[Schedule, Candidate] = {}
        self._rows = list(rows)
        for m in rows:
            for each, form in self._near(m, accepts):
                kept = planned(each)
                found.setdefault(kept, Candidate(kept, each, form, [])).seen.append(log2(m))
                self._own.setdefault((form, m), kept)
        return list(found.values())

    def _near(self, m: int, accepts: Callable[[Schedule], bool]) -> list[tuple[Schedule, _Form]]:
        """The accepted schedules near the best at an M. Ranks come from two models in turn, so two in a row that are
        farther end the search."""
        found: list[tuple[Schedule, _Form, float]] = []
        choices = islice(ranked(self._at(m), self._target, self._given), _SCANNED)
        for each in islice((choice.schedule for choice in choices if accepts(choice.schedule)), _MOST_NEAR):
            form = _form(each)
            found.append((each, form, self._cycles_of(each, form, m)))
            most = _NEAR * min(cycles for _, _, cycles in found)
            if len(found) > 2 and min(cycles for _, _, cycles in found[-2:]) > most:
                break
        return [(each, form) for each, form, cycles in found if cycles <= most]

    def costs(self, candidates: Sequence[Candidate], rows: Sequence[int]) -> np.ndarray[Any, np.dtype[np.float64]]:
        """The estimated cycles of each candidate at each M, very many where it is out of reach."""
        return np.array([[self._cost(each, m) for m in rows] for each in candidates])

    def _cost(self, candidate: Candidate, m: int) -> float:
        octaves = candidate.octaves(m)
        if octaves > _REACH:
            return _OUT_OF_REACH * octaves
        beside = _OCTAVE_COST * octaves
        own = self._own.get((candidate.form, next((row for row in self._rows if row >= m), self._rows[-1])))
        if own is not None and own is not candidate.schedule:
            beside += _difference(own, candidate.schedule)
        return (1 + beside) * self._cycles_of(candidate.complete, candidate.form, m)

    def _cycles_of(self, schedule: Schedule, form: _Form, m: int) -> float:
        if (form, m) not in self._cycles:
            self._cycles[form, m] = _cycles(schedule, self._at(m), self._target, self._given)
        return self._cycles[form, m]


def planned(schedule: Schedule) -> Schedule:
    """The fields of a schedule that a plan fixes. Matrices that need not be packed are not."""
    fixed = schedule.set(dict.fromkeys(_OPEN))
    return fixed.filled(dict.fromkeys(PACK_FIELDS.values(), PackKind.none))


def _form(schedule: Schedule) -> _Form:
    return tuple(map(schedule.get, _FORM))


def _difference(one: Schedule, other: Schedule) -> float:
    """The cost of the fields that differ."""
    ours, theirs = one.decided(), other.decided()
    differing = (path for path in ours | theirs if ours.get(path) != theirs.get(path))
    return sum(_FIELD_COSTS.get(path, _OTHER_FIELD_COST) for path in differing)


def _cycles(schedule: Schedule, problem: Problem, target: Target, given: Schedule) -> float:
    """The estimated cycles of a complete schedule; infinite if the choice would not consider it for this M."""
    is_swapped = schedule.grid.operands is OperandsKind.swapped
    if problem.weights is not None:
        if is_swapped != (swap.for_weights(given, problem, target) is not None):
            return inf
    elif is_swapped and not problem.d_is_column_major and not swap.may_pay(given, problem):
        return inf
    own = multiplied(schedule, problem.swap() if is_swapped else problem)
    division = schedule.k_division
    if division is None or division.is_of_tail:
        return cost(schedule, own, target, division or schedule.grid.tail or TailKind.whole)
    at_once = target.sm_count * (1 if schedule.agents.has_producer else ctas_per_sm(schedule, own, target))
    if (own.tiles(schedule.tile_mnk) or 0) * division.parts > at_once:
        return inf
    worth = worth_dividing(given, own, target, with_producer=schedule.agents.has_producer)
    return cost(schedule, own, target) / worth
