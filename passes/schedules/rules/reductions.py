"""Rules of reductions. Partial results are of whole tiles; threads that hold the same rows or columns reduce them."""

from collections.abc import Iterator

from lowtide.dialects.tile import EpilogueStart, StorePath, TailKind
from lowtide.dialects.tile.division import Adder
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import ScheduleError
from lowtide.passes.schedules.facts.resources import multiplying_threads
from lowtide.passes.support.agents.reductions import in_kernel, part_shape, slots_of
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target


def reductions(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """The partial results of each tile, and the fields that cut tiles."""
    kinds = dict.fromkeys(map(in_kernel, problem.reductions))
    if not kinds:
        return
    of_rows_alone = all(each.axis == "row" for each in problem.reductions) and not problem.lacks_d
    if problem.k_is_grouped or (problem.is_grouped and (problem.is_padded or not of_rows_alone)):
        yield (
            "groups of rows support reductions of rows beside a full result, and other groups none; reduce D in another"
            " kernel [reductions-of-groups]"
        )
        return
    if problem.lacks_d and schedule.epilogue.path is not StorePath.direct:
        yield (
            f"epilogue.path = {schedule.epilogue.path} without a full result: reductions do not use shared memory; "
            "take epilogue.path = direct [reduction-path]"
        )
        return
    division = schedule.k_division
    if division is not None and division.is_scattered:
        yield (
            f"k_division = {division} divides the columns of a tile, but a partial result of a reduction is of a whole "
            f"tile; take {division.added_by(Adder.first)} [reduction-scattered]"
        )
        return
    by_columns = any(each.axis == "column" for each in kinds)
    if schedule.grid.tail is TailKind.halves and by_columns and schedule.tile_mnk[0] // 2 % part_shape(schedule)[0]:
        yield (
            f"grid.tail = halves gives tiles of {schedule.tile_mnk[0] // 2} rows, but reductions of columns store a "
            f"partial result for each {part_shape(schedule)[0]} rows; take grid.tail = whole [reduction-tail]"
        )
        return
    if schedule.epilogue.start not in (None, EpilogueStart.all_sums):
        yield (
            f"epilogue.start = {schedule.epilogue.start} stores parts of a tile at different times, but a reduction is "
            "of all of them; take all_sums [reduction-start]"
        )
        return
    try:
        for kind in kinds:
            slots_of(schedule, problem, kind, multiplying_threads(schedule))
    except ScheduleError as error:
        yield str(error)
