"""The same tile with fewer registers, to be tried next if the code of a schedule spills.

With parts of half the width the epilogue holds half as many elements at once. Fragments that are not loaded ahead take
half as many registers.
"""

from collections.abc import Iterator
from typing import Any

from lowtide.dialects.tile.schedule import Schedule

_LEAST_COLUMNS = 16  # of a part of the epilogue
# Fields that follow from the width of a part.
_OF_PARTS = ("epilogue.swizzle", "epilogue.buffers", "epilogue.prefetch", "epilogue.start")

WHY = "needs fewer registers than the schedule that is passed over"


def sparing(schedule: Schedule, given: Schedule) -> Iterator[dict[str, Any]]:
    """Fields to change, by path; None for a field to choose again. Given fields stay."""
    part = schedule.epilogue.tile
    if part is not None and part[1] > _LEAST_COLUMNS and given.epilogue.tile is None:
        follows = dict.fromkeys(path for path in _OF_PARTS if given.get(path) is None)
        yield {"epilogue.tile": (part[0], part[1] // 2), **follows}
    if schedule.multiply.fragment_buffers == 2 and given.multiply.fragment_buffers is None:
        yield {"multiply.fragment_buffers": 1}
