"""Choices for shards of A that arrive: the fields that they require for any tile."""

from collections.abc import Mapping
from typing import Any

from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.schedules.choice.packing import unpacked_stores
from lowtide.passes.schedules.rules.arrivals import WITH_ARRIVALS
from lowtide.passes.schedules.rules.required import default_fields
from lowtide.passes.support.problem.problem import Problem


def fields(given: Schedule, problem: Problem) -> Mapping[str, Any]:
    """By path, the values that shards which arrive require of fields that are not given; {} if A is there. D is not
    packed, because what is not stored must not be written."""
    return default_fields(WITH_ARRIVALS, given) | unpacked_stores(given, problem) if problem.has_arrivals else {}
