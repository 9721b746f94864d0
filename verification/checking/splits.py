"""Splits of rows into groups, and counts of rows of padded groups, with which `check` and tests run a kernel.

Each takes another path of the kernel.
"""

from collections.abc import Callable, Mapping
from itertools import accumulate
from types import MappingProxyType

from lowtide.runtime.limits import MAX_EXTENT

_LEAST = -(2**31)  # of an end
MANY = "more groups than lanes of a warp"
_MOST_GROUPS = 37  # of `MANY`, if the number of groups is known only at run time
Ends = tuple[int, ...]


def _spread(rows: int, tile: int, groups: int) -> list[int]:
    """Groups of 1, 2, 3, … rows, so that tiles begin and end at many rows, within the rows that there are."""
    return [min(end, rows) for end in accumulate(range(1, groups + 1))]


def _in_each_part(rows: int, tile: int, groups: int) -> list[int]:
    """Groups whose last tiles end in different parts of a tile, evenly apart."""
    sizes = [max(1, tile * (2 * group + 1) // (2 * groups)) for group in range(groups)]
    return [min(end, rows) for end in accumulate(sizes)]


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
        "groups end in each part of a tile": _in_each_part,
        "a group of several waves follows a row": lambda rows, tile, groups: [1] + [rows] * (groups - 1),
        "the last group ends before the last row": lambda rows, tile, groups: [
            max(0, rows - groups + group) for group in range(groups)
        ],
        MANY: lambda rows, tile, groups: [rows * (3 * group // groups) // 3 for group in range(1, groups + 1)],
        "ends decrease": lambda rows, tile, groups: [rows - g for g in range(groups)],
        "ends are negative": lambda rows, tile, groups: [_LEAST] * (groups - 1) + [rows // 2],
        "ends are beyond the rows": lambda rows, tile, groups: [rows // 2] + [MAX_EXTENT] * (groups - 1),
    }
)


# As above, for padded groups: each function returns how many of its `rows` rows count in each group.
COUNTS: Mapping[str, Callable[[int, int, int], list[int]]] = MappingProxyType(
    {
        "all rows of all groups count": lambda rows, tile, groups: [rows] * groups,
        "the first group is empty": lambda rows, tile, groups: [0] + [rows] * (groups - 1),
        "the last group is empty": lambda rows, tile, groups: [rows // 2] * (groups - 1) + [0],
        "all groups are empty": lambda rows, tile, groups: [0] * groups,
        "only one group has rows": lambda rows, tile, groups: [
            rows * (group == groups // 2) for group in range(groups)
        ],
        "groups of few rows": lambda rows, tile, groups: [min(group, rows) for group in range(1, groups + 1)],
        "groups end with whole tiles": lambda rows, tile, groups: [min(tile, rows)] * groups,
        "groups end 1 after a tile": lambda rows, tile, groups: [min(tile + 1, rows)] * groups,
        "groups end 1 before a tile does": lambda rows, tile, groups: [min(tile - 1, rows)] * groups,
        "groups end in the middle of a tile": lambda rows, tile, groups: [min(tile + tile // 2, rows)] * groups,
        "groups end in each part of a tile": lambda rows, tile, groups: [
            min(max(1, tile * (2 * group + 1) // (2 * groups)), rows) for group in range(groups)
        ],
        "a group of several waves follows a row": lambda rows, tile, groups: [1] + [rows] * (groups - 1),
        MANY: lambda rows, tile, groups: [min(7 * group % (tile + 1), rows) for group in range(groups)],
        "counts are negative": lambda rows, tile, groups: [_LEAST] * (groups - 1) + [rows // 2],
        "counts are beyond the rows": lambda rows, tile, groups: [rows // 2] + [MAX_EXTENT] * (groups - 1),
    }
)


def splits_for(*, padded: bool) -> Mapping[str, Callable[[int, int, int], list[int]]]:
    """The splits of groups, which may be padded. In the first, each row belongs to a group."""
    return COUNTS if padded else SPLITS


def ends_of(split: str, rows: int, tile: int, groups: int, *, padded: bool = False) -> Ends:
    """The ends of a split by its name; of padded groups the counts."""
    return tuple(splits_for(padded=padded)[split](rows, tile, groups))


def groups_of(split: str, groups: int | None, usual: int) -> int:
    """The number of groups for a split. `groups`: of the problem, None if it is known only at run time. `usual`: the
    number in this case, unless the split is about many groups."""
    if groups is not None:
        return groups
    return _MOST_GROUPS if split == MANY else usual
