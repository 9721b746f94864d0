"""The work of a kernel on one shape: the tiles of each CTA, and their steps of K, from its schedule alone.

The order of work is the interpreter's (`machine/work_order.py`), which no pass uses. The size of the grid follows the
host function's formula, and a test compares both with the execution.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from lowtide.dialects.tile import SchedulerKind, TailKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.interpreter.machine.clusters import clusters_at_a_time
from lowtide.interpreter.machine.work_order import WorkItem, WorkOrder
from lowtide.passes.schedules.facts.resources import ctas_per_sm, work_loops
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target


@dataclass(frozen=True)
class Work:
    """`rows` × `columns` tiles of `steps` steps of K in each of `matrices`, on `sms` SMs: the work items of each CTA,
    in order.

    `resident` is the largest number of CTAs that a persistent scheduler launches; with one CTA per tile, the number
    that run at a time. `shared` counts the CTAs that share each tile if K is divided.
    """

    rows: int
    columns: int
    steps: int
    sms: int
    resident: int
    items: tuple[tuple[WorkItem, ...], ...]
    matrices: int = 1

    @property
    def ctas(self) -> int:
        return len(self.items)

    @property
    def tiles(self) -> int:
        return self.rows * self.columns * self.matrices

    @property
    def lengths(self) -> set[int]:
        """Steps of each K loop."""
        return {item.end - item.begin for cta in self.items for item in cta}


def work_of(
    schedule: Schedule, problem: Problem, target: Target, tiles: tuple[int, int, int], sms: int, matrices: int = 1
) -> Work:
    """The work on `matrices` products. `tiles`: rows and columns of CTA tiles, and steps of K of each."""
    (work,) = works_of(schedule, problem, target, tiles, (sms,), matrices)
    return work


def works_of(
    schedule: Schedule,
    problem: Problem,
    target: Target,
    tiles: tuple[int, int, int],
    sms: Sequence[int],
    matrices: int = 1,
) -> list[Work]:
    """As `work_of`, for each number of SMs. Grids with the same number of CTAs have the same work items."""
    rows, columns, steps = tiles
    order = schedule.grid.order
    assert order is not None and schedule.grid.scheduler is not None
    loops = [
        WorkOrder(schedule.grid.scheduler, order.kind, order.rows, order.columns, part, schedule.k_division)
        for _, part in work_loops(schedule.grid)
    ]
    grids = [(rows, columns)] * matrices
    known: dict[int, tuple[tuple[WorkItem, ...], ...]] = {}
    works = []
    for number in sms:
        resident = _resident(schedule, problem, target, number)
        ctas = _grid(schedule, rows, columns, steps, resident, matrices)
        if ctas not in known:
            known[ctas] = tuple(
                tuple(
                    item for loop in loops for item in loop.items_of(cta, ctas, grids, max(steps, 1), schedule.cluster)
                )
                for cta in range(ctas)
            )
        works.append(Work(rows, columns, steps, number, resident, known[ctas], matrices))
    return works


def _resident(schedule: Schedule, problem: Problem, target: Target, sms: int) -> int:
    """CTAs that a launch keeps resident, in whole clusters."""
    if schedule.grid.scheduler is SchedulerKind.one_shot:
        return sms
    rows, columns = schedule.cluster
    if rows * columns > 1:
        return clusters_at_a_time(sms, (rows, columns)) * rows * columns
    division = schedule.k_division
    if division is not None and division.is_scattered:
        return sms * (schedule.grid.ctas_per_sm or 1)
    return sms * ctas_per_sm(schedule, problem, target)


def _grid(schedule: Schedule, rows: int, columns: int, steps: int, resident: int, matrices: int) -> int:
    """CTAs of the launch."""
    cluster = schedule.cluster[0] * schedule.cluster[1]
    work = ceil(rows / schedule.cluster[0]) * ceil(columns / schedule.cluster[1]) * matrices
    work *= 2 if schedule.grid.tail is TailKind.halves else 1
    division, at_once = schedule.k_division, resident // cluster
    if division is not None:
        parts = min(max(steps, 1), division.parts) if division.parts else max(steps, 1)
        work *= parts
        if division.parts and not division.is_of_tail:
            at_once = max(at_once // parts, 1) * parts
        elif division.is_scattered:
            at_once = max(at_once, parts)
    if schedule.grid.scheduler is SchedulerKind.one_shot:
        return work * cluster
    return min(work, at_once) * cluster
