"""Chooses a schedule for a problem, and estimates its time, without compiling it."""

from lowtide.compiler import driver
from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.problem_ir import problem_text, seen_by_passes
from lowtide.compiler.spec import GemmSpec
from lowtide.dialects.levels import Level
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.schedules.cost.cost import cost
from lowtide.targets import Target


def chosen(spec: GemmSpec, target: Target, fixed: Schedule | None = None) -> Schedule:
    """The schedule for `spec`, which keeps the fields of `fixed`. Raises ScheduleError."""
    lowered = driver.lower(problem_text(spec, target, fixed), target=target.name, until=Level.PROBLEM)
    with make_context() as context:
        found = Schedule.carried_by(parse_text(lowered.levels[str(Level.PROBLEM)], context, "<problem>"))
    assert found is not None  # choose-schedule has run
    return found


def chosen_cycles(spec: GemmSpec, target: Target) -> float:
    """The estimated cycles of the chosen kernel for `spec`, at the highest clock of the target. Raises
    ScheduleError."""
    return cost(chosen(spec, target), seen_by_passes(spec, target), target)
