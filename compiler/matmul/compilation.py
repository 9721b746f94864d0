"""A kernel for a class of shapes: its schedule is chosen for the class's extents, its extents are run-time arguments.

This needs MLIR; `kernels.py` imports it when a kernel is neither in memory nor on disk.
"""

from lowtide import targets
from lowtide.compiler import driver
from lowtide.compiler.contexts import make_context, parse_text
from lowtide.compiler.kernel import CompiledKernel
from lowtide.compiler.problem_ir import problem_text
from lowtide.compiler.spec import GemmSpec
from lowtide.dialects.levels import Level
from lowtide.dialects.tile import PackKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import ScheduleError
from lowtide.passes.schedules.alignment import PACK_FIELDS
from lowtide.targets import Target


def compile_class(spec: GemmSpec, example: GemmSpec, target: str, given: str) -> CompiledKernel:
    """The kernel of `spec`, by the schedule of `example`; `given` are the fields that are fixed, as text.

    Raises what `compile_gemm` raises.
    """
    settled = targets.get(target)
    fixed = Schedule.parse(given) if given else Schedule()
    try:
        # With open extents packing would be chosen, but what the class does not fix is aligned.
        schedule = chosen(example, settled, fixed).filled(dict.fromkeys(PACK_FIELDS.values(), PackKind.none))
        return CompiledKernel(driver.compile_ir(problem_text(spec, settled, schedule), target=target))
    except ScheduleError:  # what was chosen for these extents is not legal for all
        return CompiledKernel(driver.compile_ir(problem_text(spec, settled, fixed), target=target))


def chosen(spec: GemmSpec, target: Target, fixed: Schedule | None = None) -> Schedule:
    """The schedule that is chosen for a problem. Raises ScheduleError."""
    lowered = driver.lower(problem_text(spec, target, fixed), target=target.name, until=Level.PROBLEM)
    with make_context() as context:
        found = Schedule.carried_by(parse_text(lowered.levels[str(Level.PROBLEM)], context, "<problem>"))
    assert found is not None  # choose-schedule has run
    return found
