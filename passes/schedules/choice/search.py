"""The candidates that the rules accept, the cheapest first. The search is the same for all agents.

The cost is estimated for all candidates. The rules take longer, so they check one candidate at a time, as long as the
caller asks for more.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import TypeVar, overload

import numpy as np

from lowtide.dialects.tile import TailKind
from lowtide.dialects.tile.layouts import NO_SWIZZLE
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import ScheduleError, without_codes
from lowtide.passes.schedules.choice.asked_for import asks_for_no_roles, asks_for_roles
from lowtide.passes.schedules.choice.candidates import Group, divided, whole, worth_dividing
from lowtide.passes.schedules.choice.forms import Fields, Forms
from lowtide.passes.schedules.choice.grid import may_split_tail
from lowtide.passes.schedules.choice.packing import for_threads, of_one_column, transposing
from lowtide.passes.schedules.choice.parts import SWIZZLES, follow, follow_agents, follow_mainloop
from lowtide.passes.schedules.cost.cost import cheapest_first, cost, estimates_of
from lowtide.passes.schedules.facts.alignment import multiplied
from lowtide.passes.schedules.rules import mainloop
from lowtide.passes.schedules.rules.rules import breaks_early_rule, broken_rule
from lowtide.passes.support.problem.matrix_layouts import k_is_last
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target, has_wgmma, issuer_of
from lowtide.targets.atoms import multiplies_by_wgmma

_SHOWN = 6  # candidates in the reason
_Each = TypeVar("_Each")


@dataclass(frozen=True)
class Found:
    """A legal schedule without its swizzles, and why it has its tile. `why_no_producer`: the rule that refused a
    producer, if one was tried."""

    schedule: Schedule
    why: str
    why_no_producer: str = ""


@dataclass(frozen=True)
class _Weighed:
    """A candidate: the given fields and its own, and its estimated cycles."""

    given: Schedule
    fields: Fields
    cycles: float

    @cached_property
    def schedule(self) -> Schedule:
        return self.given.filled(self.fields)

    def __str__(self) -> str:
        cluster = self.schedule.cluster
        in_cluster = "" if cluster == (1, 1) else f" in clusters of {list(cluster)}"
        order = f", {self.fields['grid.order']}" if "grid.order" in self.fields else ""
        return f"{'×'.join(map(str, self.schedule.tile_mnk))}{in_cluster}{order}: {self.cycles:,.0f}"


@dataclass(frozen=True)
class _Estimated(Sequence[_Weighed]):
    """Candidates whose cycles are estimated. `order`: their indices, the cheapest first."""

    given: Schedule
    forms: Forms
    cycles: np.ndarray
    order: Sequence[int]

    def __len__(self) -> int:
        return len(self.order)

    @overload
    def __getitem__(self, place: int) -> _Weighed: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[_Weighed]: ...
    def __getitem__(self, place: int | slice) -> _Weighed | Sequence[_Weighed]:
        if isinstance(place, slice):
            return [self[each] for each in range(*place.indices(len(self)))]
        number = self.order[place]
        return _Weighed(self.given, self.forms[number], float(self.cycles[number]))


def legal(problem: Problem, target: Target, given: Schedule) -> Iterator[Found]:
    """The legal schedules that agree with the given fields: with a producer if one is possible, else without. Raises
    ScheduleError if there are none."""
    search, why_not = search_with_producer(problem, target, given), ""
    if search is not None:
        try:
            yield from search.found()
            return
        except ScheduleError as error:  # the given fields may ask for instructions that every target has
            if given.agents.has_producer:
                raise
            why_not = str(error)
    given = for_threads(of_one_column(given, problem), problem, target)
    own = multiplied(given, problem)
    try:
        for found in Search(given, own, target, with_producer=False).found():
            yield Found(found.schedule, found.why, why_not)
    except ScheduleError as error:
        raise ScheduleError(f"no schedule fits: {_why_none_fits(str(error), why_not, given, own)}") from None


def search_with_producer(problem: Problem, target: Target, given: Schedule) -> "Search | None":
    """The search among the candidates with a producer; None if there are no such candidates."""
    may_have_roles = not given.agents.is_single and (problem.copied_by_threads or not given.copied_by_threads)
    may_have_roles = may_have_roles and issuer_of(given.multiply.atom) in (None, "warpgroup")  # mma.sync on request
    converts_none_but_a = problem.packed == "a" or not any(problem.converted)
    takes_wgmma = converts_none_but_a and multiplies_by_wgmma(problem.a, problem.b)
    if not given.agents.has_producer and not (may_have_roles and mainloop.has_wgmma(target) and takes_wgmma):
        return None
    for_producer = transposing(given, problem, target)
    return Search(for_producer, multiplied(for_producer, problem), target, with_producer=True)


def _why_none_fits(without: str, with_producer: str, given: Schedule, problem: Problem) -> str:
    """The rule that the given fields break: of the kind of schedule that they ask for, or of both kinds."""
    for_roles, for_none = asks_for_roles(given), asks_for_no_roles(given, problem)
    if not with_producer or (for_none and not for_roles):
        return without
    if with_producer == without or (for_roles and not for_none):
        return with_producer
    return f"{without_codes(with_producer)}; nor with roles = single: {without}"


@dataclass(frozen=True)
class Search:
    """The search among the candidates with a producer, or without."""

    given: Schedule
    problem: Problem
    target: Target
    with_producer: bool

    def found(self) -> Iterator[Found]:
        """First a division of K that is worth it, if there is one, then the best whole tiles, then the rest. If no
        candidate is legal, raises ScheduleError with the rule that the first one breaks."""
        refused: list[str] = []
        tiles = self._whole(refused)
        best = next(tiles, None)
        if best is None:
            raise ScheduleError(refused[0] if refused else "")
        paying, others = self._divided(best.schedule)
        yield from islice(paying, 1)
        yield best
        yield from in_turn(chain(paying, others), tiles)

    @property
    def _takes_layout(self) -> bool:
        """Whether the multiply takes the operands as they lie. If not, all candidates break the same rule."""
        of, by_k = self.problem, k_is_last(self.problem.layout)
        is_open = not self.with_producer or self.given.multiply.atom is not None or any(of.converted)
        return is_open or has_wgmma(of.a, of.b, of.acc, by_k)

    def _whole(self, refused: list[str]) -> Iterator[Found]:
        """The legal whole tiles, the cheapest of each group first. Adds the rules that others break to `refused`."""
        given, is_first = self.given, True
        is_open = may_split_tail(given, self.problem) or not self.with_producer
        tail = None if is_open else given.grid.tail or TailKind.whole
        for group in whole(given, self.problem, self.target, with_producer=self.with_producer):
            weighed = self._weighed(group, tail, refused)
            for one in weighed if self._takes_layout else weighed[:1]:
                schedule = self.accepted(one.schedule, refused)
                if schedule is not None:
                    yield Found(schedule, group.why or _why(one, weighed, is_first=is_first))
                    is_first = is_first and bool(group.why)

    def _divided(self, best: Schedule) -> tuple[Iterator[Found], Iterator[Found]]:
        """Tiles whose K is divided, the cheapest first: those worth it against the best whole tiles, and the others."""
        problem, target = self.problem, self.target
        group = divided(self.given, problem, target, with_producer=self.with_producer)
        if not group.candidates:
            return iter(()), iter(())
        of_whole = cost(best, problem, target)
        most = of_whole * worth_dividing(self.given, problem, target, with_producer=self.with_producer)
        weighed = self._weighed(group, None, [])
        paying = bisect_left(weighed, most, key=lambda one: one.cycles)

        def legal_of(places: range) -> Iterator[Found]:
            for one in map(weighed.__getitem__, places):  # each is made when it is needed
                schedule, division = self.accepted(one.schedule, []), one.schedule.k_division
                if schedule is not None and division is not None:
                    yield Found(
                        schedule,
                        f"{division.parts} CTAs share the K of each tile ({one.cycles:,.0f} estimated cycles): whole "
                        f"tiles are too few for the SMs, or fill them badly ({of_whole:,.0f}, "
                        f"{'×'.join(map(str, best.tile_mnk))})",
                    )

        return legal_of(range(paying)), legal_of(range(paying, len(weighed)))

    def _weighed(self, group: Group, tail: TailKind | None, refused: list[str]) -> Sequence[_Weighed]:
        """The distinct candidates of a group, the cheapest first unless their order is known. The estimate of a
        candidate without a producer needs all its fields."""
        if isinstance(group.candidates, Forms):
            return self._estimated(group.given, group.candidates, tail)
        found = []
        for schedule in dict.fromkeys(map(group.given.filled, group.candidates)):
            try:
                own = follow(schedule, self.problem, self.target)
                found.append(_Weighed(own, {}, cost(own, self.problem, self.target, tail)))
            except ScheduleError as error:
                refused.append(str(error))
        return found if group.why else sorted(found, key=lambda one: one.cycles)

    def _estimated(self, given: Schedule, forms: Forms, tail: TailKind | None) -> Sequence[_Weighed]:
        """The same for tiles of wgmma. Their cycles are estimated all at once; a schedule is made when it is needed."""
        if not forms:
            return []
        grids = forms.grids(given.decided())
        cycles = estimates_of(grids, self.problem, self.target, tail)
        return _Estimated(given, forms, cycles, cheapest_first(grids, cycles, self.problem))

    def accepted(self, schedule: Schedule, refused: list[str]) -> Schedule | None:
        """The completed schedule; None if it breaks a rule. The rule's message is added to `refused`. If a message is
        there already, rules that need no complete schedule come first, and add none."""
        if self.with_producer:
            schedule = follow_agents(schedule, self.problem, self.target)
            if refused and breaks_early_rule(schedule, self.problem, self.target):
                return None
            schedule = follow_mainloop(schedule, self.problem, self.target)
        message = self.broken(schedule)
        if message is not None:
            refused.append(message)
        return schedule if message is None else None

    def completed(self, schedule: Schedule) -> Schedule:
        return follow(schedule, self.problem, self.target) if self.with_producer else schedule

    def broken(self, complete: Schedule) -> str | None:
        """The rule that a completed schedule breaks. Open swizzles get a placeholder, since they do not decide whether
        it is legal."""
        return broken_rule(complete.filled(dict.fromkeys(SWIZZLES, NO_SWIZZLE)), self.problem, self.target)


def in_turn(first: Iterator[_Each], second: Iterator[_Each]) -> Iterator[_Each]:
    """Alternates between both while they last, then gives the rest."""
    for each in first:
        yield each
        yield from islice(second, 1)
    yield from second


def _why(one: _Weighed, weighed: Sequence[_Weighed], *, is_first: bool) -> str:
    """Why a candidate is chosen. `is_first`: whether it is the cheapest legal one."""
    others = [str(other) for other in weighed[:_SHOWN] if other != one]
    place = "the fastest" if is_first else "one"
    why = f"{place} of {len(weighed):,} candidates by the cost model ({one.cycles:,.0f} cycles at the highest clock)"
    following = "next" if one == weighed[0] else "others"
    return f"{why}; {following}: {'; '.join(others)}" if others else why
