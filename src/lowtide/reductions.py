"""Reductions of a product's values: the words of their kinds, as tables that all folders share.

A kind's word has two parts: the part of the product that each element is computed from (`row`, `column` or `all`), and
the operation. `row_sum` has an element for each row. `row_value` is the value in one column of each row; a target gives
the columns. `column_value` is the same for the transposed product."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

AXES = ("row", "column", "all")
OPERATIONS = ("sum", "max", "min", "logsumexp")
VALUE, LOGSUMEXP = "value", "logsumexp"
REDUCED_TYPE = "f32"  # of the elements of a reduction


class Reduction(NamedTuple):
    """The part of the product that an element is computed from, and the operation."""

    axis: str
    operation: str

    @property
    def dims(self) -> str:
        """The extents of the result: m, n, or none for one element."""
        return {"row": "m", "column": "n"}.get(self.axis, "")

    @property
    def word(self) -> str:
        """The word of the kind."""
        return f"{self.axis}_{self.operation}"

    @property
    def swapped(self) -> Reduction:
        """The reduction of the transposed product that has the same elements."""
        return Reduction({"row": "column", "column": "row"}.get(self.axis, self.axis), self.operation)

    @property
    def is_pair(self) -> bool:
        """Whether a partial result is a maximum and a sum."""
        return self.operation == LOGSUMEXP


REDUCTIONS: Mapping[str, Reduction] = MappingProxyType(
    {
        each.word: each
        for each in (
            *(Reduction(axis, operation) for axis in AXES for operation in OPERATIONS),
            *(Reduction(axis, VALUE) for axis in AXES[:2]),
        )
    }
)

#: The reduction of no values. The sum of a logsumexp's pair is then 0.
OF_NOTHING: Mapping[str, float] = MappingProxyType(
    {"sum": 0.0, "max": -math.inf, "min": math.inf, "logsumexp": -math.inf, "value": 0.0}
)
