"""Makes the plan of one shape: the schedule that the choice takes for it alone, and the next ones in its order.

The plan of a family (`planning.py`) has few schedules for all M, so some M take one that is not the best for them. A
caller that repeats one shape, such as a compiled graph with known sizes, pays for a kernel of its own once. Making this
plan takes a tenth of the time that the plan of a family takes.
"""

from collections.abc import Callable
from itertools import islice
from typing import Any

from lowtide import targets
from lowtide.compiler.matmul.estimates import planned
from lowtide.compiler.matmul.family import Family
from lowtide.compiler.matmul.planning import MOST_ROWS, order_of_sums
from lowtide.compiler.matmul.schedule_plan import Intervals, SchedulePlan
from lowtide.compiler.problem_ir import seen_by_passes
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import ScheduleError
from lowtide.passes.schedules.choice.choice import ranked

_MOST_SCHEDULES = 4  # a later one is taken if the kernel of the first cannot be made
_SCANNED = 64  # ranked schedules that are looked at


def make_plan_alone(family: Family, m: int, epilogue: Callable[..., Any] | None) -> SchedulePlan:
    """Raises ScheduleError if no schedule is legal, or none has the order of sums that the numerics ask for."""
    target = targets.get(family.target)
    given = Schedule.parse(family.given) if family.given else Schedule()
    whole = seen_by_passes(family.spec(epilogue), target)
    order, sums = order_of_sums(family, epilogue, whole, target)
    choices = ranked(whole.expecting({"m": max(1, m), **family.extents}), target, given)
    accepted = (each.schedule for each in islice(choices, _SCANNED) if sums.accepts(each.schedule))
    found = tuple(dict.fromkeys(planned(each).shorthand() for each in islice(accepted, _MOST_SCHEDULES)))
    if not found:
        raise ScheduleError(
            f"{family}: no schedule sums in the order {order}; pass aligned operands, or numerics='repeatable'"
            " [plan-order]"
        )
    numbers = range(len(found))
    others = tuple(tuple(other for other in numbers if other != number) for number in numbers)
    return SchedulePlan(found, (Intervals((MOST_ROWS,), (0,)),), 1, others, order, 0.0, 0.0)
