"""How the grid of a schedule is chosen for a tile: the order of work tiles, the scheduler, the last wave."""

from collections.abc import Mapping
from math import ceil
from typing import Any

from lowtide.dialects.tile import (
    KOrderKind,
    LaunchKind,
    RasterKind,
    RepeatKind,
    SchedulerKind,
    StorePath,
    TailKind,
    WavesKind,
)
from lowtide.dialects.tile.division import KDivision
from lowtide.dialects.tile.fields import Order, grouped
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.schedules.cost.cost import Tail, cost, tails, waits, widest_box
from lowtide.passes.schedules.cost.described import product_of, square_bands
from lowtide.passes.schedules.cost.traffic import tile_of, wave_bytes
from lowtide.passes.schedules.facts.resources import shared_memory_bytes, threads_of
from lowtide.passes.schedules.rules.grid import has_griddepcontrol
from lowtide.passes.support.agents.atoms import STAGED_COPIES
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target
from lowtide.targets.atoms import FMA

# CTAs are kept in step if the grid has at least this many waves, and each wave reads more than L2 holds. Gains on an
# H200: 1 to 3 % at 16384³, 2 % at 8192×28672×8192; none with ten waves (8192³), or if L2 holds a wave's operands
# (6144³, 4096×28672×4096).
_DRIFT_WAVES = 16

# K is turned around if a wave reads more than this part of L2: each half of L2 keeps its own copy of the data that the
# SMs on its side read. Gains on an H200, in bursts: 0.7 % at 4096³, 0.6 % at 4096×28672×4096, 0.1 % at 8192³. 16384³
# loses 2 %, since its CTAs are kept in step.
_KEPT_BY_L2 = 0.5

# FMA atoms: registers per thread that are enough for this many accumulators, if the epilogue only converts them.
_REGISTERS_OF_FMA, _ACCUMULATORS_OF_FMA = 128, 64


def follow(schedule: Schedule, problem: Problem, target: Target) -> Mapping[str, Any]:
    """Order and scheduler for a tile, by path.

    With roles also the launch and, where they gain, a tail in halves or parts, and waves in step or K turned
    around.
    """
    if not schedule.agents.has_producer:
        once = schedule.mainloop.prologue is RepeatKind.once
        return {
            "grid.order": grouped(8),
            "grid.scheduler": SchedulerKind.persistent if once else SchedulerKind.one_shot,
        }
    found: dict[str, Any] = {
        "grid.order": _square_bands(schedule, problem, target),
        "grid.scheduler": SchedulerKind.persistent,
    }
    if has_griddepcontrol(target):
        should_wait = waits(schedule, product_of(problem), problem, target).item()
        found["grid.launch"] = LaunchKind.serialized if should_wait else LaunchKind.programmatic
    tail = _cheapest_tail(schedule, problem, target) if may_split_tail(schedule, problem) else TailKind.whole
    if isinstance(tail, KDivision):
        found["grid.k_division"] = tail
    elif tail is TailKind.halves:
        found["grid.tail"] = tail
    tiles = problem.tiles(schedule.tile_mnk)
    if tiles is None or problem.k is None or not _is_plainly_persistent(schedule):
        return found
    read = wave_bytes(schedule.tile_mnk, problem, target)
    drifts = tiles // target.sm_count >= _DRIFT_WAVES and read > target.l2_bytes
    if drifts and not isinstance(tail, KDivision) and not schedule.copied_by_threads:  # one thread waits for a wave
        found["grid.waves"] = WavesKind.synchronized
    elif (
        tiles > target.sm_count
        and read > target.l2_bytes * _KEPT_BY_L2
        and not problem.is_scaled
        and not problem.weights
        and schedule.grid.waves is not WavesKind.synchronized
    ):
        # Measured (4096×28672×4096, H200): with K turned around, 0.68 GB are read from memory in place of 0.79 GB.
        found["mainloop.k_order"] = KOrderKind.serpentine
    return found


def may_split_tail(given: Schedule, problem: Problem) -> bool:
    """Whether the given fields leave a tail in halves open. Tiles of packed weights are whole."""
    return _is_plainly_persistent(given) and given.grid.tail is None and problem.weights is None


def _is_plainly_persistent(given: Schedule) -> bool:
    """Whether CTAs take whole tiles in turn, or the given fields leave that open."""
    return given.grid.scheduler in (None, SchedulerKind.persistent) and given.grid.k_division is None


def _cheapest_tail(schedule: Schedule, problem: Problem, target: Target) -> Tail:
    """Of equally cheap ones the first: whole tiles."""
    by_tma, given = schedule.epilogue.path is StorePath.tma, schedule.epilogue.tile
    box = (given[1] if given else 8 if problem.d_is_column_major else widest_box(problem)) if by_tma else None
    ways = tails(tile_of(schedule), problem, target, box)
    return min(ways, key=lambda tail: cost(schedule, problem, target, tail)) if len(ways) > 1 else ways[0]


def ctas(schedule: Schedule, problem: Problem, target: Target) -> Mapping[str, Any]:
    """The CTAs per SM, by path, if they are more than one. All other fields are decided, except swizzles."""
    count = _ctas_of_fma(schedule, problem, target) if schedule.multiply.atom == FMA else 1
    return {"grid.ctas_per_sm": count} if count > 1 else {}


def _ctas_of_fma(schedule: Schedule, problem: Problem, target: Target) -> int:
    """CTAs per SM with `_REGISTERS_OF_FMA` registers for each thread; fewer if a thread needs more, or if shared
    memory holds fewer.

    Three things need a few more registers: copies that may end within a tile, the addition of partial sums, and copies
    of both A and B through registers by 128 threads or fewer. Each sub-core then has one warp less.
    """
    m, n, _ = schedule.tile_mnk
    threads = threads_of(schedule)
    if m * n > _ACCUMULATORS_OF_FMA * threads or not problem.is_plain:
        return 1
    if threads % target.warp_size:  # which a rule refuses
        return 1
    kernel = problem.compiled
    extents = zip((kernel.m, kernel.n, kernel.k), schedule.tile_mnk, strict=True)
    may_be_ragged = any(extent is None or extent % side for extent, side in extents)
    warp_each = target.sub_cores * target.warp_size
    copies_much = threads <= warp_each and {schedule.mainloop.a.copy, schedule.mainloop.b.copy} <= set(STAGED_COPIES)
    needs_more = may_be_ragged or schedule.k_division is not None or copies_much
    fewer = max(1, warp_each // threads) if needs_more else 0
    most = target.registers_per_sm // (_REGISTERS_OF_FMA * threads) - fewer
    return max(1, min(most, target.ctas_per_sm(threads, shared_memory_bytes(schedule, problem))))


def _square_bands(schedule: Schedule, problem: Problem, target: Target) -> Order:
    """The order in bands with which the tiles in flight cover about a square of D, and so share the most in L2.

    If one band is known to hold all rows of tiles, the order is by columns; if there is one column of tiles, it is by
    rows. Neither divides by run-time values (H200: 1024³ is 5 % faster, 8×8192×8192 in tiles of 16 rows 1.5 %).
    """
    m, n, _ = schedule.tile_mnk
    if problem.n is not None and problem.n <= n * schedule.cluster[1]:
        return Order(RasterKind.row)
    found = square_bands((m, n), schedule.cluster[0], target)
    if problem.m is not None and ceil(ceil(problem.m / m) / schedule.cluster[0]) <= found.rows:
        return Order(RasterKind.column)
    return found
