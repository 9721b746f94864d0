"""Rules of groups of rows, whose ends only the device knows.

A tile of a group begins at any row, and the number of tiles is not known at the launch. So CTAs take whole tiles in
turn, one group after the other, and threads store the rows that belong to the group. All tiles sum K forward, so that
the bits of a row do not depend on where groups end.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from lowtide.dialects.tile import (
    KOrderKind,
    OperandsKind,
    PackKind,
    RepeatKind,
    SchedulerKind,
    TailKind,
    WavesKind,
)
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.support.problem.matrix_layouts import a_is_mk
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target

# The values of fields that groups support; the first is the default. None: the field is left out.
WITH_GROUPS: Mapping[str, tuple[Any, ...]] = MappingProxyType(
    {
        "grid.scheduler": (SchedulerKind.persistent, SchedulerKind.even_split),
        "grid.cluster": ((1, 1), None),
        "grid.tail": (TailKind.whole, None),
        "grid.k_division": (None,),
        "grid.waves": (WavesKind.free, None),
        "grid.operands": (None, OperandsKind.as_given),
        "mainloop.prologue": (RepeatKind.per_tile, None),
        "mainloop.k_order": (KOrderKind.forward, None),
        "mainloop.a.load": (RepeatKind.per_tile, None),
        "mainloop.b.load": (RepeatKind.per_tile, None),
        "epilogue.pack": (None, PackKind.none),
    }
)
WHY = "rows are grouped, and only the device knows where groups end"


def groups(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """The rules that groups of rows set for the given fields."""
    if not problem.is_grouped:
        return
    if not a_is_mk(problem.layout) or problem.d_is_column_major:
        yield (
            f"groups with layout {problem.layout}: a group begins at any row, so A and D lie by rows; take layout tn or"
            " tt, and D by rows [groups-of-rows]"
        )
    if problem.is_scaled or problem.precision is not None:
        beside = "scales of blocks" if problem.is_scaled else f"sums by {problem.precision}"
        yield f"groups with {beside} are not supported; launch the groups one by one [groups-and-sums]"
    for path, taken in WITH_GROUPS.items():
        value = schedule.get(path)
        if value is not None and value not in taken:
            others = " or ".join(str(each) for each in taken if each is not None)
            way_out = f"take {others}" if others else "leave it out"
            yield f"{path} = {value}: {WHY}; {way_out} [groups-field]"
