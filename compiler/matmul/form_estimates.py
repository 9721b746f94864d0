"""Estimates for families of products by wgmma: all candidates at all M as arrays.

The choice lists its candidates once for all M. Each is a form: it sets the fields that the cost depends on, and leaves
the others open. Only the forms that a plan keeps are completed and checked.
"""

from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator, Sequence, Set
from dataclasses import replace
from functools import cache
from itertools import accumulate
from math import log2
from sys import maxsize
from typing import NamedTuple

import numpy as np

from lowtide.compiler.matmul.estimates import Candidate, Estimates, Floats, Indices, Mask, Sums, Traits
from lowtide.compiler.matmul.products import extents_of, launched, products_at
from lowtide.dialects.tile import PackKind, TailKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.passes.schedules.choice.candidates import for_any_rows, worth_dividing
from lowtide.passes.schedules.choice.choice import Way, ways
from lowtide.passes.schedules.choice.forms import fits_grid, has_all_rows
from lowtide.passes.schedules.choice.grid import may_split_tail
from lowtide.passes.schedules.choice.packing import FEW_COLUMNS, row_of, takes_any_layout
from lowtide.passes.schedules.choice.search import Search, search_with_producer
from lowtide.passes.schedules.choice.swap import worth_swapping
from lowtide.passes.schedules.cost.cost import estimated, halves_are_legal
from lowtide.passes.schedules.cost.described import is_estimated
from lowtide.passes.schedules.cost.grids import Grid, Grids, Product, taken
from lowtide.passes.schedules.facts.alignment import PACK_FIELDS, WIDEST
from lowtide.passes.support.problem.matrix_layouts import k_is_last
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target, has_wgmma
from lowtide.targets.atoms import WGMMA_ROWS

_NEAR, _MOST_NEAR = 1.06, 20  # candidates of an M: within this factor of the best cost, and at most so many


class _Form(NamedTuple):
    """The indices of the way and of the form, and whether the last wave is in halves."""

    way: int
    number: int
    halves: bool


class _Weighed(NamedTuple):
    """Candidates of several M: the number of each form, the index of its M, and its cycles."""

    numbers: Indices
    at: Indices
    cycles: Floats


class _FormsOfWay:
    """The forms of one way to compute the products of a family. `most`: the largest M for which candidates are listed.
    `served`: the M whose products are computed in this way."""

    def __init__(self, way: Way, search_at: Callable[[int], Search], most: int, served: range, sums: Sums) -> None:
        search = search_at(most)  # if rows of D are M long, they start on 16 bytes: all widths are listed
        self.way, self.search_at, self._target, self._served = way, cache(search_at), search.target, served
        self._problem = search.problem  # its types are those of all M
        self.broken = cache(search.broken)  # rules see run-time extents, which are the same for all M
        self._some = [forms for forms in for_any_rows(search.given, search.problem, search.target) if forms]
        self.fields = [(forms, number) for forms in self._some for number in range(len(forms))]
        decided = search.given.decided()
        grids = [forms.grids(decided) for forms in self._some]
        self.grids = Grids(*(np.concatenate([getattr(each, name) for each in grids]) for name in Grid._fields))
        self._accepted = np.concatenate(
            [np.array([sums.divides(each) for each in forms.divisions])[forms.numbers[2]] for forms in self._some]
        )
        self._may_split_tail = may_split_tail(search.given, search.problem)
        self._worth = worth_dividing(search.given, search.problem, search.target, with_producer=True)
        self._product_at = cache(lambda m: launched(self.search_at(m).problem))

    def products(self, rows: Sequence[int]) -> Product:
        """The products of these M."""
        return products_at(rows, self._product_at, is_swapped=self.way.problem.swapped)

    def near(self, rows: Sequence[int]) -> tuple[_Weighed, _Weighed]:
        """The candidates at these M, with a whole last wave and with one in halves."""
        product = self.products(rows)
        of = extents_of(product, self._problem)
        suits = np.concatenate([forms.suits(of) for forms in self._some], axis=-1) & self._accepted
        at, numbers = np.nonzero(suits & self.serves(rows)[:, None])
        grids, products = self.grids.at(numbers), taken(product, at)
        whole = _Weighed(numbers, at, self._estimated(grids, products))
        halves = np.flatnonzero(self._may_split_tail and halves_are_legal(grids, products, self._problem, self._target))
        halved = replace(grids.at(halves), halves=np.ones(len(halves)))
        cycles = self._estimated(halved, taken(products, halves))
        return whole, _Weighed(numbers[halves], at[halves], cycles)

    def serves(self, rows: Sequence[int]) -> Mask:
        """Whether products of each M are computed in this way."""
        return np.array([m in self._served for m in rows])

    def cycles(self, grids: Grids, product: Product, where: Mask) -> Floats:
        """The cycles of grids at each M; infinite if not `where`."""
        found = np.full(where.shape, np.inf)
        number, at = np.nonzero(where)
        found[number, at] = self._estimated(grids.at(number), taken(product, at))
        return found

    def _estimated(self, grids: Grids, product: Product) -> Floats:
        """The cycles of grids. Grids that divide K or swap the operands must stay below a share of the cycles of
        others. Their cycles are divided by this share, so that all can be compared."""
        cycles = estimated(grids, product, self._problem, self._target)
        worth = np.where(grids.parts > 1, self._worth, 1.0)
        return cycles / (worth * worth_swapping(product.n) if self.way.problem.swapped else worth)

    def considered(self, grids: Grids, product: Product) -> Mask:
        """Whether the choice may take each grid at the M of each product."""
        tile, cluster = (grids.rows, grids.columns), (grids.cluster_rows, grids.cluster_columns)
        of = extents_of(product, self._problem)
        is_high = grids.rows >= WGMMA_ROWS
        return (fits_grid(tile, cluster, grids.parts, of, self._target) & (is_high | has_all_rows(grids.rows, of))).T


class FormEstimates(Estimates):
    """The form of each candidate is a `_Form`. Schedules are completed once they are kept."""

    per_octave = (16, 8)

    def __init__(
        self, at: Callable[[int], Problem], target: Target, given: Schedule, sums: Sums, tried: Sequence[_FormsOfWay]
    ) -> None:
        super().__init__(at, target, given, sums)
        self._tried = tried
        self._completed = cache(self._complete)
        self._of_all = cache(self._cycles_of_all)
        self._starts = [0, *accumulate(len(each.grids) for each in tried for _ in range(2))]

    def candidates(self, rows: Sequence[int], refused: Set[Hashable] = frozenset()) -> list[Candidate]:
        self._rows = list(rows)
        places, at, cycles = self._of_all(tuple(rows))
        if refused:
            left = ~np.isin(places, [self._place(form) for form in refused])
            places, at, cycles = places[left], at[left], cycles[left]
        best = np.full(len(rows), np.inf)
        np.minimum.at(best, at, cycles)
        near = np.flatnonzero(cycles <= _NEAR * best[at])
        near = near[np.lexsort((places[near], cycles[near], at[near]))]
        near = near[np.arange(len(near)) - np.searchsorted(at[near], at[near]) < _MOST_NEAR]
        seen: dict[int, list[float]] = {}
        for place, of_row in zip(places[near].tolist(), at[near].tolist(), strict=True):
            seen.setdefault(place, []).append(log2(rows[of_row]))
        forms = {self._form(place): octaves for place, octaves in seen.items()}
        candidates = [
            Candidate(form, self._rows_of(form), seen=octaves, traits=self._traits_of(form))
            for form, octaves in forms.items()
        ]
        return self._compared(candidates)

    def _cycles_of_all(self, rows: Sequence[int]) -> _Weighed:
        """The candidates of all ways at these M. The number of a form is its place."""
        found = [each for tried in self._tried for each in tried.near(rows)]
        places = [start + each.numbers for start, each in zip(self._starts, found, strict=False)]
        at, cycles = ([getattr(each, name) for each in found] for name in ("at", "cycles"))
        return _Weighed(np.concatenate(places), np.concatenate(at), np.concatenate(cycles))

    def _place(self, form: Hashable) -> int:
        """A number for each form: the way's forms with a whole last wave, then those with one in halves."""
        assert isinstance(form, _Form)
        return self._starts[2 * form.way + form.halves] + form.number

    def _form(self, place: int) -> _Form:
        """The inverse of `_place`."""
        at = bisect_right(self._starts, place) - 1
        return _Form(at // 2, place - self._starts[at], bool(at % 2))

    def completed(self, candidates: Sequence[Candidate]) -> tuple[list[Candidate], set[Hashable]]:
        """Each form is completed for the M that it serves."""
        served = np.argmin(self.costs(candidates, self._rows), axis=0)
        found: list[Candidate] = []
        refused: set[Hashable] = set()
        for number, each in enumerate(candidates):
            rows = [self._rows[at] for at in np.flatnonzero(served == number)] or [round(2 ** each.seen[0])]
            schedules = self._completed_at(_form_of(each), rows)
            if None in schedules.values():
                refused.add(each.form)
                continue
            own: dict[Schedule, Candidate] = {}
            for m, complete in schedules.items():
                one = Candidate(each.form, each.rows, complete, each.seen, each.traits)
                self._own[each.form, m] = own.setdefault(one.schedule, one)
            found += own.values()
        return found, refused

    def _completed_at(self, form: _Form, rows: Sequence[int]) -> dict[int, Schedule | None]:
        """The schedules of a form at these M, which ascend. Fields change at thresholds of M. So if the schedules at
        the first and the last M are equal, those between are taken to be the same."""
        first, last = self._completed(form, rows[0]), self._completed(form, rows[-1])
        if len(rows) < 3 or first == last or None in (first, last):
            return dict.fromkeys(rows, first) | {rows[-1]: last}
        middle = len(rows) // 2
        return self._completed_at(form, rows[: middle + 1]) | self._completed_at(form, rows[middle:])

    def _rows_of(self, form: _Form) -> int:
        tried, number = self._tried[form.way], form.number
        grids, is_swapped = tried.grids, tried.way.problem.swapped
        rows, columns = grids.rows * grids.cluster_rows, grids.columns * grids.cluster_columns
        return int((columns if is_swapped else rows)[number])

    def _traits_of(self, form: _Form) -> Traits:
        tried, number = self._tried[form.way], form.number
        adders = 1 + tried.grids.adds_shares[number] if tried.grids.parts[number] > 1 else 0
        return Traits(tried.way.problem.swapped, int(adders))

    def _complete(self, form: _Form, m: int) -> Schedule | None:
        """The schedule of a form for an M; None if it is not legal or not accepted."""
        tried = self._tried[form.way]
        search = tried.search_at(m)
        forms, place = tried.fields[form.number]
        tail = {"grid.tail": TailKind.halves if form.halves else TailKind.whole}
        found = search.completed(search.given.filled({**forms[place], **tail}))
        if tried.broken(found) is not None:
            return None
        found = found if form.halves else found.set({"grid.tail": search.given.grid.tail})
        return found if self._sums.accepts(found) else None

    def cycles(self, candidates: Sequence[Candidate], rows: Sequence[int], where: Mask) -> Floats:
        found = np.full(where.shape, np.inf)
        for way, tried in enumerate(self._tried):
            own = [at for at, each in enumerate(candidates) if _form_of(each).way == way]
            if own:
                numbers, halves = np.array([_form_of(candidates[at])[1:] for at in own]).T
                grids = replace(tried.grids.at(numbers), halves=halves.astype(float))
                product = tried.products(rows)
                may = where[own] & tried.considered(grids, product) & tried.serves(rows)
                found[own] = tried.cycles(grids, product, may)
        return found


def _form_of(candidate: Candidate) -> _Form:
    assert isinstance(candidate.form, _Form)
    return candidate.form


def estimates_for(
    at: Callable[[int], Problem], rows: tuple[int, int], target: Target, given: Schedule, sums: Sums
) -> Estimates:
    """FormEstimates if kernels with a producer compute the products of a family by wgmma at all M, and the estimate
    of wgmma tiles covers them; Estimates otherwise. `rows`: the least M and the largest."""
    tried = []
    for way, served in _served(ways(at(rows[0]), target, given)):

        def search_at(m: int, way: Way = way) -> Search | None:
            problem = at(m).swap() if way.problem.swapped else at(m)
            return search_with_producer(problem, target, way.given)

        first, last = (min(max(m, served.start), served.stop - 1) for m in rows)
        least, most = search_at(first), search_at(last)
        # With few rows, mma.sync may multiply operands whose layout wgmma does not take.
        if least is None or most is None or least.given != most.given or not _is_covered(least.problem):
            return Estimates(at, target, given, sums)
        tried.append(_FormsOfWay(way, search_at, last, served, sums))  # type: ignore[arg-type]
    return FormEstimates(at, target, given, sums, tried)


def _served(found: Sequence[Way]) -> Iterator[tuple[Way, range]]:
    """Each way, with the M that it serves. If K is not contiguous in A, and A is packed, it is packed `transposed` for
    an M of up to `FEW_COLUMNS`."""
    of_few, first = [_transposing_a(way) for way in found], 0
    if of_few != list(found):
        first = FEW_COLUMNS + 1
        yield from ((way, range(first)) for way in of_few)
    yield from ((way, range(first, maxsize)) for way in found)


def _transposing_a(way: Way) -> Way:
    """The way, with A packed `transposed` if it was packed by `rows`, K is not contiguous in it, and wgmma takes its
    type in any layout. If the rows of B are unaligned, those of A need not be, so A stays packed by `rows`: then it is
    not copied where it is aligned."""
    of = way.problem
    name, other = ("b", "a") if of.swapped else ("a", "b")
    lies, row = dict(zip("ab", k_is_last(of.layout), strict=True))[name], row_of(other, of)
    is_aligned = row is not None and row * element_type(of.stream(other).element).bytes % WIDEST == 0
    if lies or not is_aligned or way.given.get(PACK_FIELDS[name]) is not PackKind.rows or not takes_any_layout(of):
        return way
    return way._replace(given=way.given.set({PACK_FIELDS[name]: PackKind.transposed}))


def _is_covered(problem: Problem) -> bool:
    """Whether wgmma takes the operands as they lie, and forms describe all candidates. For packed weights tiles depend
    on M; with scales of blocks the K of the last wave may be divided; and if sums are promoted, clusters depend on how
    rows along M lie."""
    types, by_k = (problem.a, problem.b, problem.acc), k_is_last(problem.layout)
    is_promoted = all(by_k) and not (problem.weights or any(problem.converted) or problem.is_scaled)
    return (is_estimated(problem) or is_promoted) and has_wgmma(*types, by_k)
