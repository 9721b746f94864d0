"""Problems for sm_90a, and the schedules that are chosen for them."""

from lowtide.dialects.tile import GemmLayout, OperandKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.schedules.choice.choice import choose
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import get

SM_90A = get("sm_90a")
Size = tuple[int | None, int | None, int | None]


def problem(
    *size: int | None, layout: GemmLayout = GemmLayout.tn, d: str = "bf16", kinds: tuple[OperandKind, ...] = ()
) -> Problem:
    """One extent for all three, or M, N, K."""
    m, n, k = size if len(size) == 3 else size * 3
    return Problem(m, n, k, "bf16", "bf16", "f32", d, layout, kinds, (d,) * len(kinds))


def chosen(of: Problem, fields: str = "") -> Schedule:
    return choose(of, SM_90A, Schedule.parse(fields)).schedule


LARGE = problem(4096)


def assert_kept(schedule: Schedule, fields: str) -> None:
    """What was given is in the schedule as it was given."""
    given = Schedule.parse(fields).decided()
    assert given
    assert {path: schedule.get(path) for path in given} == given
