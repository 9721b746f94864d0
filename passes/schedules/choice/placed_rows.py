"""Choices for rows of D at an index: the fields that they require for any tile."""

from collections.abc import Mapping
from typing import Any

from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.schedules.choice.packing import unpacked_stores
from lowtide.passes.schedules.rules.placed_rows import WITH_PLACED_ROWS
from lowtide.passes.schedules.rules.required import default_fields
from lowtide.passes.support.problem.problem import Problem


def fields(given: Schedule, problem: Problem) -> Mapping[str, Any]:
    """By path, the values that placed rows require of fields that are not given; {} if D is stored in order."""
    return default_fields(WITH_PLACED_ROWS, given) | unpacked_stores(given, problem) if problem.places_rows else {}
