"""Rules of rows of A that are taken at an index: threads copy them, one row after the other, by cp.async."""

from collections.abc import Iterator
from types import MappingProxyType

from lowtide.dialects.tile import OperandsKind, RepeatKind, TailKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.schedules.rules.required import WHOLE_K, Table, not_taken
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target

# For each field, the values that are legal with taken rows. The first is the default; None: the field is left out.
WITH_TAKEN_ROWS: Table = MappingProxyType(
    {
        "grid.operands": (None, OperandsKind.as_given),
        "grid.cluster": ((1, 1), None),
        "grid.tail": (TailKind.whole, None),
        "grid.k_division": WHOLE_K,
        "mainloop.prologue": (RepeatKind.per_tile, None),
        "mainloop.a.load": (RepeatKind.per_tile, None),
        "mainloop.a.copy": ("cp.async.16", "cp.async.8", "cp.async.4"),
    }
)
WHY = "rows of A are taken at an index, by threads that read it once for each tile"


def taken_rows(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """For each given field with a value that is not legal with taken rows, a message."""
    if not problem.takes_rows:
        return
    for field, way_out in not_taken(WITH_TAKEN_ROWS, schedule):
        yield f"{field}: {WHY}; {way_out} [taken-rows-field]"
