"""What is packed where it is not aligned: what TMA copies, and D of a kernel with roles, if rows may be of any length.

Where a matrix lies is known only at the launch. One that is aligned costs nothing by being packed if it is not. Rows
that are known to be whole units are aligned where they lie one behind the other: such a matrix is packed if asked for.
"""

from lowtide.dialects.tile import PackKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.errors import ScheduleError, TargetError
from lowtide.passes.schedules.alignment import MATRICES, PACK_FIELDS, WIDEST, moved_alignment
from lowtide.passes.support.atoms import TMA_RANKS
from lowtide.passes.support.problem import Problem, a_is_mk, b_is_nk


def follow(schedule: Schedule, problem: Problem) -> Schedule:
    """Decides what is packed."""
    packed = [name for name in MATRICES if _is_packed(name, schedule, problem)]
    return schedule.filled({PACK_FIELDS[name]: PackKind.rows for name in packed})


def reasons(schedule: Schedule, problem: Problem) -> dict[str, str]:
    """A sentence for each field."""
    return {
        PACK_FIELDS[
            name
        ]: f"taken {moved_alignment(name, schedule, problem)} bytes at a time: copied where it lies elsewhere"
        for name in MATRICES
        if _is_packed(name, schedule, problem)
    }


def _is_packed(name: str, schedule: Schedule, problem: Problem) -> bool:
    by_tma = schedule.consumers > 0 if name == "d" else schedule.mainloop.operand(name).copy in TMA_RANKS
    row = element_type(problem.d if name == "d" else problem.operand(name))
    columns, element = _columns(name, problem), row.bytes
    if (
        not row.in_registers
        or not by_tma
        or (name == "d" and problem.d_is_column_major)
        or (columns is not None and columns * element % WIDEST == 0)
    ):
        return False
    try:
        return moved_alignment(name, schedule, problem) > element
    except (ScheduleError, TargetError):  # of a schedule that the rules refuse
        return False


def _columns(name: str, problem: Problem) -> int | None:
    """The length of a row; None where it is known at the launch."""
    if name == "d":
        return problem.n
    if name == "a":
        return problem.k if a_is_mk(problem.layout) else problem.m
    return problem.k if b_is_nk(problem.layout) else problem.n
