"""Estimated cost of a grid of CTA tiles, in cycles of one SM.

`wgmma.py` estimates the grids of wgmma tiles that `is_estimated` covers. The formula in this file is for all others:
agents without a producer, and products whose sums are promoted or whose operands are converted. A grid runs in waves
of the CTAs that fit on the GPU at once. A K step of a CTA takes as long as its products or its loads, whichever take
longer. The constants for each kind of agents are in `calibration.py`. Extents known only at run time count as 4096.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, gcd, hypot, prod
from typing import Any, TypeAlias

import numpy as np

from lowtide.dialects.tile import KDivisionKind, RepeatKind, TailKind
from lowtide.dialects.tile.agents import SINGLE
from lowtide.dialects.tile.division import KDivision
from lowtide.dialects.tile.fields import Extents3
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import SCALE_BLOCK, element_type
from lowtide.passes.schedules.cost.calibration import EXCHANGE_OF_TAIL, Calibration, of_consumers, of_warps
from lowtide.passes.schedules.cost.described import fields_of, grid_of, is_estimated, product_of
from lowtide.passes.schedules.cost.fitted import FITTED
from lowtide.passes.schedules.cost.grids import Grids, Product
from lowtide.passes.schedules.cost.traffic import (
    SECTOR_BYTES,
    Tile,
    clusters_at_once,
    clusters_of,
    larger,
    load_cycles,
    per_product,
    reads_of_larger,
    request_cycles,
    sizes_of,
    tile_of,
)
from lowtide.passes.schedules.cost.wgmma import cycles, may_be_halved
from lowtide.passes.schedules.facts.resources import ctas_per_sm, is_wide_for_scales, threads_of
from lowtide.passes.support.agents.atoms import mma_atom_name
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import MMA_ATOMS, Target
from lowtide.targets.atoms import FMA, WGMMA_ROWS

_CLUSTER_OVERHEAD = 200  # cycles: the barriers at both ends
_BOX_BITS = 1024  # in a row of a box that TMA stores: the widest swizzle

_WGMMA_BITS_PER_CYCLE = 2048 * 16  # multiply-adds of wgmma per SM, times the bits of an operand
_USUAL_RATE = 1024  # multiply-adds per cycle and SM, of mma.sync of 16-bit operands
_SHARED_MEMORY_BYTES, _L2_BYTES = 128, 32  # per cycle and SM
_THREE_CONSUMERS = 1.03  # factor for tiles of three consumers: they are chosen only if they gain more than 3 %
# Slowdown of products whose sums are promoted. If one consumer multiplies at a time, tensor cores are idle while it
# adds. If a consumer has several blocks of rows, it waits for each. Measured on an H200 (e4m3, 8192³): 892 TFLOP/s by
# 128×128 in turns, 1191 by 256×128, and 1273 by 128×192.
_PROMOTED_ALONE, _PROMOTED_BLOCKS = 1.5, 1.12
# Products of pieces have longer steps. Then several blocks of rows for a consumer are better than one: 1314 µs by
# 256×128 and 1542 by 128×176 (tf32x3, 4096³).
_PROMOTED_PIECES = 1.2
# With scales and tiles that are not wide, sums and scales take more of a K step: 1110 and 1034 TFLOP/s by 128×128, 1229
# and 1077 by 128×192 (8192³, 4096×7168×2048).
_SCALED_NARROW = 1.08
_SCALED_PARTS = 0.015  # for each scale of columns that a thread loads in a K step

#: How the last wave of a grid runs
Tail: TypeAlias = TailKind | KDivision


@dataclass(frozen=True)
class _Work:
    """The work of a CTA for one tile, in cycles of an SM that it has alone. `products` and `loads`: of each K step.

    `waits`: the share of the products' cycles that the CTA's own warps do not hide.
    """

    steps: int
    products: float
    loads: float
    beside: float
    waits: float = 0

    def cycles(self, sharing: float, found: Calibration) -> float:
        """The cycles of the tile if so many CTAs share the SM."""
        products = self.products * hypot(1.0, self.waits / sharing)
        return self.steps * (larger(products, self.loads, found.sharpness) * sharing + found.step) + self.beside


def cost(schedule: Schedule, problem: Problem, target: Target, tail: Tail | None = None) -> float:
    """Estimated cycles of the whole grid of a schedule. With a producer, the schedule must decide tile, K of a step,
    agents and cluster; without one, all fields.

    `tail`: how the last wave of whole tiles runs. None: in the cheapest way, or with K divided as the schedule says.
    """
    if not schedule.agents.has_producer:
        return _without_producer(schedule, problem, target)
    if is_estimated(problem):
        fields = fields_of(schedule)
        if tail is not None and not isinstance(tail, KDivision):
            fields["grid.tail"] = tail
        return float(estimates([fields], problem, target, tail)[0])
    tile, division = tile_of(schedule), schedule.k_division
    ways = tails(tile, problem, target, widest_box(problem))
    if isinstance(tail, KDivision) or tail in ways:
        ways = [tail]
    elif tail is not None:
        ways = [TailKind.whole]
    elif division is not None and not division.is_of_tail:
        ways = [division]
    return _with_producer(tile, problem, target, ways)


def estimates(
    candidates: Sequence[Mapping[str, Any]], problem: Problem, target: Target, tail: Tail | None = None
) -> np.ndarray:
    """As `estimates_of`. `candidates`: fields by path."""
    return estimates_of(Grids.of([grid_of(fields, target) for fields in candidates]), problem, target, tail)


def estimates_of(grids: Grids, problem: Problem, target: Target, tail: Tail | None = None) -> np.ndarray:
    """Estimated cycles of schedules with a producer, for a problem that `is_estimated`.

    `tail`: how the last wave runs. None: in halves if a candidate says so; otherwise whole or in halves, whichever
    takes less, if halves are legal.
    """
    product = product_of(problem)
    found = estimated(grids, product, target)
    if tail is None and problem.has_static_extents:
        may = halves_are_legal(grids, product, target) & (grids.halves == 0)
        if may.any():
            halved = replace(grids.at(may), halves=np.ones(may.sum()))
            found[may] = np.minimum(found[may], estimated(halved, product, target))
    return found


def estimated(grids: Grids, product: Product, target: Target) -> np.ndarray:
    """Estimated cycles of each grid. The numbers of `product` may be arrays, with a value for each grid."""
    return cycles(grids, product, FITTED, target.sm_count, _in_large_clusters(target))


def halves_are_legal(grids: Grids, product: Product, target: Target) -> np.ndarray:
    """Whether the last wave of each grid may run in halves."""
    return may_be_halved(grids, product, target.sm_count, _in_large_clusters(target))


def _in_large_clusters(target: Target) -> int:
    """The CTAs that run at once in clusters of more than two."""
    return prod(target.clusters_at_once[0]) if target.clusters_at_once else target.sm_count


def rank(schedule: Schedule, problem: Problem, target: Target, tail: Tail | None) -> tuple[float, ...]:
    """The cost, and numbers that decide between equal costs. With a producer, these are how often the larger operand is
    read, then the size of the tile."""
    found = cost(schedule, problem, target, tail)
    if not schedule.agents.has_producer:
        return (found,)
    tile = tile_of(schedule)
    return found, reads_of_larger(tile, problem), -tile.shape[0] * tile.shape[1]


@dataclass(frozen=True)
class _Grid:
    """A grid of `ctas` CTAs or clusters. `last`: for each way to run the last wave, the work of a CTA, and the number
    of CTAs that share a tile. `loads`: the least cycles that the grid takes."""

    ctas: int
    at_once: int
    work: _Work
    last: Sequence[tuple[_Work, int]]
    once: float = 0
    loads: float = 0

    def cycles(self, found: Calibration, sms: int) -> float:
        """Estimated cycles from launch to end."""
        full, over = divmod(self.ctas, self.at_once)
        cycles = full * self.work.cycles(ceil(self.at_once / sms), found)
        if over:
            sharing = max(1.0, min(self.at_once, self.ctas) / sms) if found.is_even else ceil(over / sms)
            cycles += min(
                (1 - found.idle_gain * (1 - parts * over / self.at_once)) * work.cycles(sharing, found)
                for work, parts in self.last
            )
        return max(cycles + found.first + self.once, self.loads) + found.launch


def _with_producer(tile: Tile, problem: Problem, target: Target, ways: Sequence[Tail]) -> float:
    """The cost of tiles that consumers multiply. The last wave runs in the cheapest of these ways."""
    parts = next((way.parts for way in ways if isinstance(way, KDivision) and not way.is_of_tail), 1)
    found = of_consumers(tile.agents.consumer.turns, problem, is_whole=parts == 1)
    clusters, at_once = clusters_of(tile, problem) * parts, clusters_at_once(tile, target)
    saturated = min(1.0, found.saturation * min(1.0, clusters * prod(tile.cluster) / target.sm_count))
    exchange = _exchange(tile.shape, parts, problem, found)
    work = _of_consumers(tile, problem, found, saturated, parts)
    work = replace(work, beside=work.beside + exchange)
    loads = load_cycles(ceil(clusters / at_once) * work.steps, tile, problem) + (found.first or found.tile) + exchange
    last = []
    for way in ways:
        if isinstance(way, KDivision) and way.is_of_tail:
            part = _of_consumers(tile, problem, found, saturated, way.parts)
            last.append((replace(part, beside=part.beside + EXCHANGE_OF_TAIL[way.adder]), way.parts))
        elif way is TailKind.halves:
            rows, columns, depth = tile.shape  # slots have the size of a whole tile, so a half starts and ends as late
            half = _of_consumers(replace(tile, shape=(rows // 2, columns, depth)), problem, found, 1.0)
            last.append((replace(half, beside=half.beside + found.tall), 2))
        else:
            last.append((work, 1))
    once = _CLUSTER_OVERHEAD if prod(tile.cluster) > 1 else 0
    return _Grid(clusters, at_once, work, last, once, loads).cycles(found, target.sm_count)


def _of_consumers(tile: Tile, problem: Problem, found: Calibration, saturated: float, parts: int = 1) -> _Work:
    """The work on a tile, or on one of `parts` parts of its K. Requests to L2 are the loads of a step."""
    (rows, columns, depth), agents = tile.shape, tile.agents
    slowdown = 1 + found.by_l2 * per_product(tile, problem) + found.by_shared_memory * (1 / WGMMA_ROWS + 1 / columns)
    products = prod(tile.shape) * element_type(problem.a).bits / _WGMMA_BITS_PER_CYCLE * _promotion(tile, problem)
    several = _THREE_CONSUMERS if agents.consumer.warpgroups > 2 else 1
    beside = found.tile + (found.narrow_part if columns % 64 else 0)
    beside += found.tall if rows > WGMMA_ROWS * agents.consumer.warpgroups else 0
    beside += found.shared_sectors if columns * element_type(problem.d).bits // 8 % SECTOR_BYTES else 0
    return _Work(
        steps=ceil(ceil(sizes_of(problem)[2] / depth) / parts),
        products=products * slowdown * several,
        loads=saturated * request_cycles(tile, problem) * several,
        beside=beside,
    )


def _promotion(tile: Tile, problem: Problem) -> float:
    """How much longer wgmmas take because their sums are promoted."""
    if not problem.promotes:
        return 1.0
    (rows, columns, _), sharing = tile.shape, tile.agents.consumer.warpgroups
    # A tile may begin anywhere in a block of columns. Each part of it that is always within one block has one scale.
    parts = columns // gcd(columns, SCALE_BLOCK) if problem.is_scaled else 0
    scaled = 1 + _SCALED_PARTS * parts
    if problem.is_scaled and not is_wide_for_scales(tile.shape, tile.agents):
        scaled *= _SCALED_NARROW
    if sharing == 1:
        return _PROMOTED_ALONE * scaled
    has_blocks = rows > WGMMA_ROWS * sharing
    if problem.decomposition is not None:
        return 1.0 if has_blocks else _PROMOTED_PIECES
    return (_PROMOTED_BLOCKS if has_blocks else 1.0) * scaled


def tails(tile: Tile, problem: Problem, target: Target, box: int | None) -> list[Tail]:
    """How the last wave of a grid may run: in whole tiles; in halves, if they are legal and the last of several waves
    is at most half full; or in parts of K, if scales act in the sum.

    A grid without a full wave uses a lower tile in place of halves, with smaller slots in the ring. Each part of K
    stores a share of the columns if that is whole boxes of `box` columns, else part 0 stores all. Without scales, whole
    tiles of 128×256 and half tiles of 256×192 have so far been as fast or faster.
    """
    at_once, (rows, columns, depth) = clusters_at_once(tile, target), tile.shape
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


def _exchange(shape: Extents3, parts: int, problem: Problem, found: Calibration, warps: int = 1) -> float:
    """The additional cycles of a tile whose K is divided."""
    if parts == 1:
        return 0
    sums = shape[0] * shape[1] * element_type(problem.acc).bits // 8
    moved = 2 * sums if found.by_shares else (parts - 1) * sums
    return found.exchange + moved / (found.exchanged_per_cycle * (warps if found.per_warp else 1))


def _without_producer(schedule: Schedule, problem: Problem, target: Target) -> float:
    """The cost of tiles that warps copy and multiply."""
    parts = max(1, schedule.k_division.parts) if schedule.k_division is not None else 1
    atom = MMA_ATOMS.get(mma_atom_name(schedule, problem))  # an unknown one is refused by its rule
    hiding_warps = atom.hiding_warps if atom is not None else None
    warps, found = ceil(threads_of(schedule) / target.warp_size), of_warps(schedule, hiding_warps)
    stretch = max(1.0, target.sub_cores / warps) if hiding_warps is None else 1.0
    work = _Work(
        steps=ceil(ceil(sizes_of(problem)[2] / schedule.tile_mnk[2]) / parts),
        products=prod(schedule.tile_mnk) / (atom.rate if atom is not None else _USUAL_RATE) * stretch,
        loads=_memory_cycles(schedule, problem),
        beside=found.tile + _exchange(schedule.tile_mnk, parts, problem, found, warps),
        waits=(hiding_warps or 0) / warps,
    )
    each = ctas_per_sm(schedule, problem, target)
    if hiding_warps is not None:
        each = max(each, schedule.grid.ctas_per_sm or 1)
    ctas = clusters_of(Tile(schedule.tile_mnk, SINGLE), problem) * parts
    return _Grid(ctas, target.sm_count * each, work, [(work, 1)]).cycles(found, target.sm_count)


def _memory_cycles(schedule: Schedule, problem: Problem) -> float:
    """The cycles of shared memory or of L2 for a K step, whichever are more. Each warp reads its rows of A and of B
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
    return max(fragment_bytes / _SHARED_MEMORY_BYTES, fill_bytes / _L2_BYTES)
