"""Which schedules are timed on a shape: those that the model finds best, of several kinds, and some at random.

The model may be wrong. So noise is added to its estimates, and the best ones may not all be of one kind.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from lowtide.measurement.calibration.rows import Form, Shape
from lowtide.measurement.calibration.samples import estimated, product_of
from lowtide.passes.schedules.cost.constants import Constants
from lowtide.passes.schedules.cost.grids import Grids
from lowtide.targets import Target


@dataclass(frozen=True)
class Picks:
    """`best`: the number of best schedules. `more`: the number of others, picked at random among those whose estimates
    are below `within` times the best. `of_kind`: the most of one kind among the best. `blur`: the standard deviation of
    the noise, of logarithms."""

    best: int = 6
    more: int = 4
    within: float = 1.4
    of_kind: int = 2
    blur: float = 0.04

    def picked(
        self, shape: Shape, forms: Mapping[int, Form], constants: Constants, target: Target, seed: int
    ) -> list[int]:
        """Numbers of schedules, the best first."""
        chance = np.random.default_rng(seed)
        numbers = [number for number, form in forms.items() if _fits(form, shape, target)]
        chosen_from = [forms[number] for number in numbers]
        grids = Grids.of([form.grid for form in chosen_from])
        times = estimated(grids, product_of(shape, chosen_from), constants, target)
        times *= np.exp(chance.normal(0, self.blur, len(numbers)))
        kinds: Counter[tuple[object, ...]] = Counter()
        found: list[int] = []
        for number in (numbers[i] for i in np.argsort(times)):
            kind = _kind(forms[number])
            if len(found) < self.best and kinds[kind] < self.of_kind:
                found.append(number)
                kinds[kind] += 1
        limit = self.within * times.min(initial=np.inf)
        near = [number for number, time in zip(numbers, times, strict=True) if time < limit and number not in found]
        return found + [int(number) for number in chance.permutation(near)[: self.more]]


def _fits(form: Form, shape: Shape, target: Target) -> bool:
    """Whether to time a division of K: each part has at least a step, and there are at most two CTAs for each SM."""
    grid = form.grid
    m, n = (shape.n, shape.m) if form.is_swapped else (shape.m, shape.n)
    tiles = -(-m // grid.rows) * -(-n // grid.columns)
    return grid.parts == 1 or (grid.parts <= -(-shape.k // grid.depth) and tiles * grid.parts <= 2 * target.sm_count)


def _kind(form: Form) -> tuple[object, ...]:
    """Schedules of one kind differ in the columns of a tile and in its parts."""
    grid = form.grid
    return form.is_swapped, grid.parts > 1, grid.rows, grid.turns, grid.cluster_rows * grid.cluster_columns
