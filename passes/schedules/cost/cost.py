"""Estimated cost of a grid of CTA tiles, in cycles of one SM.

`wgmma.py` estimates the grids of wgmma tiles that `is_estimated` covers, and `consumers.py` the others: products whose
sums are promoted or whose operands are converted. `few_rows.py` estimates tiles of few rows without a producer; the
choice compares both. The formula in this file is for all other agents without a producer. A grid runs in waves of the
CTAs that fit on the GPU at once. A K step of a CTA takes as long as its products or its loads, whichever take longer.
The constants for each kind of agents are in `calibration.py`. Extents known only at run time count as 4096.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, hypot, prod
from typing import Any, TypeAlias

import numpy as np

from lowtide.dialects.tile import KDivisionKind, RepeatKind, TailKind
from lowtide.dialects.tile.agents import SINGLE
from lowtide.dialects.tile.division import Cut, KDivision, Tiles
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.passes.schedules.cost import few_rows
from lowtide.passes.schedules.cost.calibration import Calibration, of_warps
from lowtide.passes.schedules.cost.consumers import Waves, of_division, reads_of_larger
from lowtide.passes.schedules.cost.described import fields_of, grid_of, is_estimated, is_of_few_rows, product_of
from lowtide.passes.schedules.cost.fitted import FITTED
from lowtide.passes.schedules.cost.grids import Grids, Product, taken
from lowtide.passes.schedules.cost.traffic import (
    Tile,
    clusters_at_once,
    clusters_of,
    ctas_in_large_clusters,
    larger,
    sizes_of,
)
from lowtide.passes.schedules.cost.waiting import may_wait
from lowtide.passes.schedules.cost.wgmma import cycles as wgmma_cycles
from lowtide.passes.schedules.cost.wgmma import estimate_of, may_be_halved
from lowtide.passes.schedules.facts.resources import ctas_per_sm, threads_of
from lowtide.passes.support.agents.atoms import mma_atom_name
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import MMA_ATOMS, Target
from lowtide.targets.atoms import FMA, WGMMA_ROWS

_BOX_BITS = 1024  # in a row of a box that TMA stores: the widest swizzle

_AT_ONCE = 1 << 14  # grids that are estimated together: larger arrays do not fit in a CPU's caches

_USUAL_RATE = 1024  # multiply-adds per cycle and SM, of mma.sync of 16-bit operands
_SHARED_MEMORY_BYTES, _L2_BYTES = 128, 32  # per cycle and SM
# Instructions that a warp issues beside FMAs and loads of fragments: for each copy of a thread, and for each K step.
# Fitted to 48 kernels of f32 on an H200 (7 shapes, four layouts). With them, estimates are off by 1.7 %; without, by
# 5.6 %.
_VECTOR_BYTES, _ISSUED_PER_COPY, _ISSUED_PER_STEP = 16, 15, 64
# In even shares of K these instructions count so many times, because a persistent kernel hides fewer of them. With two
# CTAs on an SM (H200), 4096³ takes 0.98 to 1.00 of the time of whole tiles, which leave 12 % of the last wave empty.
_BESIDE_FMAS_IN_SHARES = 1.15

#: How the last wave of a grid runs
Tail: TypeAlias = TailKind | KDivision


@dataclass(frozen=True)
class Work:
    """The work of a CTA for one tile, in cycles of an SM that it has alone. `products` and `loads`: of each K step.

    `waits`: the share of the products' cycles that the CTA's own warps do not hide.
    """

    steps: int
    products: float
    loads: float
    beside: float
    waits: float = 0

    def stretched(self, sharing: float) -> float:
        """The cycles of a K step's products, with what `sharing` CTAs on the SM do not hide of their waits."""
        return self.products * hypot(1.0, self.waits / sharing)

    def cycles(self, sharing: float, found: Calibration) -> float:
        """The cycles of the tile if so many CTAs share the SM."""
        products = self.stretched(sharing)
        return self.steps * (larger(products, self.loads, found.sharpness) * sharing + found.step) + self.beside


@dataclass(frozen=True)
class Run:
    """Waves of CTAs of warps that copy and multiply. `sharing`: CTAs that share an SM. `busy`: the share of the CTAs
    that could run at once."""

    waves: int
    work: Work
    found: Calibration
    sharing: float
    busy: float

    @property
    def cycles(self) -> float:
        return self.waves * self.work.cycles(self.sharing, self.found)


@dataclass(frozen=True)
class Warps:
    """CTAs of warps that copy and multiply. `on_sm`: how many fit on an SM. `parts`: how many share the K of a tile.
    `evenly`: the tiles whose K steps all CTAs share evenly: all tiles, or those of the last waves. None: no steps are
    shared so; each CTA has whole tiles, or parts of them."""

    work: Work
    found: Calibration
    parts: int
    on_sm: int
    sms: int
    evenly: Tiles | None = None

    def runs(self, tiles: int) -> list[Run]:
        """The full waves of a grid of so many tiles, if there are any, and the last wave, if it is not full."""
        ctas, at_once = tiles * self.parts, self.sms * self.on_sm
        full, over = divmod(ctas, at_once)
        if self.evenly is not None:
            whole = max(0, full - 1) if self.evenly is Tiles.last_waves else 0
            share = replace(self.work, steps=ceil(self.work.steps * (tiles - whole * at_once) / at_once))
            last = Run(1, share, self.found, self.on_sm, 1.0)
            return [Run(whole, replace(self.work, beside=self.found.tile), self.found, self.on_sm, 1.0), last]
        runs = [Run(full, self.work, self.found, self.on_sm, 1.0)] if full else []
        if over:
            sharing = max(1.0, min(at_once, ctas) / self.sms) if self.found.is_even else ceil(over / self.sms)
            runs.append(Run(1, self.work, self.found, sharing, over / at_once))
        return runs

    def cycles(self, tiles: int) -> float:
        """The cost of a grid of so many tiles."""
        return sum(run.cycles for run in self.runs(tiles)) + self.found.first


def cost(schedule: Schedule, problem: Problem, target: Target, tail: Tail | None = None) -> float:
    """Estimated cycles of the whole grid of a schedule. With a producer, the schedule must decide tile, K of a step,
    agents and cluster; without one, all fields.

    `tail`: how the last wave of whole tiles runs. None: in the cheapest way, or with K divided as the schedule says.
    """
    if not is_comparable(schedule, problem, target):
        tiles = clusters_of(Tile(schedule.tile_mnk, SINGLE), problem)
        return _warps(schedule, problem, target).cycles(tiles)
    return float(costs(schedule, product_of(problem), problem, target, tail)[0])


def costs(schedule: Schedule, product: Product, problem: Problem, target: Target, tail: Tail | None) -> np.ndarray:
    """The `cost` for a product, or for each entry of a product of arrays. `problem` may have another extent of D along
    one axis; all else is the same."""
    if not is_comparable(schedule, problem, target):
        rows, columns, _ = schedule.tile_mnk
        tiles = np.ceil(product.m / rows) * np.ceil(product.n / columns) * product.batch
        warps = _warps(schedule, problem, target)
        distinct, numbers = np.unique(tiles, return_inverse=True)
        return np.array([warps.cycles(int(each)) for each in distinct.tolist()])[numbers]
    fields = fields_of(schedule)
    if tail is not None and not isinstance(tail, KDivision):
        fields["grid.tail"] = tail
    count = np.broadcast(product.m, product.n).size
    return _estimates(Grids.of([grid_of(fields, target)] * count), product, problem, target, tail)


def is_comparable(schedule: Schedule, problem: Problem, target: Target) -> bool:
    """Whether the cost of a schedule compares with that of schedules with a producer."""
    return schedule.agents.has_producer or is_of_few_rows(schedule, problem, target)


def estimates(
    candidates: Sequence[Mapping[str, Any]], problem: Problem, target: Target, tail: Tail | None = None
) -> np.ndarray:
    """As `estimates_of`. `candidates`: fields by path."""
    return estimates_of(Grids.of([grid_of(fields, target) for fields in candidates]), problem, target, tail)


def estimates_of(grids: Grids, problem: Problem, target: Target, tail: Tail | None = None) -> np.ndarray:
    """Estimated cycles of schedules with a producer.

    `tail`: how the last wave runs. None: in halves if a candidate says so; otherwise whole or in halves, whichever
    takes less, if halves are legal. If the sums have scales, it may also run in parts of K.
    """
    return _estimates(grids, product_of(problem), problem, target, tail)


def _estimates(grids: Grids, product: Product, problem: Problem, target: Target, tail: Tail | None) -> np.ndarray:
    is_open = tail is None and problem.has_static_extents
    if not is_estimated(problem):
        waves = Waves(grids, product, problem, target)
        if isinstance(tail, KDivision) and tail.is_of_tail:
            return waves.cycles(of_division(tail))
        return waves.cheapest(widest_box(problem)) if is_open else waves.as_said()
    found = estimated(grids, product, problem, target)
    if is_open:
        may = halves_are_legal(grids, product, problem, target) & (grids.halves == 0)
        if may.any():
            halved = replace(grids.at(may), halves=np.ones(may.sum()))
            found[may] = np.minimum(found[may], estimated(halved, taken(product, may), problem, target))
    return found


def estimated(grids: Grids, product: Product, problem: Problem, target: Target) -> np.ndarray:
    """Estimated cycles of each grid. The numbers of `product` may be arrays, with a value for each grid. The types are
    those of `problem`."""
    if len(grids) > _AT_ONCE:
        parts = [slice(first, first + _AT_ONCE) for first in range(0, len(grids), _AT_ONCE)]
        return np.concatenate([estimated(grids.at(part), taken(product, part), problem, target) for part in parts])
    if not is_estimated(problem):
        return Waves(grids, product, problem, target).as_said()
    found = wgmma_cycles(grids, product, FITTED, target.sm_count, ctas_in_large_clusters(target))
    low = few_rows.are_low(grids)
    return np.where(low, few_rows.cycles(grids, product, target), found) if low.any() else found


def waits(schedule: Schedule, product: Product, problem: Problem, target: Target) -> np.ndarray:
    """For each product, whether the grid should start only after the grid before has ended. The schedule has the fields
    that `cost` needs. The numbers of `product` may be arrays, with a value for each product."""
    count = np.broadcast(product.m, product.n).size
    grids = Grids.of([grid_of(fields_of(schedule), target)] * count)
    may = may_wait(grids, product, target.sm_count)
    if not is_estimated(problem) or not schedule.agents.has_producer or not may.any():
        return np.zeros(count, dtype=bool)
    return estimate_of(grids, product, FITTED, target.sm_count, ctas_in_large_clusters(target)).waits


def halves_are_legal(grids: Grids, product: Product, problem: Problem, target: Target) -> np.ndarray:
    """Whether the last wave of each grid may run in halves."""
    if not is_estimated(problem):
        return Waves(grids, product, problem, target).may_be_halved()
    return may_be_halved(grids, product, target.sm_count, ctas_in_large_clusters(target))


def cheapest_first(grids: Grids, found: np.ndarray, problem: Problem) -> list[int]:
    """The indices of grids by these cycles. If they are equal and `wgmma.py` does not estimate them, fewer reads of
    the larger operand come first, then larger tiles."""
    if is_estimated(problem):
        return [int(each) for each in np.argsort(found, kind="stable")]
    ranks = (-grids.rows * grids.columns, reads_of_larger(grids, product_of(problem)), found)
    return [int(each) for each in np.lexsort(ranks)]


def tails(tile: Tile, problem: Problem, target: Target, box: int | None) -> list[Tail]:
    """How the last wave of a grid may run: in whole tiles; in halves, if they are legal and the last of several waves
    is at most half full; or in parts of K, if scales act in the sum.

    A grid without a full wave uses a lower tile in place of halves, with smaller slots in the ring. Each part of K
    stores a share of the columns if that is whole boxes of `box` columns, else part 0 stores all. Without scales, whole
    tiles of 128×256 and half tiles of 256×192 have so far been as fast or faster.
    """
    at_once, (rows, columns, depth) = clusters_at_once(prod(tile.cluster), target), tile.shape
    full, over = divmod(clusters_of(tile, problem), at_once)
    found: list[Tail] = [TailKind.whole]
    if not full or not over or tile.agents.consumer.turns > 1:
        return found
    if (
        problem.tiles(tile.shape) is not None
        and 2 * over <= at_once
        and not rows % (2 * WGMMA_ROWS * tile.agents.consumer.warpgroups)
    ):
        found.append(TailKind.halves)
    parts = min(at_once // over, ceil(sizes_of(problem)[2] / depth))
    if parts == 1 or not problem.is_scaled or not problem.has_static_extents:
        return found
    shared = [n for n in range(parts, 1, -1) if box is not None and columns % (n * box) == 0]
    found += [KDivision(KDivisionKind.scatter_tail, n) for n in shared[:1]]
    return [*found, KDivision(KDivisionKind.tail, parts)]


def widest_box(problem: Problem) -> int:
    """Columns of a box of D, by default."""
    return _BOX_BITS // element_type(problem.d).bits


def _exchange(schedule: Schedule, parts: int, problem: Problem, found: Calibration, warps: int) -> float:
    """The additional cycles of a tile whose K is divided: part 0 adds the sums of all others."""
    if parts == 1:
        return 0
    moved = (parts - 1) * prod(schedule.tile_mnk[:2]) * element_type(problem.acc).bits // 8
    return found.exchange + moved / (found.exchanged_per_cycle * (warps if found.per_warp else 1))


def runs_of_warps(schedule: Schedule, problem: Problem, target: Target) -> list[Run]:
    """The full waves of a grid without a producer, if there are any, and the last wave, if it is not full."""
    return _warps(schedule, problem, target).runs(clusters_of(Tile(schedule.tile_mnk, SINGLE), problem))


def _warps(schedule: Schedule, problem: Problem, target: Target) -> Warps:
    division = schedule.k_division
    parts = max(1, division.parts) if division is not None else 1
    evenly = division.tiles if division is not None and division.cut is Cut.shares else None
    atom = MMA_ATOMS.get(mma_atom_name(schedule, problem))  # an unknown one is refused by its rule
    hiding_warps = atom.hiding_warps if atom is not None else None
    warps, found = ceil(threads_of(schedule) / target.warp_size), of_warps(schedule, hiding_warps)
    stretch = max(1.0, target.sub_cores / warps) if hiding_warps is None else 1.0
    work = Work(
        steps=ceil(ceil(sizes_of(problem)[2] / schedule.tile_mnk[2]) / parts),
        products=prod(schedule.tile_mnk) / (atom.rate if atom is not None else _USUAL_RATE) * stretch
        + _issued_beside_fmas(schedule, problem, target) * (1.0 if evenly is None else _BESIDE_FMAS_IN_SHARES),
        loads=max(memory_cycles(schedule, problem)),
        beside=found.tile + _exchange(schedule, parts if evenly is None else 2, problem, found, warps),
        waits=(hiding_warps or 0) / warps,
    )
    each = ctas_per_sm(schedule, problem, target)
    if hiding_warps is not None:
        each = max(each, schedule.grid.ctas_per_sm or 1)
    return Warps(work, found, parts, each, target.sm_count, evenly)


def _issued_beside_fmas(schedule: Schedule, problem: Problem, target: Target) -> float:
    """The cycles of a K step in which the warps of a CTA issue other instructions than FMAs: loads of fragments,
    copies, the barrier and the loop. 0 for other atoms than FMA: each of those takes many cycles."""
    if schedule.multiply.atom != FMA:
        return 0.0
    assert schedule.multiply.atoms is not None
    (rows, columns, depth), (threads_m, threads_n, _) = schedule.tile_mnk, schedule.multiply.atoms
    threads, element = threads_of(schedule), element_type(problem.a).bytes
    loads = depth * (rows / threads_m + columns / threads_n) * element / _VECTOR_BYTES
    copies = (rows + columns) * depth * element / (_VECTOR_BYTES * threads)
    issued = loads + _ISSUED_PER_COPY * copies + _ISSUED_PER_STEP
    return threads / (target.warp_size * target.sub_cores) * issued


def memory_cycles(schedule: Schedule, problem: Problem) -> tuple[float, float]:
    """The cycles of shared memory and of L2 for a K step. Each warp reads its rows of A and of B
    from shared memory. With FMA atoms each thread does, and pairs of lanes share a load."""
    tile_m, tile_n, tile_k = schedule.tile_mnk
    assert schedule.multiply.atoms is not None
    atoms_m, atoms_n, atoms_k = schedule.multiply.atoms
    bits_a, bits_b = element_type(problem.a).bits, element_type(problem.b).bits
    threads = threads_of(schedule)
    readers = threads // 32 if schedule.multiply.atom != FMA else threads // 2
    fragment_bytes = readers * (tile_m // atoms_m * bits_a + tile_n // atoms_n * bits_b) * tile_k // atoms_k // 8
    mainloop = schedule.mainloop
    moves_a, moves_b = (operand.load is not RepeatKind.once for operand in (mainloop.a, mainloop.b))
    fill_bytes = (moves_a * tile_m * bits_a + moves_b * tile_n * bits_b) * tile_k // 8
    return fragment_bytes / _SHARED_MEMORY_BYTES, fill_bytes / _L2_BYTES
