"""Choices for pairs of columns: the fields that they require for any tile."""

from collections.abc import Mapping
from typing import Any

from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.schedules.rules.pairs import WITH_PAIRS
from lowtide.passes.schedules.rules.required import default_fields
from lowtide.passes.support.problem.problem import Problem


def fields(given: Schedule, problem: Problem) -> Mapping[str, Any]:
    """The values of open fields that pairs require, by path; none for one accumulator."""
    if problem.pairs is None:
        return {}
    return default_fields(WITH_PAIRS, given)
