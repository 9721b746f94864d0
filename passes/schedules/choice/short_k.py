"""Schedules without roles for few K steps and many tiles: the ring stays filled from one work tile to the next.

A tile of few K steps is over before the latencies at its start and end are small beside it. The loop over K is
unrolled, and the next tiles' loads are in flight. Threads hold 16 neighbouring bytes of a row of D and store them
without shared memory, which is left to the ring. Either one CTA has an SM, with loads of two tiles in flight, and
stores a tile while it multiplies the next one; or two share it, and one multiplies while the other stores.
"""

from collections.abc import Iterator, Mapping
from math import ceil
from types import MappingProxyType
from typing import Any

from tensor_layouts import Layout

from lowtide.dialects.tile import (
    EpilogueStart,
    GemmLayout,
    LaunchKind,
    RasterKind,
    RepeatKind,
    SchedulerKind,
    StorePath,
    UnrollKind,
)
from lowtide.dialects.tile.fields import SINGLE, Extents2, Extents3, Order
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.passes.schedules.rules.grid import has_griddepcontrol
from lowtide.passes.support.problem import Problem
from lowtide.targets import Target

_STORE_BITS = 128  # of a store of one thread
_DEPTH = 64  # K of a step: rows of 128 bytes
_MOST_BITS = 16  # of an element of A, B and D
_FEWEST_TILES = 3  # for each SM

# One CTA of four warps keeps all of B, and each row of A comes into one SM alone. On an H200, in µs, in place of the
# two CTAs below: 81920×256×256 f16 32.4 for 33.7, 40960×256×256 17.3 for 18.0, 81920×256×192 bf16 25.6 for 29.2,
# 81920×256×128 20.8 for 21.4. D of a tile of two K steps is stored at once: held, it spills.
_WIDE_TILE, _WIDE_WARPS, _WIDE_STEPS, _WIDE_SLOTS, _HOLDING_STEPS = (64, 256), (1, 4, 1), range(2, 5), 2, range(3, 5)

# A CTA keeps the rows of B of its column of tiles: two warps, so that few wait for each other, with tiles of 64×64.
# On an H200: 81920×256×256 f16 33.2 µs in place of 35.7, 81920×128×256 19.4 in place of 27.7, 40960×256×256 17.9 in
# place of 26.1. More K steps do not fit twice beside A.
_KEEPING_TILE, _KEEPING_WARPS, _KEEPING_STEPS = (64, 128), (1, 2, 1), range(2, 5)

# B comes with A, for each tile. sm_80's kernels on an H200: 81920×512×256 f16 67.3 µs in place of 70.2, 81920×128×256
# 23.5 in place of 27.8.
_LOADING_TILE, _LOADING_WARPS, _LOADING_STEPS, _LOADING_STAGES = (128, 128), (2, 2, 1), range(2, 9), 2

# Given fields that leave the others open. Any other may mean another kernel.
_COMPATIBLE = ("grid.tile", "grid.launch", "mainloop.k", "mainloop.roles")

REASONS: Mapping[str, str] = MappingProxyType(
    {
        "grid.tile": "K has few steps: a tile whose part of B stays in shared memory, or of which two fit on an SM",
        "grid.order": "consecutive CTAs take the tiles of a row, so that its part of A comes from memory once",
        "grid.scheduler": "CTAs stay for several tiles, each in one column of tiles where their number allows it",
        "grid.ctas_per_sm": "two, so that one multiplies while the other stores, or one that does both at once",
        "grid.launch": "its CTAs start while the last ones of the kernel before end, and wait for their writes",
        "mainloop.k": "rows of 128 bytes",
        "multiply.atoms": "warps of 64 × 64, to read the fewest fragment bytes",
        "epilogue.start": "D of a tile is stored among the products of the next one",
        "multiply.permutation": "a thread holds neighbouring columns, for stores of 16 bytes",
    }
)


def schedules(given: Schedule, problem: Problem, target: Target) -> Iterator[Mapping[str, Any]]:
    """Fields by path, the best schedule first; nothing where given fields, types, edges or extents do not suit it."""
    if (
        problem.weights
        or problem.kinds
        or problem.has_math
        or problem.layout is not GemmLayout.tn
        or problem.d_is_column_major
    ):
        return  # an unrolled loop leaves no registers for them, nor for transposed fragments; its stores are of rows
    if max(element_type(name).bits for name in (problem.a, problem.b, problem.d)) > _MOST_BITS:
        return
    if not set(given.decided()) <= set(_COMPATIBLE):
        return
    for values in (_keeping_wide(problem, target), _keeping(problem, target), _loading(problem, target)):
        if values and all(values.get(path, value) == value for path, value in given.decided().items()):
            yield values


def _keeping_wide(problem: Problem, target: Target) -> Mapping[str, Any]:
    """CTAs that have an SM each and keep their part of B; nothing where that does not suit the problem."""
    steps = 0 if problem.is_batched else _steps(problem, _WIDE_TILE, target)
    if steps not in _WIDE_STEPS or not has_griddepcontrol(target):  # not measured on others
        return {}
    values = _fields(_WIDE_TILE, _WIDE_WARPS, problem) | {"grid.ctas_per_sm": 1}
    values |= {"mainloop.stages": _WIDE_SLOTS * steps, "mainloop.b.load": RepeatKind.once}
    values |= {"epilogue.start": EpilogueStart.next_tile} if steps in _HOLDING_STEPS else {}
    return values | {"grid.launch": LaunchKind.programmatic}


def _keeping(problem: Problem, target: Target) -> Mapping[str, Any]:
    """CTAs that keep their part of B; nothing where that does not suit the problem."""
    steps = 0 if problem.is_batched else _steps(problem, _KEEPING_TILE, target)  # each product has its own B
    if steps not in _KEEPING_STEPS:
        return {}
    values = _fields(_KEEPING_TILE, _KEEPING_WARPS, problem)
    values |= {"mainloop.stages": steps, "mainloop.b.load": RepeatKind.once}
    return values | ({"grid.launch": LaunchKind.programmatic} if has_griddepcontrol(target) else {})


def _loading(problem: Problem, target: Target) -> Mapping[str, Any]:
    """CTAs that load B with A; nothing where that does not suit the problem."""
    if _steps(problem, _LOADING_TILE, target) not in _LOADING_STEPS:
        return {}
    return _fields(_LOADING_TILE, _LOADING_WARPS, problem) | {"mainloop.stages": _LOADING_STAGES}


def _steps(problem: Problem, tile: Extents2, target: Target) -> int:
    """K steps of a problem that whole tiles cover, and many of them; else 0. Edges would need registers."""
    sides = tuple(zip((problem.m, problem.n, problem.k), (*tile, _DEPTH), strict=True))
    if any((extent or 1) % side for extent, side in sides):
        return 0
    steps = ceil((problem.k or 0) / _DEPTH)
    return steps if (problem.tiles(tile) or 0) >= _FEWEST_TILES * target.sm_count else 0


def _fields(tile: Extents2, warps: Extents3, problem: Problem) -> dict[str, Any]:
    warps_m, warps_n, _ = warps
    # Two columns of an atom are `half` apart, and those of `half` atoms lie between them. A row of eight columns of an
    # atom is then every fourth row of B's stage, for which there is a swizzle.
    run = _STORE_BITS // element_type(problem.d).bits
    half = run // 2
    columns = Layout((2, 4, warps_n, half), (half, run, 4 * run, 1))
    return {
        "grid.tile": tile,
        "grid.order": Order(RasterKind.row),
        "grid.scheduler": SchedulerKind.persistent,
        "grid.ctas_per_sm": 2,
        "mainloop.k": _DEPTH,
        "mainloop.roles": SINGLE,
        "mainloop.prologue": RepeatKind.once,
        "mainloop.unroll": UnrollKind.full,
        "multiply.atoms": warps,
        "multiply.permutation": (16 * warps_m, columns, 16),
        "epilogue.path": StorePath.direct,
    }
