"""Where the estimated time of one schedule goes: the terms of the estimate, for the tiles of a CTA.

The CTA has a tile in every wave. Equal tiles are described once, because a large problem may have billions. All
numbers are cycles of an SM at its highest clock.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, repeat, starmap

import numpy as np

from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.schedules.cost import few_rows
from lowtide.passes.schedules.cost.cost import Run, memory_cycles, runs_of_warps
from lowtide.passes.schedules.cost.described import fields_of, grid_of, is_estimated, is_of_few_rows, product_of
from lowtide.passes.schedules.cost.fitted import FITTED
from lowtide.passes.schedules.cost.grids import Grids
from lowtide.passes.schedules.cost.traffic import ctas_in_large_clusters
from lowtide.passes.schedules.cost.wgmma import Wave, either, estimate_of
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target


@dataclass(frozen=True)
class TileSpans:
    """One tile of the CTA. The fields from `products` to `beside` are cycles of one K step."""

    steps: int
    products: float
    """Of the tensor cores, or of their reads of shared memory if these take longer."""
    tensor: float
    """Of the tensor cores at their full rate."""
    shared: float
    """Of shared memory: the reads of operands by the products."""
    loads: float
    """Of L2."""
    memory: float
    latency: float
    """From the end of a load until its data may be read."""
    beside: float
    """Barriers and instructions, in addition to products or loads."""
    epilogue: float
    total: float
    """Of the tile in its wave. If consumers take turns, the products of one hide the epilogue of another."""
    busy: float
    """The share of all CTAs that have a tile in this wave."""
    waves: int = 1
    """The number of waves with such a tile, one after another."""


@dataclass(frozen=True)
class GridSpans:
    """The whole grid. `total` is the estimate by which schedules are chosen."""

    tiles: tuple[TileSpans, ...]
    launch: float
    total: float

    @property
    def slowdown(self) -> float:
        """The factor by which everything takes longer than at the highest clock, because of the power limit."""
        return self.total / (self.launch + sum(tile.waves * tile.total for tile in self.tiles))

    def one_by_one(self) -> Iterator[TileSpans]:
        """The tile of each wave."""
        return chain.from_iterable(repeat(tile, tile.waves) for tile in self.tiles)


def spans_of(schedule: Schedule, problem: Problem, target: Target) -> GridSpans | None:
    """The terms of a schedule that decides all fields. None for products with a producer whose sums are promoted or
    whose operands are converted: their estimate has no such terms."""
    if is_of_few_rows(schedule, problem, target):
        return _of_few_rows(schedule, problem, target)
    if not schedule.agents.has_producer:
        return _of_warps(schedule, problem, target)
    return _of_consumers(schedule, problem, target) if is_estimated(problem) else None


def _of_warps(schedule: Schedule, problem: Problem, target: Target) -> GridSpans:
    runs, (shared, loads) = runs_of_warps(schedule, problem, target), memory_cycles(schedule, problem)
    tiles = tuple(replace(_of_run(run, shared, loads), waves=run.waves) for run in runs)
    first = runs[0].found.first
    return GridSpans(tiles, launch=first, total=sum(tile.waves * tile.total for tile in tiles) + first)


def _of_run(run: Run, shared: float, loads: float) -> TileSpans:
    """The CTA shares its SM, so that everything takes longer by as many."""
    work = run.work
    return TileSpans(
        steps=work.steps,
        products=work.stretched(run.sharing) * run.sharing,
        tensor=work.products * run.sharing,
        shared=shared * run.sharing,
        loads=loads * run.sharing,
        memory=0.0,
        latency=0.0,
        beside=run.found.step,
        epilogue=work.beside,
        total=run.cycles / run.waves,
        busy=run.busy,
    )


def _of_few_rows(schedule: Schedule, problem: Problem, target: Target) -> GridSpans:
    """The loads of the CTAs of a wave take turns at the memory, so a K step of one takes as long as those of all."""
    grids = Grids.of([grid_of(fields_of(schedule), target)])
    found = few_rows.estimate_of(grids, product_of(problem), target)
    runs, (shared, loads) = runs_of_warps(schedule, problem, target), memory_cycles(schedule, problem)
    at_once = few_rows.CTAS_PER_SM * target.sm_count
    waves = [(found.wave, 1.0, int(found.full[0]))] if found.full[0] else []
    waves += [(found.last, float(found.over[0]) / at_once, 1)] if found.over[0] else []
    epilogue = float(np.ravel(found.epilogue)[0])

    def tile(wave: few_rows.Wave, busy: float, count: int) -> TileSpans:
        steps, total = runs[0].work.steps, float(wave.total[0])
        own = replace(_of_run(runs[0], shared, loads), beside=0.0, epilogue=epilogue, busy=busy, waves=count)
        return replace(own, memory=(total - epilogue) / steps, total=total)

    tiles = tuple(starmap(tile, waves))
    return GridSpans(tiles, launch=few_rows.START, total=float(found.total[0]))


def _of_consumers(schedule: Schedule, problem: Problem, target: Target) -> GridSpans:
    grid = grid_of(fields_of(schedule), target)
    found = estimate_of(Grids.of([grid]), product_of(problem), FITTED, target.sm_count, ctas_in_large_clusters(target))
    at_once = ctas_in_large_clusters(target) if grid.cluster_rows * grid.cluster_columns > 2 else target.sm_count
    waves = [(found.wave, 1.0, int(found.full[0]))] if found.full[0] else []
    if found.over[0] > 0:
        parts = 2 if grid.halves else 1
        waves += _repeated(found.last, parts * float(found.over[0]) / at_once)
    return GridSpans(
        tiles=tuple(starmap(_of_wave, waves)),
        launch=float(found.beside[0]),
        total=float(found.total[0]),
    )


def _repeated(wave: Wave, waves: float) -> Iterator[tuple[Wave, float, int]]:
    """The waves of half tiles may be more than one."""
    while waves > 0:
        yield wave, min(1.0, waves), 1
        waves -= 1.0


def _of_wave(wave: Wave, busy: float, count: int) -> TileSpans:
    of_ctas = either(wave.cta.total, wave.memory, FITTED.memory_sharpness)
    products, tensor, shared, loads, _, of_step, steps, epilogue, *_ = (float(np.ravel(each)[0]) for each in wave.cta)
    return TileSpans(
        steps=int(steps),
        products=products,
        tensor=tensor,
        shared=shared,
        loads=loads,
        memory=float(wave.memory[0]) / steps,
        latency=FITTED.latency,
        beside=of_step,
        epilogue=epilogue + float((wave.total - of_ctas)[0]),  # with exchanges and waits
        total=float(wave.total[0]),
        busy=busy,
        waves=count,
    )
