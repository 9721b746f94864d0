"""Splits of rows into groups with which `check` and tests run a kernel. Each takes another path of the kernel."""

from collections.abc import Callable, Mapping
from itertools import accumulate
from types import MappingProxyType

from lowtide.runtime.limits import MAX_EXTENT

_LEAST = -(2**31)  # of an end
Ends = tuple[int, ...]


def _spread(rows: int, tile: int, groups: int) -> list[int]:
    """Groups of 1, 2, 3, … rows, so that tiles begin and end at many rows, within the rows that there are."""
    return [min(end, rows) for end in accumulate(range(1, groups + 1))]


# Each function returns the ends of `groups` groups, at least 2, for the number of rows and the rows of a tile.
SPLITS: Mapping[str, Callable[[int, int, int], list[int]]] = MappingProxyType(
    {
        "one group has all rows": lambda rows, tile, groups: [rows] * groups,
        "the first group is empty": lambda rows, tile, groups: [0] + [rows] * (groups - 1),
        "the last group is empty": lambda rows, tile, groups: [rows // 2] * (groups - 1) + [rows // 2],
        "all groups are empty": lambda rows, tile, groups: [0] * groups,
        "groups of few rows": _spread,
        "groups end with whole tiles": lambda rows, tile, groups: [min(tile * g, rows) for g in range(1, groups + 1)],
        "groups end 1 after a tile": lambda rows, tile, groups: [min(tile * g + 1, rows) for g in range(1, groups + 1)],
        "groups end 1 before a tile does": lambda rows, tile, groups: [
            max(0, min(tile * g - 1, rows)) for g in range(1, groups + 1)
        ],
        "groups end in the middle of a tile": lambda rows, tile, groups: [
            min(tile * g + tile // 2, rows) for g in range(groups)
        ],
        "ends decrease": lambda rows, tile, groups: [rows - g for g in range(groups)],
        "ends are negative": lambda rows, tile, groups: [_LEAST] * (groups - 1) + [rows // 2],
        "ends are beyond the rows": lambda rows, tile, groups: [rows // 2] + [MAX_EXTENT] * (groups - 1),
    }
)


def ends_of(split: str, rows: int, tile: int, groups: int) -> Ends:
    """The ends of a split by its name."""
    return tuple(SPLITS[split](rows, tile, groups))
