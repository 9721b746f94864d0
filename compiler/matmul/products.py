"""The products of a family at several M at once, as kernels compute them: the input of estimates."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from lowtide.dialects.tile import OperandsKind, PackKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.schedules.choice.forms import Extents
from lowtide.passes.schedules.cost.described import product_of
from lowtide.passes.schedules.cost.grids import LINE_BYTES, Product, stacked, taken
from lowtide.passes.schedules.facts.alignment import PACK_FIELDS, multiplied
from lowtide.passes.support.problem.problem import Problem


class Turns(NamedTuple):
    """How a schedule turns the product around: whether A and B are swapped, and how each is packed."""

    is_swapped: bool
    pack_of_a: PackKind | None
    pack_of_b: PackKind | None


def turns_of(schedule: Schedule) -> Turns:
    mainloop = schedule.mainloop
    return Turns(schedule.grid.operands is OperandsKind.swapped, mainloop.a.pack, mainloop.b.pack)


def turned(problem: Problem, turns: Turns) -> Problem:
    """The problem as the kernel computes it."""
    packs = dict(zip((PACK_FIELDS["a"], PACK_FIELDS["b"]), turns[1:], strict=True))
    return multiplied(Schedule().set(packs), problem.swap() if turns.is_swapped else problem)


def launched(problem: Problem) -> Product:
    """The product of a problem in a plan. `overlaps` is false, since the plan decides for each M whether launches
    overlap."""
    return replace(product_of(problem), overlaps=False)


def products_at(rows: Sequence[int], product_at: Callable[[int], Product], *, is_swapped: bool) -> Product:
    """The products of these M. `product_at` gives the product of one M. Except for its extents, it depends only on the
    largest power of two up to `LINE_BYTES` that divides M."""
    units, numbers = np.unique(np.gcd(rows, LINE_BYTES), return_inverse=True)
    some = stacked([product_at(LINE_BYTES + unit) for unit in units.tolist()])
    extent: dict[str, Any] = {"n" if is_swapped else "m": np.array(rows, dtype=float)}
    return replace(taken(some, numbers), **extent)


def extents_of(product: Product, problem: Problem) -> Extents:
    """The extents of D as the choice reads them."""
    m, n = (np.asarray(extent, dtype=float) for extent in (product.m, product.n))
    return Extents(m, n, problem.batch)
