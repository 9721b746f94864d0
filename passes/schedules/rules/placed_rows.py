"""Rules of rows of D that are stored at an index: threads store them, one row after the other.

A box of TMA has consecutive rows, so no part of D is stored by TMA. D is not packed, because its other rows must not be
written. One thread or CTA stores each row as a whole sum.
"""

from collections.abc import Iterator
from types import MappingProxyType

from lowtide.dialects.tile import EpilogueStart, OperandsKind, PackKind, StorePath
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.schedules.rules.required import WHOLE_K, Table, not_taken
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target

WITH_PLACED_ROWS: Table = MappingProxyType(
    {
        "grid.operands": (None, OperandsKind.as_given),
        "grid.k_division": WHOLE_K,
        "epilogue.path": (None, StorePath.smem, StorePath.direct),
        "epilogue.start": (None, EpilogueStart.all_sums),
        "epilogue.pack": (None, PackKind.none),
    }
)
WHY = "rows of D are stored at an index, by threads that read it"


def placed_rows(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """For each given field with a value that is not legal with placed rows, a message."""
    if not problem.places_rows:
        return
    for field, way_out in not_taken(WITH_PLACED_ROWS, schedule):
        yield f"{field}: {WHY}; {way_out} [placed-rows-field]"
