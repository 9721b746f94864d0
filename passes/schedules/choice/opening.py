"""Opens a schedule that was found for known extents to a kernel that serves others: without fields that rules refuse.

No list names these fields: optional fields are left out one by one, as long as a rule is broken.
"""

from lowtide.dialects.tile import OperandsKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.schedules.rules.rules import OPTIONAL, broken_rule
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target


def opened(schedule: Schedule, problem: Problem, target: Target) -> Schedule:
    """The schedule without the optional fields that are refused. If a rule is still broken then, it is unchanged."""
    own = problem.swap() if schedule.grid.operands is OperandsKind.swapped else problem
    found, broken = schedule, broken_rule(schedule, own, target)
    while broken is not None:
        fewer = [found.set({path: None}) for path in OPTIONAL if found.get(path) is not None]
        results = [(broken_rule(each, own, target), each) for each in fewer]
        better = [entry for entry in results if entry[0] != broken]
        if not better:
            return schedule
        broken, found = next((entry for entry in better if entry[0] is None), better[0])
    return found
