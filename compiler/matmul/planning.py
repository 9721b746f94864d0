"""Makes the plan of a family: a few schedules that serve every M, and which M each one serves.

A plan is a function of the family alone. Candidates are the schedules near the best at some M. A few of them are kept,
so that at each M the cost of the cheapest kept one is close to that of the best candidate. Each M takes the cheapest
kept schedule.

The excess at an M is the relative difference of these two costs. The mean of a penalty for it is minimized over M; each
factor of 2 has the same weight. The penalty of a small excess is proportional to it, so that many M take the schedule
of the kernel compiled for their shape. That of a large excess grows with its square, so that no call is much slower
than this kernel.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from functools import cache
from math import log
from typing import Any

import numpy as np

from lowtide import targets
from lowtide.compiler import driver
from lowtide.compiler.matmul.estimates import Candidate, Estimates, Sums
from lowtide.compiler.matmul.family import Family
from lowtide.compiler.matmul.form_estimates import estimates_for
from lowtide.compiler.matmul.schedule_plan import Intervals, SchedulePlan
from lowtide.compiler.numerics import summation_in
from lowtide.compiler.numerics_words import ANY, INVARIANT_ROWS
from lowtide.compiler.problem_ir import problem_text, seen_by_passes
from lowtide.dialects.levels import Level
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import ScheduleError
from lowtide.passes.schedules.choice.choice import ranked
from lowtide.passes.support.agents.atoms import mma_atom_name
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import MMA_ATOMS, Target

_FEWEST, MOST_ROWS = 8, 16384  # the least and the largest M for which candidates are listed
MOST_SCHEDULES = 16
_ENOUGH_MEAN, _ENOUGH_WORST = 0.003, 0.03  # of the excess; if both hold, no further schedule is kept
_FEW_ROWS = 512  # up to here tiles have as many columns as M or a part of M, so candidates differ from M to M
_MOST_EXCESS = log(2.0)  # of an M that no kept schedule serves
_LARGE_EXCESS = 0.03  # the penalty of this excess is twice the excess
_PER_OCTAVE = 32  # intervals in each factor of 2 of M; costs are compared at the first and the last M of each
_EXCHANGES = 2  # rounds in which each kept schedule may be replaced, after each that is added

Epilogue = Callable[..., Any]
_Floats = np.ndarray[Any, np.dtype[np.float64]]
_Flags = np.ndarray[Any, np.dtype[np.bool_]]
_Picks = np.ndarray[Any, np.dtype[np.intp]]
_Point = Callable[[int], int]


def make_plan(family: Family, epilogue: Epilogue | None) -> SchedulePlan:
    """Raises ScheduleError if no schedule is legal, or none has the order of sums that the numerics ask for."""
    target = targets.get(family.target)
    given = Schedule.parse(family.given) if family.given else Schedule()
    whole = seen_by_passes(family.spec(epilogue), target)
    order, sums = _order(family, epilogue, whole, target)
    points = _points(family.unit)
    at = cache(lambda m: whole.expecting({"m": m, **family.extents}))
    estimates = estimates_for(at, (_FEWEST, MOST_ROWS), target, given, sums)
    few, many = estimates.per_octave
    listed = {_FEWEST, *(m for m in _rows(few) if m <= _FEW_ROWS), *(m for m in _rows(many) if m > _FEW_ROWS)}
    ascending = sorted({point(m) for m in listed for point in points})
    rows, of_each = _weighted(_rows(_PER_OCTAVE // len(points)))
    weights = np.tile(of_each, len(points)) / len(points)
    kept, best = _completed(estimates, ascending, rows, points, weights)
    if not kept:
        raise ScheduleError(
            f"{family}: no schedule sums in the order {order}; pass aligned operands, or numerics='repeatable'"
            " [plan-order]"
        )
    above = np.log(_costs(estimates, kept, rows, points).min(axis=0) / best)
    schedules, intervals, others = _assigned(kept, estimates, rows, points)
    mean, worst = (round(float(np.expm1(share)), 4) for share in (above @ weights, above.max()))
    return SchedulePlan(schedules, intervals, family.unit, others, order, mean, worst)


def _completed(
    estimates: Estimates,
    looked_at: Sequence[int],
    rows: Sequence[int],
    points: Sequence[_Point],
    weights: _Floats,
) -> tuple[list[Candidate], _Floats]:
    """The candidates to keep, with complete schedules, and the least cost at each M. Other candidates replace those
    that turn out to have no legal schedule. `looked_at`: the M for which candidates are listed."""
    refused: set[Hashable] = set()
    while found := estimates.candidates(looked_at, refused):
        costs = _costs(estimates, found, rows, points)
        best = costs.min(axis=0)

        def some(of: Sequence[Candidate], costs: _Floats, best: _Floats = best) -> list[Candidate]:
            return [of[number] for number in _kept(np.minimum(np.log(costs / best), _MOST_EXCESS), weights)]

        kept, without_schedule = estimates.completed(some(found, costs))
        if not without_schedule:
            return some(kept, _costs(estimates, kept, rows, points)), best
        refused |= without_schedule
    return [], np.ones(len(weights))


def _points(unit: int) -> tuple[_Point, ...]:
    """Functions of an M that give the M at which costs are estimated: the same M and, if `unit` is not 1, the last one
    up to it that is half a unit above a multiple."""
    half = unit // 2
    return (int,) if unit == 1 else (int, lambda m: max(0, m - half) // unit * unit + half)


def _costs(
    estimates: Estimates, candidates: Sequence[Candidate], rows: Sequence[int], points: Sequence[_Point]
) -> _Floats:
    return np.concatenate([estimates.costs(candidates, list(map(point, rows))) for point in points], axis=1)


def _rows(per_octave: int) -> list[int]:
    """`per_octave` M for each factor of 2 from 128 on; below 128, the multiples of 128 / `per_octave`."""
    step, found = 128 // per_octave, [0]
    while found[-1] < MOST_ROWS:
        step *= 2 if found[-1] >= 2 * per_octave * step else 1
        found.append(found[-1] + step)
    return found[1:]


def _weighted(ends: Sequence[int]) -> tuple[list[int], _Floats]:
    """The first and the last M of the intervals that end at `ends`, and the weight of each M. Both have half the weight
    of their interval, which is its length on a logarithmic scale. The sum is 1."""
    halves = np.diff(np.log([1, *ends])) / (2 * np.log(ends[-1]))
    found: Counter[int] = Counter()
    for first, last, half in zip([1, *(end + 1 for end in ends)], ends, halves.tolist(), strict=False):
        found[first] += half
        found[last] += half
    rows = sorted(found)
    return rows, np.array([found[m] for m in rows])


def _kept(excess: _Floats, weights: _Floats) -> list[int]:
    """The indices of the rows of `excess` to keep. The next one is that which leaves the least mean penalty."""
    kept: list[int] = []
    penalties = excess * (1 + excess / _LARGE_EXCESS)
    of_none = penalties.max(initial=0.0)

    @cache
    def best_beside(numbers: frozenset[int]) -> int:
        left = np.min(penalties[list(numbers)], axis=0, initial=of_none)
        return int(np.argmin(np.minimum(left, penalties) @ weights))

    while len(kept) < min(MOST_SCHEDULES, len(excess)):
        kept.append(best_beside(frozenset(kept)))
        for _ in range(_EXCHANGES):
            before = list(kept)
            for at in range(len(kept)):
                kept[at] = best_beside(frozenset(kept[:at] + kept[at + 1 :]))
            if kept == before:
                break
        rest = excess[kept].min(axis=0)
        if rest @ weights <= _ENOUGH_MEAN and rest.max() <= _ENOUGH_WORST:
            break
    return sorted(set(kept))


def _assigned(
    kept: Sequence[Candidate], estimates: Estimates, rows: Sequence[int], points: Sequence[_Point]
) -> tuple[tuple[str, ...], tuple[Intervals, ...], tuple[tuple[int, ...], ...]]:
    """The schedules that some M takes, the intervals of M, and the order in which others replace a schedule. Intervals
    end at an M after which one more tile is needed, because costs change there."""
    edges = {m for each in kept for m in each.in_reach(range(each.rows, MOST_ROWS, each.rows))}
    ends = sorted({*rows, *edges})
    costs = _costs(estimates, kept, ends, points)
    used = sorted(set(np.argmin(costs, axis=0).tolist()))
    costs = costs[used]
    picks = np.argmin(costs, axis=0)
    taken = [kept[number] for number in used]
    schedules = tuple(each.schedule.shorthand() for each in taken)
    waits = np.array([estimates.waits(each, ends) for each in taken])
    intervals = tuple(_intervals(ends, of_point, waits) for of_point in np.split(picks, len(points)))
    return schedules, intervals, tuple(_others(number, costs, picks) for number in range(len(used)))


def _intervals(ends: Sequence[int], picks: _Picks, waits: _Flags) -> Intervals:
    """Neighbours with the same schedule and the same launch are one interval. `waits`: for each schedule and each of
    `ends`, whether the kernel waits until the kernels before it have ended."""
    waiting = waits[picks, np.arange(len(ends))]
    found = list(zip(picks.tolist(), waiting.tolist(), strict=True))
    last = [at for at in range(len(ends)) if at + 1 == len(ends) or found[at] != found[at + 1]]
    chosen, waiting_at = zip(*(found[at] for at in last), strict=True)
    return Intervals(tuple(ends[at] for at in last), chosen, waiting_at)


def _others(number: int, costs: _Floats, picks: _Picks) -> tuple[int, ...]:
    """The other schedules, the cheapest first, for the M that a schedule serves."""
    served = [at for at, pick in enumerate(picks) if pick == number]
    ranks = np.minimum(np.log(costs[:, served]), np.log(costs[number, served]) + _MOST_EXCESS).sum(axis=1)
    return tuple(int(other) for other in np.argsort(ranks, kind="stable") if other != number)


def _order(family: Family, epilogue: Epilogue | None, whole: Problem, target: Target) -> tuple[str | None, Sums]:
    """The order of sums that all kernels must have (None if any), and which schedules may keep the numerics."""
    reference = family.reference
    if reference is None:
        by_ctas = family.numerics == ANY
        return None, Sums(lambda division: by_ctas or division is None or not division.follows_ctas, lambda _: True)
    spec = reference.spec(epilogue)
    problem = seen_by_passes(spec, target)
    expected = {"m": INVARIANT_ROWS, **reference.extents}
    ranks = (choice.schedule for choice in ranked(problem.expecting(expected), target, Schedule()))
    chosen = next(schedule for schedule in ranks if schedule.k_division is None)
    lowered = driver.lower(problem_text(spec, target, chosen), target=target.name, until=Level.ATOMS)
    wanted = _sum_of(chosen, problem)
    return str(summation_in(lowered)), Sums(
        lambda division: division is None, lambda each: _sum_of(each, whole) == wanted
    )


def _sum_of(schedule: Schedule, problem: Problem) -> tuple[Any, ...]:
    """The fields that the order of sums depends on, if K is not divided. When a kernel is made, its order itself is
    compared."""
    atom = MMA_ATOMS[mma_atom_name(schedule, problem)]
    kind, types = atom.name.partition(".")[0], sorted((atom.a_dtype, atom.b_dtype))
    slices = schedule.multiply.atoms[2] if schedule.multiply.atoms else 1
    step = schedule.mainloop.k if problem.promotes else None
    return kind, atom.shape_mnk[2], types, atom.c_dtype, slices, step
