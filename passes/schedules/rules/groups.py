"""Rules of groups of rows, and of K, whose ends only the device knows.

A tile of a group may begin at any row, and the number of tiles is not known at the launch. So CTAs take tiles, or equal
parts of their K, one group after the other, and only rows of the group are stored. All tiles sum K in the same order,
so the bits of a row do not depend on where groups end. The CTAs of a cluster have the same rows, so they have the same
group. Padded groups begin at the first row of their own matrices. With groups of K, the number of tiles is known, but
the K steps of each tile are not.
"""

from collections.abc import Iterator
from types import MappingProxyType

from lowtide.dialects.tile import (
    KDivisionKind,
    KOrderKind,
    OperandKind,
    OperandsKind,
    PackKind,
    RepeatKind,
    ScalesKind,
    SchedulerKind,
    StorePath,
    TailKind,
    WavesKind,
)
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.passes.schedules.rules.required import WHOLE_K, Table, not_taken
from lowtide.passes.support.agents.atoms import TMA_RANKS
from lowtide.passes.support.problem.matrix_layouts import a_is_mk
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target

_BY_TMA = "tma"
# The values of fields that groups support; the first is the default. None: the field is left out.
WITH_GROUPS: Table = MappingProxyType(
    {
        "grid.scheduler": (SchedulerKind.persistent, SchedulerKind.even_split),
        "grid.cluster": ((1, 1), None, (1, 2), (1, 4)),
        "grid.tail": (TailKind.whole, None),
        "grid.waves": (WavesKind.free, None),
        "grid.operands": (None, OperandsKind.as_given),
        "mainloop.prologue": (RepeatKind.per_tile, None),
        "mainloop.k_order": (KOrderKind.forward, None),
        "mainloop.a.load": (RepeatKind.per_tile, None),
        "mainloop.b.load": (RepeatKind.per_tile, None),
        "epilogue.pack": (None, PackKind.none),
    }
)
# As above, for groups of K. The number of K steps of an item depends on its group.
WITH_GROUPS_OF_K: Table = MappingProxyType(
    {
        "grid.tail": (TailKind.whole, None),
        "grid.k_division": WHOLE_K,
        "grid.operands": (None, OperandsKind.as_given),
        "mainloop.prologue": (RepeatKind.per_tile, None),
        "mainloop.k_order": (KOrderKind.forward, None),
        "mainloop.a.load": (RepeatKind.per_tile, None),
        "mainloop.b.load": (RepeatKind.per_tile, None),
        "mainloop.a.pack": (None, PackKind.none, PackKind.rows),
        "mainloop.b.pack": (None, PackKind.none, PackKind.rows),
    }
)
# With scales of blocks, wgmma needs operands with K contiguous. TMA loads zeros for steps past the last scale.
_WITH_SCALES: Table = MappingProxyType(
    {
        "mainloop.a.pack": (PackKind.transposed,),
        "mainloop.b.pack": (PackKind.transposed,),
        "mainloop.a.copy": (_BY_TMA,),
        "mainloop.b.copy": (_BY_TMA,),
        "mainloop.scales": (ScalesKind.staged,),
    }
)
WHY = "rows are grouped, and only the device knows where groups end"
_WHY_OF_K = "K is grouped, and only the device knows where groups end"


def taken_with_groups(problem: Problem) -> Table:
    """The values of fields that the problem's groups support, by path; empty without groups. A group may begin at any
    row of an A (K, M), where no wide copy may begin, so its transpose is multiplied."""
    if problem.is_grouped and not problem.is_padded and not a_is_mk(problem.layout):
        return {**WITH_GROUPS, "mainloop.a.pack": (PackKind.transposed,)}
    if problem.k_is_grouped:
        return {**WITH_GROUPS_OF_K, **_WITH_SCALES} if problem.is_scaled else WITH_GROUPS_OF_K
    return WITH_GROUPS if problem.is_grouped else MappingProxyType({})


def groups(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """The rules that groups set for the given fields."""
    if not problem.is_grouped and not problem.k_is_grouped:
        return
    begins_anywhere = problem.is_grouped and not problem.is_padded
    is_open = schedule.mainloop.a.copy is None and schedule.mainloop.a.pack is None  # until the schedule is chosen
    lies_by_rows = a_is_mk(problem.layout) or is_open
    if begins_anywhere and not lies_by_rows:
        yield (
            f"groups with layout {problem.layout}: a group begins at any row, so A lies by rows; take layout tn or tt, "
            "or a.pack = transposed [groups-of-rows]"
        )
    if problem.is_grouped and problem.d_is_column_major:
        yield from _by_columns(schedule, problem, is_open=is_open)
    begins_alone = problem.k_is_grouped or problem.is_padded
    if begins_alone and problem.precision is not None:
        what = "groups of K" if problem.k_is_grouped else "padded groups"
        yield (
            f"{what} with sums by {problem.precision} are not supported; launch the groups one by one [groups-and-sums]"
        )
    if begins_anywhere and OperandKind.row_block_scale in problem.kinds:
        yield (
            "groups with a scale for each 128 rows: a group may begin at any of them; take one for each row"
            " [groups-row-blocks]"
        )
    if problem.k_is_grouped:
        yield from _of_k(schedule)
    division = schedule.k_division
    if problem.is_grouped and division is not None and division.kind is not KDivisionKind.split:
        yield f"grid.k_division = {division}: {WHY}; leave it out, or take split(2) [groups-division]"
    why = WHY if problem.is_grouped else _WHY_OF_K
    for field, way_out in not_taken(taken_with_groups(problem), schedule):
        yield f"{field}: {why}; {way_out} [groups-field]"


def _by_columns(schedule: Schedule, problem: Problem, *, is_open: bool) -> Iterator[str]:
    """The rules for a D by columns: a group may begin and end at any element of a column, so threads store single
    elements."""
    widest = element_type(problem.widest).bytes
    path, store = schedule.epilogue.path, schedule.epilogue.store
    stores = (widest, None) if is_open or path is None else (widest,)
    if path not in (None, StorePath.direct) or store not in stores:
        yield (
            "groups with D by columns: a group may begin and end at any element of a column; take epilogue.path = "
            f"direct with epilogue.store = {widest} [groups-columns]"
        )


def _of_k(schedule: Schedule) -> Iterator[str]:
    """The rules of groups of K that are not about the value of one field."""
    for name in ("a", "b"):
        copy = schedule.mainloop.operand(name).copy
        if TMA_RANKS.get(str(copy), 2) > 2:
            yield (
                f"mainloop.{name}.copy = {copy}: {_WHY_OF_K}; take tma, whose tensor maps can end with a group"
                " [k-groups-copy]"
            )
    if schedule.agents.consumer.turns > 1:
        yield (
            "consumers that take turns need the same number of K steps in each tile, but K is grouped; take "
            "roles = cooperative(2)"
            " [k-groups-turns]"
        )
