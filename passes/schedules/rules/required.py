"""Tables of required fields: for the path of a field, the values that are legal for some kind of problem.

The first value is the default. None: the field is left out.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

from lowtide.dialects.tile import KDivisionKind
from lowtide.dialects.tile.division import KDivision
from lowtide.dialects.tile.schedule import Schedule

Table: TypeAlias = Mapping[str, tuple[Any, ...]]
WHOLE_K = (None, KDivision(KDivisionKind.none))
"""The values of `grid.k_division` with which one CTA or warpgroup sums all K of a tile."""


class NotTaken(NamedTuple):
    """A given field with a value that is not legal, as a schedule says it, and what to do instead."""

    given: str
    way_out: str


def default_fields(table: Table, given: Schedule) -> dict[str, Any]:
    """The defaults of the fields that are not given, by path."""
    return {path: taken[0] for path, taken in table.items() if taken[0] is not None and given.get(path) is None}


def not_taken(table: Table, schedule: Schedule) -> list[NotTaken]:
    """The given fields with values that are not in their table."""
    found = []
    for path, taken in table.items():
        value = schedule.get(path)
        if value is not None and value not in taken:
            others = " or ".join(str(each) for each in taken if each is not None)
            found.append(NotTaken(f"{path} = {value}", f"take {others}" if others else "leave it out"))
    return found
