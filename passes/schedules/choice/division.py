"""How K is divided among CTAs where whole tiles are too few for the SMs: what to choose among, and its cost.

A grid of few tiles is bound by what one SM receives from L2 per cycle. Large tiles receive less for each product, and
division of K gives every SM a part of one. Each CTA then writes its partial sums to L2, and reads as many: its share of
those of all parts.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from math import ceil
from typing import Any

from lowtide.dialects.tile import KDivisionKind, LaunchKind, RasterKind, SchedulerKind, StorePath
from lowtide.dialects.tile.fields import Extents3, KDivision, Order, Roles, cooperative
from lowtide.dialects.tile.schedule import Epilogue, Multiply, Schedule
from lowtide.elements import element_type
from lowtide.passes.schedules.choice.asked_for import asks_for_tma_stores
from lowtide.passes.schedules.cost.grid import RoleTile, load_cycles, multiply_cycles, role_cost
from lowtide.passes.support.problem import Problem
from lowtide.targets import Target

# Tiles with roles: rows, and the consumers that share them; of so many columns.
_ROWS: tuple[tuple[int, Roles], ...] = ((64, cooperative(1)), (128, cooperative(2)))
_COLUMNS = range(64, 257, 32)
# As narrow as a swapped product of few rows.
_NARROW_ROWS, _MOST_NARROW = 64, 32
_DEPTH_BITS = 1024  # K of a step: rows of 128 bytes
_SHARE_STEP = 8  # columns: of one wgmma's accumulators, a thread holds pairs in each eight

# Measured on an H200 (bf16, tn; µs at 1.755 GHz). Whole tiles: 23.8 (256×256×8192), 45.8 (512×512×16384), 26.2
# (1024×512×8192), 12.7 (512×512×4096) and 12.9 (64×4096×4096), all 64×64. Divided: 18.5 (512×512×16384, 128×128 in 8
# parts), 20.4 (64×128 in 4), 21.8 (128×256 in 16), 17.8 (1024×512×8192, 128×128 in 4), 6.5 (256×256×8192, 64×64 in 8),
# 6.8 (64×128 in 16); 7.7 (512×512×4096, 64×128 in 4), 8.6 (64×64 in 2), 9.1 (128×128 in 8); 12.3 (64×4096×4096, 64×64
# in 2). The model is within 10 % of most of these, and of those in benchmarks/calibration_shapes.txt.
_EXCHANGE_OVERHEAD = 5000  # cycles: launch, fill, and the wait for the other parts
_EXCHANGED_PER_CYCLE = 16.5  # bytes of partial sums, written and read
_WORTH_DIVIDING = 0.96  # of the cycles of whole tiles: what the model may be wrong by
# Of a narrow tile nearly all bytes come from memory, and that limits an SM. Measured on an H200 (bf16 tn; µs of Dᵀ in
# whole tiles, and split in two parts; scatter is up to 5 % slower): 12.7 and 11.1 (16×4096×4096), 13.1 and 11.5
# (32×4096×4096), 38.8 and 32.1 (16×4096×14336). In more parts: 7.0 (16×2048×4096, 4), 5.1 (16×1024×4096, 8), 5.4 and
# 5.3 (16×512×8192, 8 and 16), 11.7 (32×2048×8192, 4). The model is within 10 % of most.
_NARROW_EXCHANGE_OVERHEAD = 4500  # cycles: launch, fill, and the wait for the other parts
_ADDED_PER_CYCLE = 33  # bytes of partial sums that the part which adds them reads
_WORTH_DIVIDING_NARROW = 0.9
_MOST_NARROW_PARTS = 16  # part 0 adds the sums of all others


@dataclass(frozen=True)
class Divided:
    """A tile (M, N, K of a step), its roles, how many CTAs share its K, and the estimated cycles of the grid."""

    tile: Extents3
    roles: Roles
    parts: int
    cycles: float
    kind: KDivisionKind = KDivisionKind.scatter
    order: RasterKind = RasterKind.row

    def values(self) -> dict[str, Any]:
        """By path of the schedule's fields."""
        return {
            "grid.tile": self.tile[:2],
            "grid.k_division": KDivision(self.kind, self.parts),
            "grid.order": Order(self.order),
            "mainloop.k": self.tile[2],
            "mainloop.roles": self.roles,
        }


def divided(given: Schedule, problem: Problem, target: Target) -> list[Divided]:
    """Divisions of K to choose among, the cheapest first.

    None where the given fields are of whole tiles, an extent is not known, or weights are packed.
    """
    if problem.weights or not problem.has_static_extents or not _is_open(given):
        return []
    return sorted(_candidates(problem, target), key=lambda each: each.cycles)


def pays_off(division: Divided, whole: Schedule, problem: Problem, target: Target) -> bool:
    """Whether a division is chosen in place of the best whole tiles."""
    worth = _WORTH_DIVIDING_NARROW if _is_narrow(problem) else _WORTH_DIVIDING
    return division.cycles < worth * estimated_cycles(whole, problem, target)


def _is_open(given: Schedule) -> bool:
    """Whether the given fields leave the tile, what follows from it, and the work of the CTAs open."""
    grid, mainloop = given.grid, given.mainloop
    decided = (grid.tile, grid.cluster, grid.order, grid.tail, grid.k_division, grid.waves, mainloop.k, mainloop.roles)
    return (
        not any(field is not None for field in decided)
        and grid.scheduler in (None, SchedulerKind.persistent)
        and grid.launch in (None, LaunchKind.programmatic)
        and given.multiply == Multiply()
        and given.epilogue in (Epilogue(), Epilogue(path=StorePath.direct))
        and not asks_for_tma_stores(given)
    )


def _candidates(problem: Problem, target: Target) -> Iterator[Divided]:
    """Grids of at most one wave, in as many parts as fit.

    Neighbouring CTAs read the same rows of A or columns of B, whichever is larger: what comes from memory more than
    once is then read at the same time. 128×128 tiles in four parts of 256×2048×8192 took 18.6 µs along columns, 21.1
    along rows.
    """
    assert problem.m is not None and problem.n is not None and problem.k is not None
    if _is_narrow(problem):
        yield from _narrow_candidates(problem, target)
        return
    depth = _depth(problem)
    order = RasterKind.row if problem.m >= problem.n else RasterKind.column
    for (rows, roles), columns in product(_ROWS, _COLUMNS):
        tiles, steps = problem.tiles((rows, columns)), ceil(problem.k / depth)
        assert tiles is not None
        most = min(target.sm_count // tiles, steps)
        parts = max((n for n in range(2, most + 1) if columns % (_SHARE_STEP * n) == 0), default=0)
        if parts:
            tile = RoleTile((rows, columns, depth), roles)
            cycles = _divided_cycles(tile, parts, problem)
            yield Divided(tile.shape, roles, parts, cycles, KDivisionKind.scatter, order)


def _depth(problem: Problem) -> int:
    """K of a step."""
    return _DEPTH_BITS // element_type(problem.a).bits


def _is_narrow(problem: Problem) -> bool:
    """Whether this is Dᵀ, of few columns, of a product whose D lies by rows."""
    return problem.d_is_column_major and problem.n is not None and problem.n <= _MOST_NARROW


def _narrow_candidates(problem: Problem, target: Target) -> Iterator[Divided]:
    """Tiles as wide as the product, in as many parts as fit; one part adds the sums of the others."""
    assert problem.n is not None and problem.k is not None
    columns = 16 * ceil(problem.n / 16)
    tiles = problem.tiles((_NARROW_ROWS, columns))
    assert tiles is not None
    depth = _depth(problem)
    parts = min(target.sm_count // tiles, ceil(problem.k / depth), _MOST_NARROW_PARTS)
    if parts > 1:
        tile = (_NARROW_ROWS, columns, depth)
        cycles = _divided_cycles(RoleTile(tile, cooperative(1)), parts, problem)
        yield Divided(tile, cooperative(1), parts, cycles, KDivisionKind.split)


def estimated_cycles(schedule: Schedule, problem: Problem, target: Target) -> float:
    """Estimated cycles of the grid of a chosen schedule with roles, of whole tiles or of divided ones."""
    assert schedule.mainloop.roles is not None and problem.k is not None
    tile = RoleTile(schedule.tile_mnk, schedule.mainloop.roles, schedule.cluster)
    division = schedule.k_division
    if division is not None and not division.is_of_tail:
        return _divided_cycles(tile, division.parts, problem)
    return role_cost(tile, problem, target)


def _divided_cycles(tile: RoleTile, parts: int, problem: Problem) -> float:
    """Estimated cycles of a grid of at most one wave in which CTAs share the K of each tile."""
    assert problem.k is not None
    steps = ceil(ceil(problem.k / tile.shape[2]) / parts)
    sums = tile.shape[0] * tile.shape[1] * element_type(problem.acc).bits // 8
    exchange = _EXCHANGE_OVERHEAD + 2 * sums / _EXCHANGED_PER_CYCLE
    if _is_narrow(problem):
        exchange = _NARROW_EXCHANGE_OVERHEAD + (parts - 1) * sums / _ADDED_PER_CYCLE
    return max(steps * multiply_cycles(tile, problem), load_cycles(steps, tile, problem)) + exchange


def reason(own: Divided, whole: Schedule, problem: Problem, target: Target) -> str:
    """Why K is divided so."""
    shape = "×".join(map(str, whole.tile_mnk))
    return (
        f"{own.parts} CTAs share the K of each tile ({own.cycles:,.0f} estimated cycles): whole tiles are too few for "
        f"the SMs, or so small that L2 limits them ({estimated_cycles(whole, problem, target):,.0f}, {shape})"
    )
