"""The schedules that may serve a family, and their estimated cost at each M.

Candidates are the schedules that the choice ranks near the best at some M. Plans use the choice and its cost model only
through this module and `form_estimates.py`.
"""

from bisect import bisect_left
from collections.abc import Callable, Hashable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import islice
from math import log2
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from lowtide.compiler.matmul.products import extents_of, launched, products_at, turned, turns_of
from lowtide.dialects.tile import OperandsKind, PackKind, TailKind
from lowtide.dialects.tile.agents import AGENT_PATHS, REGISTER_PATHS
from lowtide.dialects.tile.division import KDivision
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.schedules.choice import swap
from lowtide.passes.schedules.choice.candidates import worth_dividing
from lowtide.passes.schedules.choice.choice import ranked
from lowtide.passes.schedules.choice.forms import fits_grid
from lowtide.passes.schedules.cost.cost import costs, waits
from lowtide.passes.schedules.cost.grids import Product
from lowtide.passes.schedules.cost.rings import MORE_STAGES, MOST_STAGES
from lowtide.passes.schedules.facts.alignment import PACK_FIELDS
from lowtide.passes.schedules.facts.resources import ctas_per_sm
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target

_NEAR, _MOST_NEAR = 1.05, 5  # candidates of an M: within this factor of the best cost, and at most so many
_SCANNED = 40  # ranked schedules that are looked at for an M
#: A candidate is in reach if an M where it is near the best is at most this many factors of 2 away. Out of reach it is
#: used only if there is no other: estimates are calibrated on grids for which the choice would take the schedule.
_REACH, _OUT_OF_REACH = 2.0, 1e18  # cycles for each factor of 2
#: Fields that are chosen when a kernel is compiled, so that they can be reduced if its code spills.
_OPEN = (
    *REGISTER_PATHS,
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
_STAGES = "mainloop.stages"
#: The relative cost of a field whose value is not the one that the choice gives it for an M. The model ignores these
#: fields. Measured on an H200: waves in step 1 to 3 %, one stage less 1.5 % at 2048³. Others are below 1 %.
_FIELD_COSTS: Mapping[str, float] = MappingProxyType({"grid.waves": 0.02, _STAGES: 0.015})
_OTHER_FIELD_COST = 0.005
#: What another number of stages costs in addition if the choice takes more than `MOST_STAGES` for an M: the estimate
#: at this M may have the factor `MORE_STAGES`, whatever the number of stages is.
_TOO_FEW_STAGES = 1 / MORE_STAGES - 1
_OCTAVE_COST = 0.002  # for each factor of 2 to the nearest M where the choice ranks the schedule near the best
#: The relative cost of each trait that differs from that of the best candidate. Estimates of candidates with the same
#: traits have similar errors. In the calibration, candidates estimated within 8 % of the best take 0.9 % longer than
#: estimated, relative to it, if they differ in the order of operands, and 1.0 % if they divide K in another way.
_UNLIKE_COST = 0.01

Floats: TypeAlias = np.ndarray[Any, np.dtype[np.float64]]
Indices: TypeAlias = np.ndarray[Any, np.dtype[np.intp]]
Mask: TypeAlias = np.ndarray[Any, np.dtype[np.bool_]]


@dataclass(frozen=True)
class Sums:
    """A test of whether a schedule has an order of sums that the kernels of a family may have. `divides` tests its
    division of K, `has` the complete schedule; both must hold."""

    divides: Callable[[KDivision | None], bool]
    has: Callable[[Schedule], bool]

    def accepts(self, schedule: Schedule) -> bool:
        return self.divides(schedule.k_division) and self.has(schedule)


class Traits(NamedTuple):
    """Whether the operands are swapped, and which CTAs add the sums of the parts of K: 0 if K is not divided, 1 if one
    CTA adds those of a tile, 2 if each CTA adds a share of them."""

    is_swapped: bool = False
    adders: int = 0

    @classmethod
    def of(cls, schedule: Schedule) -> "Traits":
        division, adders = schedule.k_division, 0
        if division is not None and not division.is_of_tail:
            adders = 2 if division.is_scattered else 1
        return cls(schedule.grid.operands is OperandsKind.swapped, adders)


AS_GIVEN = Traits()


@dataclass(frozen=True, eq=False)
class Candidate:
    """`form`: what the cost depends on. `rows`: M of a tile, or of the tiles of a cluster: the cost changes at its
    multiples. `complete`: the schedule, as chosen for one M; None if only its form is known. `seen`: the log2 of each M
    where it is near the best."""

    form: Hashable
    rows: int
    complete: Schedule | None = None
    seen: list[float] = field(default_factory=list)
    traits: Traits = AS_GIVEN

    def octaves(self, logarithms: Floats) -> Floats:
        """The factors of 2 from each M to the nearest where the schedule is near the best."""
        return np.abs(logarithms - np.array(self.seen)[:, None]).min(axis=0)

    def in_reach(self, rows: Sequence[int]) -> list[int]:
        found: list[int] = np.array(rows)[self.octaves(np.log2(rows)) <= _REACH].tolist()
        return found

    @cached_property
    def schedule(self) -> Schedule:
        """The fields that a plan fixes."""
        assert self.complete is not None
        return planned(self.complete)

    @cached_property
    def decided(self) -> dict[str, Any]:
        return self.schedule.decided()

    def beside(self, other: "Candidate") -> float:
        """The relative cost of the fields that the model ignores and that differ from the choice's own schedule."""
        ours, theirs = self.decided, other.decided
        differing = [path for path in ours | theirs if ours.get(path) != theirs.get(path)]
        found = sum(_FIELD_COSTS.get(path, _OTHER_FIELD_COST) for path in differing)
        has_more = theirs.get(_STAGES, 0) > MOST_STAGES
        return found + (_TOO_FEW_STAGES if has_more and _STAGES in differing else 0.0)


class Estimates:
    """`at`: gives the problem of an M; its extents are known to the choice, but not to the kernel. Here each M is
    ranked, and each schedule is estimated by itself. `per_octave`: for how many M in each factor of 2 candidates are to
    be listed, if M is small and if it is large."""

    per_octave = (8, 4)

    def __init__(self, at: Callable[[int], Problem], target: Target, given: Schedule, sums: Sums) -> None:
        self._target, self._given, self._sums = target, given, sums
        self._at = cache(at)
        self._multiplied = cache(lambda turns, m: turned(self._at(m), turns))
        self._product = cache(lambda turns, m: launched(self._multiplied(turns, m)))
        self._known: dict[Hashable, dict[int, float]] = {}  # cycles of a form at each M
        self._own: dict[tuple[Hashable, int], Candidate] = {}  # the schedule of a form, as chosen for an M
        self._rows: list[int] = []
        self._traits: list[Traits] = []  # of the best candidate at each of these M

    def candidates(self, rows: Sequence[int], refused: Set[Hashable] = frozenset()) -> list[Candidate]:
        """The accepted schedules near the best at these M, which ascend. `refused`: forms to leave out, which
        `completed` refused. Raises ScheduleError if no schedule is legal."""
        assert not refused
        found: dict[Schedule, Candidate] = {}
        self._rows = list(rows)
        for m in rows:
            for each in self._near(m):
                kept = found.setdefault(each.schedule, each)
                kept.seen.append(log2(m))
                self._own.setdefault((kept.form, m), kept)
        return self._compared(list(found.values()))

    def _compared(self, candidates: list[Candidate]) -> list[Candidate]:
        """The same candidates. The traits of the best one at each M are kept."""
        cycles = self.cycles(candidates, self._rows, np.full((len(candidates), len(self._rows)), True))
        self._traits = [candidates[best].traits for best in np.argmin(cycles, axis=0)] if candidates else []
        return candidates

    def completed(self, candidates: Sequence[Candidate]) -> tuple[list[Candidate], set[Hashable]]:
        """The candidates with complete schedules, and the forms that have no legal one."""
        return list(candidates), set()

    def costs(self, candidates: Sequence[Candidate], rows: Sequence[int]) -> Floats:
        """The estimated cycles of each candidate at each M; a very large number if it is out of reach."""
        logarithms = np.log2(rows)
        octaves = np.array([each.octaves(logarithms) for each in candidates])
        in_reach = octaves <= _REACH
        cycles = self.cycles(candidates, rows, in_reach)
        nearest = [min(bisect_left(self._rows, m), len(self._rows) - 1) for m in rows]
        more = self._beside(candidates, [self._rows[at] for at in nearest], in_reach)
        cycles *= 1 + _OCTAVE_COST * octaves + more + _UNLIKE_COST * self._differing(candidates, nearest)
        return np.where(in_reach, cycles, _OUT_OF_REACH * octaves)

    def waits(self, candidate: Candidate, rows: Sequence[int]) -> Mask:
        """For each M, whether the kernel of a complete candidate should start only after the kernels before it in the
        stream have ended."""
        schedule = candidate.complete
        assert schedule is not None
        problem = self._multiplied(turns_of(schedule), rows[0])
        return waits(schedule, self._products(schedule, rows), problem, self._target)

    def _differing(self, candidates: Sequence[Candidate], nearest: Sequence[int]) -> Indices:
        """How many traits of each candidate differ from those of the best one at each M. `nearest`: for each
        M, the index of the first listed one that is not smaller."""
        traits, best = np.array([each.traits for each in candidates]), np.array(self._traits)[nearest]
        differing: Indices = (traits[:, None] != best).sum(axis=2)
        return differing

    def _beside(self, candidates: Sequence[Candidate], nearest: Sequence[int], in_reach: Mask) -> Floats:
        """The relative cost of the fields that the model ignores. `nearest`: for each M, the first listed one
        that is not smaller."""
        found = np.zeros(in_reach.shape)
        for number, each in enumerate(candidates):
            if each.complete is None:
                continue
            own = {m: self._own.get((each.form, m)) for m in set(nearest)}
            others = {m: each.beside(other) for m, other in own.items() if other is not None and other is not each}
            if others:
                found[number] = [others.get(m, 0.0) for m in nearest]
        return found

    def _near(self, m: int) -> list[Candidate]:
        """The accepted schedules near the best at an M. The ranked schedules come from two models in turn, so the
        search ends when two in a row are not near the best."""
        found: list[tuple[Candidate, float]] = []
        choices = islice(ranked(self._at(m), self._target, self._given), _SCANNED)
        for each in islice((one.schedule for one in choices if self._sums.accepts(one.schedule)), _MOST_NEAR):
            along = int(Traits.of(each).is_swapped)
            rows = each.tile_mnk[along] * each.cluster[along]
            one = Candidate(tuple(map(each.get, _FORM)), rows, each, traits=Traits.of(each))
            found.append((one, float(self._cycles_at(one, [m])[0])))
            most = _NEAR * min(cycles for _, cycles in found)
            if len(found) > 2 and min(cycles for _, cycles in found[-2:]) > most:
                break
        return [each for each, cycles in found if cycles <= most]

    def cycles(self, candidates: Sequence[Candidate], rows: Sequence[int], where: Mask) -> Floats:
        """The estimated cycles; infinite if not `where`, or if the choice would not consider the schedule."""
        found = np.full(where.shape, np.inf)
        for number, each in enumerate(candidates):
            at = np.flatnonzero(where[number])
            found[number, at] = self._cycles_at(each, [rows[place] for place in at.tolist()])
        return found

    def _cycles_at(self, candidate: Candidate, rows: Sequence[int]) -> Floats:
        """The estimated cycles of a complete candidate at these M."""
        schedule = candidate.complete
        assert schedule is not None
        shares = dict(zip(rows, self._shares(schedule, rows).tolist(), strict=True))
        known = self._known.setdefault(candidate.form, {})
        unknown = [m for m, share in shares.items() if share and m not in known]
        if unknown:
            division = schedule.k_division
            whole = schedule.grid.tail or TailKind.whole
            tail = whole if division is None else division if division.is_of_tail else None
            product, problem = self._products(schedule, unknown), self._multiplied(turns_of(schedule), unknown[0])
            known.update(zip(unknown, costs(schedule, product, problem, self._target, tail).tolist(), strict=True))
        return np.array([known[m] / shares[m] if shares[m] else np.inf for m in rows])

    def _shares(self, schedule: Schedule, rows: Sequence[int]) -> Floats:
        """For each M: 0 if the choice would not consider the schedule; otherwise 1. A schedule that divides K or swaps
        the operands must take less than a share of the cycles of others. For it, the result is this share in place of
        1."""
        turns, division = turns_of(schedule), schedule.k_division
        may = np.array([self._may_turn(turns.is_swapped, m) for m in rows])
        if not may.any():
            return np.zeros(len(rows))
        parts = 1 if division is None or division.is_of_tail else division.parts
        own = self._multiplied(turns, rows[0])
        may &= _fits_grid(schedule, self._products(schedule, rows), own, parts, self._target)
        shares = may * (swap.worth_swapping(np.array(rows)) if turns.is_swapped else 1.0)
        if parts == 1:
            return shares
        return shares * worth_dividing(self._given, own, self._target, with_producer=schedule.agents.has_producer)

    def _may_turn(self, is_swapped: bool, m: int) -> bool:
        """Whether, at an M, the choice tries the swapped product; if not `is_swapped`, the product as given."""
        problem = self._at(m)
        if problem.weights is not None:
            return is_swapped == (swap.for_weights(self._given, problem, self._target) is not None)
        return not is_swapped or problem.d_is_column_major or swap.may_pay(self._given, problem)

    def _products(self, schedule: Schedule, rows: Sequence[int]) -> Product:
        """The products of these M as the kernel computes them."""
        turns = turns_of(schedule)
        return products_at(rows, lambda m: self._product(turns, m), is_swapped=turns.is_swapped)


def planned(schedule: Schedule) -> Schedule:
    """The fields of a schedule that a plan fixes. Only matrices that must be packed are packed."""
    fixed = schedule.set(dict.fromkeys(_OPEN))
    return fixed.filled(dict.fromkeys(PACK_FIELDS.values(), PackKind.none))


def _fits_grid(schedule: Schedule, product: Product, own: Problem, parts: int, target: Target) -> Mask:
    """Whether the choice lists a tile in such clusters for each product as the kernel computes it."""
    rows, columns, _ = schedule.tile_mnk
    if schedule.agents.has_producer:
        down, across = schedule.cluster
        tile, cluster = (np.array([rows]), np.array([columns])), (np.array([down]), np.array([across]))
        return np.asarray(fits_grid(tile, cluster, np.array([parts]), extents_of(product, own), target)[..., 0])
    if parts == 1:
        return np.array(True)
    tiles = np.ceil(product.m / rows) * np.ceil(product.n / columns) * product.batch
    return np.asarray(tiles * parts <= target.sm_count * ctas_per_sm(schedule, own, target))
