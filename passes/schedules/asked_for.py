"""What the fields that a user has given ask for: roles, no roles, stores by TMA."""

import re

from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.schedules.epilogue_rules import TMA_HINTS, stores_whole_rows
from lowtide.passes.support.atoms import TMA_RANKS
from lowtide.passes.support.problem import Problem
from lowtide.targets import has_wgmma

NO_HINTS = ("normal", "normal", "normal")


def asks_for_roles(given: Schedule) -> bool:
    """Whether something is given that only schedules with roles have."""
    hints = given.cache_hints or NO_HINTS
    return (
        given.copy in TMA_RANKS
        or (given.mma or "").startswith("wgmma")
        or given.registers not in (None, (0, 0))
        or given.epilogue == "tma"
        or asks_for_tma_stores(given)
        or hints[:2] != NO_HINTS[:2]
    )


def asks_for_no_roles(given: Schedule, problem: Problem) -> bool:
    """Whether something is given that no schedule with roles has."""
    return (
        (given.copy or "").startswith("cp.async")
        or (given.mma or "").startswith("mma.")
        or given.fragment_buffers == 2
        or given.scheduler == "one_shot"
        or (given.warps is not None and given.warps[1:] != (1, 1))
        or not has_wgmma(problem.ab, problem.acc)
    )


def asks_for_tma_stores(given: Schedule) -> bool:
    """Whether something is given that only TMA stores have: the host then holds an N that comes at run time to them."""
    return (given.epilogue_buffers or 1) > 1 or (given.cache_hints or NO_HINTS)[2] in TMA_HINTS[1:]


def may_store_by_tma(schedule: Schedule, problem: Problem) -> bool:
    """Not where a full operand is read in whole rows, for which parts of the tile go through shared memory as they are;
    nor where D's rows may end within 16 bytes, which TMA would write beyond; nor for hints that are not TMA's."""
    reads_rows = "full" in problem.kinds or schedule.epilogue_math == "rows"
    hint = (schedule.cache_hints or NO_HINTS)[2]
    whole = stores_whole_rows(problem) or (problem.n is None and asks_for_tma_stores(schedule))
    return not reads_rows and hint in TMA_HINTS and whole


def stores_by_tma(given: Schedule, problem: Problem) -> bool:
    """Whether TMA stores are given, or will be chosen."""
    return given.epilogue == "tma" or (given.epilogue is None and may_store_by_tma(given, problem))


def wgmma_width(given: Schedule) -> int | None:
    """N of the wgmma that is given, if one is."""
    name = re.fullmatch(r"wgmma\.m64n(\d+)k16", given.mma or "")
    return int(name[1]) if name else None
