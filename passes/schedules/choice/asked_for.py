"""Which kind of schedule the given fields ask for: roles, no roles, TMA stores."""

import re

from lowtide.dialects.tile import (
    CacheHint,
    EpilogueMath,
    EpilogueStart,
    PackKind,
    RepeatKind,
    SchedulerKind,
    StorePath,
    TailKind,
    UnrollKind,
    WavesKind,
)
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.passes.schedules.facts.staged_operands import full_operands, why_not_beside, why_not_staged
from lowtide.passes.schedules.rules.epilogue import STORE_HINTS, stores_whole_rows
from lowtide.passes.support.agents.atoms import STMATRIX_BITS, TMA_RANKS
from lowtide.passes.support.problem.matrix_layouts import k_is_last
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import has_mma_sync, has_wgmma, issuer_of

# 4095×4097×4103 on an H200: TMA stores to a workspace take 7 % less time than stores through threads.
_LONG_K = 2048
_NO_HINT = (None, CacheHint.normal)


def asks_for_roles(given: Schedule) -> bool:
    """Whether a given field has a value that only schedules with roles have."""
    operands = (given.mainloop.a, given.mainloop.b)
    return (
        any(operand.copy in TMA_RANKS or operand.cache not in _NO_HINT for operand in operands)
        or issuer_of(given.multiply.atom) == "warpgroup"
        or any(given.agents.registers)
        or given.grid.tail is TailKind.halves
        or given.grid.waves is WavesKind.synchronized
        or given.turns_k_around
        or given.epilogue.start is EpilogueStart.first_rows
        or given.cluster != (1, 1)
        or given.epilogue.path is StorePath.tma
        or asks_for_tma_stores(given)
    )


def asks_for_no_roles(given: Schedule, problem: Problem) -> bool:
    """Whether a given field has a value that no schedule with roles has."""
    multiply = given.multiply
    return (
        any(operand.copy not in (None, *TMA_RANKS) for operand in (given.mainloop.a, given.mainloop.b))
        or issuer_of(multiply.atom) in ("warp", "thread")
        or multiply.atom_order is not None
        or multiply.fragment_buffers == 2
        or given.mainloop.prologue is RepeatKind.once
        or given.mainloop.unroll is UnrollKind.full
        or given.epilogue.start is EpilogueStart.next_tile
        or given.grid.scheduler is SchedulerKind.one_shot
        or (multiply.atoms is not None and multiply.atoms[1:] != (1, 1))
        or not _may_be_wgmma(problem)
    )


def _may_be_wgmma(problem: Problem) -> bool:
    """Whether wgmma multiplies the types; if mma.sync does too, wgmma must also take the layout."""
    types = problem.a, problem.b, problem.acc
    takes_layout = has_wgmma(*types, k_is_last(problem.layout))
    return takes_layout or (has_wgmma(*types) and not has_mma_sync(*types))


def asks_for_tma_stores(given: Schedule) -> bool:
    """Whether a given field has a value that only TMA stores have. The host then checks an N known only at run time."""
    only_tma = set(STORE_HINTS[StorePath.tma]) - set(STORE_HINTS[StorePath.smem])
    first_rows = given.epilogue.start is EpilogueStart.first_rows
    return (given.epilogue.buffers or 1) > 1 or given.epilogue.cache in only_tma or first_rows


def may_store_by_tma(schedule: Schedule, problem: Problem) -> bool:
    """Whether D can be stored by TMA. Not if threads read a full operand, in whole rows: accumulators then go through
    shared memory. Not if D's rows may end within 16 bytes and are not packed: TMA would write past their end. Not if D
    lies by columns and its elements do not have 16 bits. Not with widths or cache hints of st.global. Not if rows
    of D are stored at an index."""
    reads_rows = bool(full_operands(problem)) and bool(why_not_staged(problem) or why_not_beside(schedule))
    reads_rows |= schedule.epilogue.math is EpilogueMath.rows
    whole = stores_whole_rows(problem) or (problem.row_of_d is None and asks_for_tma_stores(schedule))
    whole = whole or _packs_short_rows(schedule, problem)
    by_elements = problem.d_is_column_major and any(element_type(x).bits != STMATRIX_BITS for x in problem.stored)
    by_threads = reads_rows or schedule.epilogue.store is not None or by_elements or problem.lacks_d
    by_threads = by_threads or problem.places_rows
    by_threads = by_threads or any(element_type(each).is_converted_to for each in problem.stored)
    return not by_threads and schedule.epilogue.cache in (None, *STORE_HINTS[StorePath.tma]) and whole


def _packs_short_rows(schedule: Schedule, problem: Problem) -> bool:
    """Whether to pack rows of D that may end within 16 bytes, for TMA stores. If they lie one behind the other, D is
    packed in any case. With a long K the copy takes little of the time."""
    packs = schedule.epilogue.pack is not PackKind.none and problem.n is not None
    packs = packs and not problem.d_is_column_major and not problem.is_grouped
    return packs and (problem.k or 0) >= _LONG_K


def stores_by_tma(given: Schedule, problem: Problem) -> bool:
    """Whether TMA stores are given, or will be chosen."""
    return given.epilogue.path is StorePath.tma or (given.epilogue.path is None and may_store_by_tma(given, problem))


def wgmma_width(given: Schedule) -> int | None:
    """N of the given wgmma, if any."""
    name = re.fullmatch(r"wgmma\.m64n(\d+)k\d+", given.multiply.atom or "")
    return int(name[1]) if name else None
