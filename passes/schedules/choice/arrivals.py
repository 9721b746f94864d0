"""Choices for shards of A that arrive: the fields that they require for any tile."""

from collections.abc import Mapping
from typing import Any

from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.schedules.choice.packing import unpacked_stores
from lowtide.passes.schedules.rules.arrivals import WITH_ARRIVALS
from lowtide.passes.schedules.rules.required import default_fields
from lowtide.passes.support.problem.problem import Problem


def fields(given: Schedule, problem: Problem) -> Mapping[str, Any]:
    """By path, the values of fields that are not given, if shards of A arrive; {} otherwise. D is not packed: a launch
    that copies a packed D would also write elements that the kernel has not stored."""
    if not problem.has_arrivals:
        return {}
    return default_fields(WITH_ARRIVALS, given) | unpacked_stores(given, problem)
