"""Choices for lists of matrices: the fields that they require for any tile."""

from collections.abc import Mapping
from typing import Any

from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.schedules.rules.lists import taken_with_lists
from lowtide.passes.schedules.rules.required import default_fields
from lowtide.passes.support.problem.problem import Problem


def fields(given: Schedule, problem: Problem) -> Mapping[str, Any]:
    """By path, the values that lists require of fields that are not given; {} without lists."""
    return default_fields(taken_with_lists(problem), given)
