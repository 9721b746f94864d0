"""How the mainloop of a schedule is chosen: copies, stages, the registers of roles, the swizzles of the stages."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from lowtide import targets
from lowtide.dialects.tile import CacheHint, ScalesKind, StageOrder
from lowtide.dialects.tile.agents import REGISTER_PATHS, SINGLE
from lowtide.dialects.tile.layouts import SwizzleBits
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.errors import ScheduleError
from lowtide.passes.schedules.cost.traffic import ctas_of, starts_on_sectors
from lowtide.passes.schedules.facts.resources import swizzle_base, threads_of
from lowtide.passes.schedules.rules.tma import contiguous_extent, panel_swizzle
from lowtide.passes.support.agents.atoms import (
    STAGED_COPIES,
    fill_copy,
    is_transposed,
    keeps_transposed,
    tiled_mma,
)
from lowtide.passes.support.problem.problem import Problem
from lowtide.passes.support.streams.operand_loads import stage_access
from lowtide.targets import SwizzleChoice, Target
from lowtide.targets.atoms import FMA, Operand

OPERANDS: tuple[Operand, ...] = ("a", "b")
# If CTAs read at least so many rows of an operand at once, and it has `evict_first`, L2 loses sectors that two K steps
# share: they are gone before the second step reads them. A row counts once for each CTA that reads it. Without
# `evict_first`, 21 products with 30,000 to 33,800 rows take 0.87 to 1.01 of the time, 0.96 on average; 30 products with
# 20,000 to 30,000 rows take 0.90 to 1.05, 1.00 on average; five products in several waves take 0.97 to 1.10 (bf16,
# H200).
_MANY_ROWS = 30_000
_NO_SWIZZLE: SwizzleBits = (0, 3, 3)


def scales(schedule: Schedule, problem: Problem) -> Mapping[str, Any]:
    """How scales of blocks are loaded: by a producer that also loads A and B by TMA, if there is one."""
    by_tma = schedule.agents.has_producer and not schedule.copied_by_threads
    return {"mainloop.scales": ScalesKind.staged} if problem.is_scaled and by_tma else {}


def follow(schedule: Schedule, problem: Problem, target: Target) -> Mapping[str, Any]:
    """The fields that follow from the tile and the consumers, except the stages and, without roles, the swizzles."""
    if not schedule.agents.has_producer:
        operands = (_operand(name, schedule, problem) for name in OPERANDS)
        return SINGLE.values() | {path: value for fields in operands for path, value in fields.items()}
    return {
        **_registers(schedule.agents.consumer.all_warpgroups, bool(schedule.copied_by_threads)),
        "mainloop.a.copy": "tma",
        "mainloop.b.copy": "tma",
        "mainloop.a.swizzle": _panel_swizzle("a", schedule, problem),
        "mainloop.b.swizzle": _panel_swizzle("b", schedule, problem),
        **_hints(schedule, problem, target),
    }


def _hints(schedule: Schedule, problem: Problem, target: Target) -> Mapping[str, Any]:
    """If one row or one column of tiles, or of clusters, covers D, the larger operand is read once: L2 then evicts it
    first, and keeps the smaller one, which all CTAs read. `_reads_sectors_twice` is the exception. If extents are known
    only at run time, the expected ones decide. They do not decide for groups, whose extents differ."""
    known = problem.compiled if problem.is_grouped or problem.k_is_grouped else problem
    m, n = known.m, known.n
    if schedule.copied_by_threads or not problem.is_plain or m is None or n is None:
        return {}
    larger: Operand = "a" if m >= n else "b"
    smaller, side = (n, 1) if larger == "a" else (m, 0)
    covers = smaller <= schedule.tile_mnk[side] * schedule.cluster[side]
    is_once = covers and not _reads_sectors_twice(larger, schedule, problem, target)
    return {f"mainloop.{larger}.cache": CacheHint.evict_first} if is_once else {}


def _reads_sectors_twice(operand: Operand, schedule: Schedule, problem: Problem, target: Target) -> bool:
    """Whether two K steps read the same sectors of an operand, and L2 may lose them in between. K steps share sectors
    if K is contiguous and rows do not start on sectors. L2 may lose them if the grid has one wave, and its CTAs read at
    least `_MANY_ROWS` rows at once."""
    is_along_k = contiguous_extent(operand, problem)[0] == "K"
    if problem.is_batched or not is_along_k or starts_on_sectors(operand, problem):  # batches were not measured
        return False
    ctas = ctas_of(schedule, problem)
    return ctas <= target.sm_count and ctas * schedule.tile_mnk[OPERANDS.index(operand)] >= _MANY_ROWS


def _operand(name: Operand, schedule: Schedule, problem: Problem) -> Mapping[str, Any]:
    """Copy and stage of an operand without roles.

    An FMA atom's threads load neighbouring rows (or columns) of one k: where K is contiguous in global memory the copy
    transposes, through registers.
    """
    given, narrowest = schedule.mainloop.operand(name), f"cp.async.{element_type(problem.stream(name).element).bytes}"
    transposes = (
        schedule.multiply.atom == FMA
        and not is_transposed(name, problem.layout)
        and given.copy in (None, narrowest, *STAGED_COPIES)
        and given.stage is not StageOrder.as_loaded
    )
    if not transposes:
        return {f"mainloop.{name}.copy": "cp.async.16"}
    copy = given.copy or _widest_staged(name, schedule, problem) or narrowest
    chosen: dict[str, Any] = {"copy": copy, "stage": StageOrder.transposed}
    if given.swizzle is None:
        # With 16 more bytes per row, 8 rows of k with 4 neighbours each lie in 32 different banks. Unlike with a
        # swizzle, every offset stays a constant.
        chosen |= {"padding": 16 // element_type(problem.stream(name).element).bytes, "swizzle": _NO_SWIZZLE}
    return {f"mainloop.{name}.{field}": value for field, value in chosen.items()}


def _widest_staged(name: Operand, schedule: Schedule, problem: Problem) -> str | None:
    """The copy through registers with the widest loads that the threads can share; None if there is none."""
    shape, bits = problem.stream(name).box(schedule.tile_mnk), element_type(problem.stream(name).element).bits
    for copy in STAGED_COPIES:
        try:
            fill_copy(copy, shape, threads_of(schedule), bits, transposed=True)
        except ScheduleError:
            continue
        return copy
    return None


def _registers(consumers: int, by_threads: bool) -> Mapping[str, int]:
    """Registers per thread of producer and consumer, by path. A producer that issues one box per panel spills with
    fewer than 40; a producer whose threads copy also holds loads in flight.

    With one consumer the registers at entry are enough.
    """
    if by_threads:
        both = {2: (120, 192), 3: (104, 136)}.get(consumers, (0, 0))
    else:
        both = {2: (40, 232), 3: (32, 160), 4: (32, 112)}.get(consumers, (0, 0))
    return dict(zip(REGISTER_PATHS, both, strict=True))


def _panel_swizzle(operand: Operand, schedule: Schedule, problem: Problem) -> SwizzleBits:
    """The widest swizzle whose panels divide the stage's rows; the narrowest if none does."""
    _, columns = problem.stream(operand).box(schedule.tile_mnk)
    element = problem.stream(operand).element
    return panel_swizzle(columns, element) or (1, swizzle_base(element), 3)


def stage_swizzle(operand: Operand, schedule: Schedule, problem: Problem) -> SwizzleChoice:
    """The swizzle of a stage without roles: the one with the fewest bank conflicts of copies and loads."""
    shape = problem.stream(operand).box(schedule.tile_mnk)
    transposed = keeps_transposed(operand, schedule)
    bits = element_type(problem.stream(operand).element).bits
    atom = schedule.mainloop.operand(operand).copy
    assert atom is not None
    copy = fill_copy(atom, shape, threads_of(schedule), bits, transposed)
    mma = tiled_mma(schedule, problem)
    m, n, k = schedule.tile_mnk
    along_rows = is_transposed(operand, problem.layout) != transposed
    loads = stage_access(mma, operand, (m if operand == "a" else n, k), along_rows, problem)
    # A copy through registers stores single elements into a transposed stage.
    vector = 1 if transposed and copy.atom.is_staged else copy.vector
    stores = replace(targets.fragment_access(atom, copy.tv, shape, vector), transposed=transposed)
    accesses = [stores, loads]
    return targets.choose_swizzle(shape[::-1] if transposed else shape, accesses, bits // 8)
