"""How the threads of a kernel share a reduction: the lines that a thread holds, and the warps with the same lines.

A line is a row of a fragment for reductions of rows, and a column for reductions of columns. A thread reduces its
elements of each line. Lanes with the same lines exchange their partial results by shuffles, and each warp stores one.
So a tile has a partial result of a line for each warp that holds elements of the line. In a grid with tiles of two
heights, a column has as many for each part of the tile."""

from dataclasses import dataclass
from functools import lru_cache, reduce
from math import gcd

import numpy as np
from tensor_layouts import Layout

from lowtide.dialects.tile import EpilogueMath, ResultKind, StorePath, TailKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import ScheduleError
from lowtide.passes.support.agents.atoms import epilogue_rows, part_of, tiled_mma
from lowtide.passes.support.problem.problem import Problem
from lowtide.reductions import REDUCTIONS, Reduction
from lowtide.targets import split_coordinates
from lowtide.targets.tv import extents, offsets

_WARP = 32
# One thread reduces the partial results of a column in order, eight loads at a time. If there are many, several
# threads first reduce a group each. This needs one more launch (1.7 µs, H200), but fewer waits: after a long kernel,
# partial results come from memory. One launch then took 55 µs longer than two (8192 columns, 256 results each).
FINISH_GROUPS, MOST_ALONE = 16, 96


def reduction_of(kind: ResultKind) -> Reduction | None:
    """The axis and operation of a kind of results; None if it is not a reduction."""
    return REDUCTIONS.get(str(kind))


def in_kernel(reduction: Reduction) -> Reduction:
    """The reduction that a kernel computes: for a reduction of all elements, the reduction of rows."""
    return Reduction("row", reduction.operation) if reduction.axis == "all" else reduction


def may_finish_in_groups(reduction: Reduction) -> bool:
    """Whether this is a reduction whose elements, if they have more than `MOST_ALONE` partial results, are reduced in
    `FINISH_GROUPS` groups of every 16th one, and then from the results of the groups. Reductions of columns are, unless
    partial results are pairs, which would not stay side by side."""
    return reduction.axis == "column" and not reduction.is_pair


@dataclass(frozen=True)
class Lines:
    """The lines of a fragment. `values`: for each line of a thread, in order, its offset from the thread's first line,
    and the numbers of its values. `shuffles`: the bits in which the numbers of lanes with the same lines differ.
    `warps`: the number of warps with the same lines. `step`: the distance, across the lines, of their first
    elements."""

    values: tuple[tuple[int, tuple[int, ...]], ...]
    shuffles: tuple[int, ...]
    warps: int
    step: int


@lru_cache(maxsize=256)
def lines_of(tv: Layout, shape: tuple[int, int], axis: str) -> Lines:
    """The lines of a fragment along an axis. Raises ScheduleError if two lanes of a warp, or two warps, hold some
    common lines but not the same lines, or if warps are not evenly apart."""
    split = split_coordinates(tv, shape)
    split = split if axis == "row" else split.turned
    threads, _ = extents(tv)
    numbers = np.arange(threads)
    line, across = offsets(split.row_thread, numbers), offsets(split.col_thread, numbers)
    by_line: dict[int, list[int]] = {}
    for number, offset in enumerate(split.row_values):
        by_line.setdefault(offset, []).append(number)
    shuffles = tuple(bit for bit in (1, 2, 4, 8, 16) if np.array_equal(line[numbers ^ bit], line))
    warps = line.reshape(-1, _WARP)
    shared = int(np.prod([2 for _ in shuffles], initial=1))
    held = [frozenset((own[:, None] + np.array([*by_line])).ravel().tolist()) for own in warps]
    owners = [*zip(held, across.reshape(-1, _WARP)[:, 0].tolist(), strict=True)]
    places = sorted({place for _, place in owners})
    step = reduce(gcd, places, 0) or 1
    is_even = places == [step * number for number in range(len(places))]
    # Warps hold the same lines, one at each place, or no common line.
    is_divided = len({*owners}) == len(owners) == len({*held}) * len(places)
    is_divided = is_divided and sum(map(len, {*held})) == len(frozenset().union(*held))
    if any(len({*own.tolist()}) * shared != _WARP for own in warps) or not is_even or not is_divided:
        raise ScheduleError(
            f"reductions of {axis}s: two lanes of a warp, and two warps, must hold either the same {axis}s or no "
            f"common {axis}, and warps must be evenly apart, unlike in the TV layout {tv}; take another multiply.atom "
            "or epilogue.tile [reduction-lanes]"
        )
    return Lines(tuple((offset, tuple(held)) for offset, held in sorted(by_line.items())), shuffles, len(places), step)


def slots_of(schedule: Schedule, problem: Problem, reduction: Reduction, threads: int) -> int:
    """The number of partial results of a tile for each of its rows, or columns. `threads`: the number of threads that
    hold a tile. Raises ScheduleError as `lines_of` does."""
    m, _, _ = schedule.tile_mnk
    rows, columns = part_shape(schedule)
    parts = 1 if reduction.axis == "row" or joins_columns(schedule) else m // rows
    if schedule.epilogue.path is StorePath.smem and schedule.epilogue.math is EpilogueMath.rows:
        tv = epilogue_rows(schedule, problem, threads).rows.tv
    else:
        tv = part_of(tiled_mma(schedule, problem), (rows, columns)).tv("c", (rows, columns))
    return parts * lines_of(tv, (rows, columns), reduction.axis).warps


def joins_columns(schedule: Schedule) -> bool:
    """Whether a thread reduces a column over all parts of a tile before lanes exchange their results. In a grid with
    tiles of two heights, each part of every tile has its own partial results."""
    return schedule.grid.tail is not TailKind.halves


def part_shape(schedule: Schedule) -> tuple[int, int]:
    """Rows and columns of a part of the tile that is reduced at once."""
    m, n, _ = schedule.tile_mnk
    part = schedule.epilogue.tile
    if part is None:
        return m, n
    return min(part[0], m), min(part[1], n)
