"""Choices for groups of rows: the fields that groups require for any tile, and the problem that is estimated."""

from collections.abc import Mapping
from dataclasses import replace
from math import ceil
from typing import Any

from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.schedules.choice.packing import unpacked_stores
from lowtide.passes.schedules.rules.groups import taken_with_groups
from lowtide.passes.schedules.rules.required import default_fields
from lowtide.passes.support.problem.problem import Problem


def expected(problem: Problem) -> Problem:
    """The problem that is estimated: a product for each group, with an even share of the rows or of K. The problem
    itself if it has no groups, if they are padded, or if the number of groups, of rows or of K is known only at run
    time."""
    if problem.k_is_grouped:
        if problem.k is None or problem.batch is None:
            return replace(problem, k=None)
        share = max(1, ceil(problem.k / problem.batch))
        return replace(problem, k=share, expected=problem.expected | {"k"})
    if problem.is_padded or problem.groups is None or problem.m is None:
        return problem
    extents = {"m": ceil(problem.m / problem.groups), "batch": problem.groups}
    return replace(problem, **extents, expected=problem.expected | {*extents})  # type: ignore[arg-type]


def fields(given: Schedule, problem: Problem) -> Mapping[str, Any]:
    """The values of open fields that groups require, by path; none without groups. With groups of rows D is not packed,
    because rows after the last group must not be written."""
    found = default_fields(taken_with_groups(problem), given)
    return found | unpacked_stores(given, problem) if problem.is_grouped else found
