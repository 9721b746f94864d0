"""What follows from a candidate: the other fields, part by part, and swizzles by their conflicts."""

from lowtide.dialects.tile import StorePath
from lowtide.dialects.tile.layouts import NO_SWIZZLE
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.schedules.choice import epilogue, grid, mainloop, multiply, packing
from lowtide.passes.schedules.choice.stages import stages
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import SwizzleChoice, Target

SWIZZLES = ("mainloop.a.swizzle", "mainloop.b.swizzle", "epilogue.swizzle")


def follow(schedule: Schedule, problem: Problem, target: Target) -> Schedule:
    """The fields that follow from the tile and the agents, except swizzles, which are chosen by their conflicts."""
    return follow_mainloop(follow_agents(schedule, problem, target), problem, target)


def follow_agents(schedule: Schedule, problem: Problem, target: Target) -> Schedule:
    """The first part of `follow`: the fields of the multiply and of the mainloop, except stages, and the path of D."""
    schedule = schedule.filled(mainloop.scales(schedule, problem))
    schedule = schedule.filled(multiply.follow(schedule, problem, target))
    schedule = epilogue.path_and_math(schedule, problem)
    return schedule.filled(mainloop.follow(schedule, problem, target))


def follow_mainloop(schedule: Schedule, problem: Problem, target: Target) -> Schedule:
    """The rest of `follow`. With a producer, stages come after the epilogue, because its scratch is beside them.
    Without one, the candidate sets them. The CTAs per SM come last."""
    schedule = schedule.filled(grid.follow(schedule, problem, target))
    schedule = epilogue.parts(schedule, problem, target)
    schedule = packing.follow(schedule, problem)
    if schedule.mainloop.stages is None and not schedule.is_direct:
        schedule = schedule.set({"mainloop.stages": stages(schedule, problem, target)})
    return schedule.filled(grid.ctas(schedule, problem, target))


def with_swizzles(schedule: Schedule, problem: Problem) -> tuple[Schedule, dict[str, SwizzleChoice]]:
    """Resolves open swizzles by counting the conflicts of the accesses that the atoms at hand make."""
    if schedule.epilogue.path is StorePath.direct:
        schedule = schedule.filled({"epilogue.swizzle": NO_SWIZZLE})
    choices: dict[str, SwizzleChoice] = {}
    for name in mainloop.OPERANDS:
        path = f"mainloop.{name}.swizzle"
        if schedule.mainloop.operand(name).padding:  # in the place of a swizzle
            schedule = schedule.filled({path: NO_SWIZZLE})
        elif schedule.get(path) is None and not schedule.is_direct:
            choices[path] = mainloop.stage_swizzle(name, schedule, problem)
    if schedule.epilogue.swizzle is None:
        choices["epilogue.swizzle"] = epilogue.scratch_swizzle(schedule, problem)
    return schedule.set({path: choice.swizzle for path, choice in choices.items()}), choices
