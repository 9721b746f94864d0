"""How many stages the ring of a schedule has: as many as fit, within the limits of `cost/rings.py`."""

from lowtide.dialects.tile import StorePath
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.schedules.cost.described import fields_of, grid_of, product_of
from lowtide.passes.schedules.cost.grids import Grids
from lowtide.passes.schedules.cost.rings import FEWEST_OF_TWO, MOST_STAGES, most_stages, shares_pairs
from lowtide.passes.schedules.cost.traffic import ctas_of
from lowtide.passes.schedules.facts.resources import shared_memory_by_stages, threads_of
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target


def stages(schedule: Schedule, problem: Problem, target: Target) -> int:
    """As many stages as fit, at least two and at most `MOST_STAGES`. If TMA stores D, there may be more
    (`most_stages`), or fewer than fit, so that two CTAs fit on an SM."""
    most = max(2, fitting_stages(schedule, problem, target))
    division, consumer = schedule.k_division, schedule.agents.consumer
    by_tma = schedule.agents.has_producer and schedule.epilogue.path is StorePath.tma
    if most < MOST_STAGES or not by_tma or not (division is None or division.is_scattered):
        return most
    ctas = ctas_of(schedule, problem)
    deepest = most_stages(Grids.of([grid_of(fields_of(schedule), target)]), product_of(problem), target.sm_count)
    deep = fitting_stages(schedule, problem, target, int(deepest[0]))
    if not shares_pairs(ctas, target.sm_count) or consumer.all_warpgroups > 1 or schedule.cluster != (1, 1):
        return deep
    needed, threads = shared_memory_by_stages(schedule, problem), threads_of(schedule)
    of_two = (n for n in range(deep, FEWEST_OF_TWO - 1, -1) if target.ctas_per_sm(threads, needed(n)) >= 2)
    return next(of_two, deep)


def fitting_stages(schedule: Schedule, problem: Problem, target: Target, most: int = MOST_STAGES) -> int:
    """Stages that fit beside the epilogue's scratch, at most `most`."""
    needed = shared_memory_by_stages(schedule, problem)
    return next((n for n in range(most, 0, -1) if needed(n) <= target.smem_bytes_per_cta), 0)
