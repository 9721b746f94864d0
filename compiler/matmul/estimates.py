"""The schedules that may serve a family, and their estimated cost at each M.

Candidates are the schedules that the choice ranks near the best at some M. Plans use the choice and its cost model only
through this module.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property
from itertools import islice
from math import inf, log2
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from lowtide.dialects.tile import OperandsKind, PackKind, TailKind
from lowtide.dialects.tile.agents import AGENT_PATHS
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.schedules.choice import swap
from lowtide.passes.schedules.choice.candidates import worth_dividing
from lowtide.passes.schedules.choice.choice import ranked
from lowtide.passes.schedules.cost.cost import cost, estimated
from lowtide.passes.schedules.cost.described import fields_of, grid_of, is_estimated, product_of
from lowtide.passes.schedules.cost.grids import Grid, Grids, Product
from lowtide.passes.schedules.facts.alignment import PACK_FIELDS, multiplied
from lowtide.passes.schedules.facts.resources import ctas_per_sm
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target

_NEAR, _MOST_NEAR = 1.05, 5  # candidates of an M: within this factor of the best cost, and at most so many
_SCANNED = 40  # ranked schedules that are looked at for an M
#: A candidate is in reach if an M where it is near the best is at most this many factors of 2 away. Out of reach it is
#: used only if there is no other: estimates are calibrated on grids for which the choice would take the schedule.
_REACH, _OUT_OF_REACH = 1.0, 1e18  # cycles for each factor of 2
#: Fields that are chosen when a kernel is compiled, so that they can be reduced if its code spills.
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
    "grid.order",
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
#: The relative cost of a field whose value is not the one that the choice gives it for an M. The model ignores these
#: fields. Measured on an H200: waves in step 1 to 3 %, one stage less 1.5 % at 2048³. Others are below 1 %.
_FIELD_COSTS: Mapping[str, float] = MappingProxyType({"grid.waves": 0.02, "mainloop.stages": 0.015})
_OTHER_FIELD_COST = 0.005
_OCTAVE_COST = 0.002  # for each factor of 2 to the nearest M where the choice ranks the schedule near the best

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
_Form = tuple[Any, ...]
_Way = tuple[Any, ...]  # how the product is transformed: operands swapped, A and B transposed


@dataclass(frozen=True, eq=False)
class Candidate:
    """`schedule`: the fields that a plan fixes. `complete`: with all fields, as chosen for one M. `grid`: as the
    estimate of wgmma tiles takes it; None without a producer. `seen`: the log2 of each M where it is near the best."""

    schedule: Schedule
    complete: Schedule
    form: _Form
    grid: Grid | None
    seen: list[float]

    def octaves(self, rows: Sequence[int]) -> Floats:
        """The factors of 2 from each M to the nearest where the schedule is near the best."""
        return np.abs(np.log2(rows)[:, None] - np.array(self.seen)).min(axis=1)

    def in_reach(self, rows: Sequence[int]) -> list[int]:
        return [m for m, octaves in zip(rows, self.octaves(rows), strict=True) if octaves <= _REACH]

    @property
    def is_swapped(self) -> bool:
        return self.complete.grid.operands is OperandsKind.swapped

    @cached_property
    def decided(self) -> dict[str, Any]:
        return self.schedule.decided()

    @property
    def rows(self) -> int:
        """M of a tile, or of the tiles of a cluster: the cost changes at its multiples."""
        along = 1 if self.is_swapped else 0
        return self.complete.tile_mnk[along] * self.complete.cluster[along]


class Estimates:
    """`at`: gives the problem of an M; its extents are known to the choice, but not to the kernel."""

    def __init__(self, at: Callable[[int], Problem], target: Target, given: Schedule) -> None:
        self._target, self._given = target, given
        self._at = cache(at)
        self._known: dict[tuple[_Form, int], float] = {}  # cycles of forms that are estimated one by one
        self._own: dict[tuple[_Form, int], Candidate] = {}  # the schedule of a form, as chosen for an M
        self._rows: list[int] = []

    def candidates(self, rows: Sequence[int], accepts: Callable[[Schedule], bool]) -> list[Candidate]:
        """The accepted schedules near the best at these M, ascending. Raises ScheduleError if no schedule is legal."""
        found: dict[Schedule, Candidate] = {}
        self._rows = list(rows)
        for m in rows:
            for each in self._near(m, accepts):
                kept = found.setdefault(each.schedule, each)
                kept.seen.append(log2(m))
                self._own.setdefault((kept.form, m), kept)
        return list(found.values())

    def _near(self, m: int, accepts: Callable[[Schedule], bool]) -> list[Candidate]:
        """The accepted schedules near the best at an M. The ranked schedules come from two models in turn, so the
        search ends when two in a row are not near the best."""
        found: list[tuple[Candidate, float]] = []
        choices = islice(ranked(self._at(m), self._target, self._given), _SCANNED)
        for each in islice((choice.schedule for choice in choices if accepts(choice.schedule)), _MOST_NEAR):
            grid = grid_of(fields_of(each), self._target) if each.agents.has_producer else None
            one = Candidate(planned(each), each, tuple(map(each.get, _FORM)), grid, [])
            found.append((one, float(self._cycles([(one, m)])[0])))
            most = _NEAR * min(cycles for _, cycles in found)
            if len(found) > 2 and min(cycles for _, cycles in found[-2:]) > most:
                break
        return [each for each, cycles in found if cycles <= most]

    def costs(self, candidates: Sequence[Candidate], rows: Sequence[int]) -> Floats:
        """The estimated cycles of each candidate at each M; a very large number if it is out of reach."""
        octaves = np.array([each.octaves(rows) for each in candidates])
        found = _OUT_OF_REACH * octaves
        in_reach = octaves <= _REACH
        pairs = [(candidates[number], rows[at]) for number, at in np.argwhere(in_reach)]
        beside = np.array([self._beside(*pair) for pair in pairs])
        found[in_reach] = self._cycles(pairs) * (1 + _OCTAVE_COST * octaves[in_reach] + beside)
        return found

    def _beside(self, candidate: Candidate, m: int) -> float:
        """The relative cost of the fields that the model ignores."""
        own = self._own.get((candidate.form, self._rows[min(bisect_left(self._rows, m), len(self._rows) - 1)]))
        if own is None or own is candidate:
            return 0.0
        ours, theirs = own.decided, candidate.decided
        differing = (path for path in ours | theirs if ours.get(path) != theirs.get(path))
        return sum(_FIELD_COSTS.get(path, _OTHER_FIELD_COST) for path in differing)

    def _cycles(self, pairs: Sequence[tuple[Candidate, int]]) -> Floats:
        """The estimated cycles; infinite if the choice would not consider the schedule."""
        found = np.full(len(pairs), inf)
        products: dict[tuple[Any, ...], Product] = {}
        grids, of_grids, at = [], [], []
        for number, (each, m) in enumerate(pairs):
            worth = _worth(each, self._at(m), self._target, self._given)
            if not worth:
                continue
            way = (each.is_swapped, *(each.complete.get(path) for path in PACK_FIELDS.values()), m)
            if each.grid is None or not is_estimated(self._at(m)):
                found[number] = self._one(each, m) / worth
                continue
            if way not in products:
                products[way] = product_of(_multiplied(each, self._at(m)))
            at.append((number, worth))
            grids.append(each.grid)
            of_grids.append(products[way])
        if grids:
            numbers, worths = zip(*at, strict=True)
            found[list(numbers)] = estimated(Grids.of(grids), _stacked(of_grids), self._target) / np.array(worths)
        return found

    def _one(self, candidate: Candidate, m: int) -> float:
        if (candidate.form, m) not in self._known:
            schedule, problem = candidate.complete, _multiplied(candidate, self._at(m))
            division = schedule.k_division
            whole = schedule.grid.tail or TailKind.whole
            tail = whole if division is None else division if division.is_of_tail else None
            self._known[candidate.form, m] = cost(schedule, problem, self._target, tail)
        return self._known[candidate.form, m]


def planned(schedule: Schedule) -> Schedule:
    """The fields of a schedule that a plan fixes. Only matrices that must be packed are packed."""
    fixed = schedule.set(dict.fromkeys(_OPEN))
    return fixed.filled(dict.fromkeys(PACK_FIELDS.values(), PackKind.none))


def _multiplied(candidate: Candidate, problem: Problem) -> Problem:
    return multiplied(candidate.complete, problem.swap() if candidate.is_swapped else problem)


def _stacked(products: Sequence[Product]) -> Product:
    """Products as one, with arrays in place of numbers."""
    columns = {each.name: np.array([getattr(one, each.name) for one in products]) for each in fields(Product)}
    of_a, of_b = columns.pop("row_bytes").T
    return Product(**columns, row_bytes=(of_a, of_b))


def _worth(candidate: Candidate, problem: Problem, target: Target, given: Schedule) -> float:
    """0 if the choice would not consider the schedule for this problem; 1 if it would. A schedule that divides K must
    take less than a share of the cycles of whole tiles; the result is then this share."""
    if problem.weights is not None:
        if candidate.is_swapped != (swap.for_weights(given, problem, target) is not None):
            return 0.0
    elif candidate.is_swapped and not problem.d_is_column_major and not swap.may_pay(given, problem):
        return 0.0
    schedule, division = candidate.complete, candidate.complete.k_division
    if division is None or division.is_of_tail:
        return 1.0
    own, has_producer = _multiplied(candidate, problem), schedule.agents.has_producer
    at_once = target.sm_count * (1 if has_producer else ctas_per_sm(schedule, own, target))
    if (own.tiles(schedule.tile_mnk) or 0) * division.parts > at_once:
        return 0.0
    return worth_dividing(given, own, target, with_producer=has_producer)
