"""Schedules without roles for few K steps and many tiles: the ring stays filled from one work tile to the next.

A tile of few K steps is so short that the latencies at its start and end count. So the loop over K is unrolled, and the
loads of the next tiles are in flight. Threads hold 16 neighbouring bytes of a row of D and store them without shared
memory, which is left to the ring. Either an SM has one CTA, which has loads of two tiles in flight and stores a tile
while it multiplies the next one; or it has two, and one multiplies while the other stores.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil
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
from lowtide.dialects.tile.agents import SINGLE
from lowtide.dialects.tile.fields import Extents2, Extents3, Order
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.passes.schedules.rules.grid import has_griddepcontrol
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target

_STORE_BITS = 128  # of a store of one thread
_DEPTH = 64  # K of a step: rows of 128 bytes
_MOST_BITS = 16  # of an element of A, B and D
_FEWEST_TILES = 3  # for each SM


@dataclass(frozen=True)
class _Form:
    """A tile, its warps, the K steps for which it was measured, and the stages of its ring: a fixed number, or a number
    for each K step of B, which then stays in the ring."""

    tile: Extents2
    warps: Extents3
    steps: range
    ctas_per_sm: int
    stages: int = 0
    stages_per_step: int = 0
    holding: range = range(0)
    """With these numbers of K steps, D of a tile is stored among the products of the next one."""


_FORMS = (
    # One CTA of four warps keeps all of B, and each row of A is loaded by one SM only. On an H200, in µs, and with the
    # two CTAs below: 81920×256×256 f16 32.4 and 33.7, 40960×256×256 17.3 and 18.0, 81920×256×192 bf16 25.6 and 29.2,
    # 81920×256×128 20.8 and 21.4. D of a tile of two K steps is stored at once, since holding it spills.
    _Form((64, 256), (1, 4, 1), range(2, 5), ctas_per_sm=1, stages_per_step=2, holding=range(3, 5)),
    # A CTA keeps the rows of B of its column of tiles: two warps, so that few wait for each other, with tiles of 64×64.
    # On an H200: 81920×256×256 f16 33.2 µs in place of 35.7, 81920×128×256 19.4 in place of 27.7, 40960×256×256 17.9 in
    # place of 26.1. More K steps do not fit twice beside A.
    _Form((64, 128), (1, 2, 1), range(2, 5), ctas_per_sm=2, stages_per_step=1),
    # B comes with A, for each tile. sm_80's kernels on an H200: 81920×512×256 f16 67.3 µs in place of 70.2,
    # 81920×128×256 23.5 in place of 27.8.
    _Form((128, 128), (2, 2, 1), range(2, 9), ctas_per_sm=2, stages=2),
)

# These fields may be given: they leave the others open. Any other given field may mean another kernel.
_COMPATIBLE = ("grid.tile", "grid.launch", "mainloop.k", *SINGLE.values())


def candidates(given: Schedule, problem: Problem, target: Target) -> Iterator[Mapping[str, Any]]:
    """Sets of fields, the best first; none if the given fields, the types or the extents do not suit these forms."""
    is_plain = problem.is_plain and not (problem.weights or problem.d_is_column_major)
    if not is_plain or problem.layout is not GemmLayout.tn:
        return  # an unrolled loop leaves no registers for these, nor for transposed fragments; it stores rows
    if max(element_type(name).bits for name in (problem.a, problem.b, *problem.stored)) > _MOST_BITS:
        return
    decided = given.decided()
    for form in _FORMS if set(decided) <= set(_COMPATIBLE) else ():
        values = _fields(form, problem, target)
        if values and all(values.get(path, value) == value for path, value in decided.items()):
            yield values


def _steps(problem: Problem, tile: Extents2, target: Target) -> int:
    """K steps of a problem that many whole tiles cover exactly, else 0. Edges would need registers."""
    sides = zip((problem.m, problem.n, problem.k), (*tile, _DEPTH), strict=True)
    if any((extent or 1) % side for extent, side in sides):
        return 0
    steps = ceil((problem.k or 0) / _DEPTH)
    return steps if (problem.tiles(tile) or 0) >= _FEWEST_TILES * target.sm_count else 0


def _fields(form: _Form, problem: Problem, target: Target) -> dict[str, Any]:
    """The fields of a form; none if it does not suit the problem, or was not measured on such a target."""
    steps, keeps_b, is_newer = _steps(problem, form.tile, target), form.stages == 0, has_griddepcontrol(target)
    if steps not in form.steps or (keeps_b and problem.is_batched) or (form.ctas_per_sm == 1 and not is_newer):
        return {}
    warps_m, warps_n, _ = form.warps
    # Two columns of an atom are `half` apart, and those of `half` atoms lie between them. A row of eight columns of an
    # atom is then every fourth row of B's stage, for which there is a swizzle.
    run = _STORE_BITS // element_type(problem.d).bits
    half = run // 2
    columns = Layout((2, 4, warps_n, half), (half, run, 4 * run, 1))
    return {
        "grid.tile": form.tile,
        "grid.order": Order(RasterKind.row),
        "grid.scheduler": SchedulerKind.persistent,
        "grid.ctas_per_sm": form.ctas_per_sm,
        "mainloop.k": _DEPTH,
        "mainloop.stages": form.stages or form.stages_per_step * steps,
        **SINGLE.values(),
        "mainloop.prologue": RepeatKind.once,
        "mainloop.unroll": UnrollKind.full,
        "multiply.atoms": form.warps,
        "multiply.permutation": (16 * warps_m, columns, 16),
        "epilogue.path": StorePath.direct,
        **({"mainloop.b.load": RepeatKind.once} if keeps_b else {}),
        **({"grid.launch": LaunchKind.programmatic} if keeps_b and is_newer else {}),
        **({"epilogue.start": EpilogueStart.next_tile} if steps in form.holding else {}),
    }
