"""Choices for rows of A at an index: the fields that they require for any tile."""

from collections.abc import Mapping
from typing import Any

from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.schedules.rules.required import default_fields
from lowtide.passes.schedules.rules.taken_rows import WITH_TAKEN_ROWS
from lowtide.passes.support.problem.problem import Problem


def fields(given: Schedule, problem: Problem) -> Mapping[str, Any]:
    """By path, the values that taken rows require of fields that are not given; {} if rows are not taken."""
    if not problem.takes_rows:
        return {}
    return default_fields(WITH_TAKEN_ROWS, given)
