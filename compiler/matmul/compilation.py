"""Compiles the kernels of `lt.matmul`. All their extents are run-time values.

This module and `planning.py` need MLIR: `kernels.py` imports them only if a plan or a kernel is neither in memory nor
on disk.
"""

from collections.abc import Callable
from typing import Any

from lowtide import targets
from lowtide.compiler import attempts, driver
from lowtide.compiler.chosen import chosen
from lowtide.compiler.compile import Request, compile_for
from lowtide.compiler.kernel import CompiledKernel
from lowtide.compiler.matmul.estimates import planned as fixed_of
from lowtide.compiler.matmul.family import Family
from lowtide.compiler.numerics import confirm, confirm_equal, summation_in
from lowtide.compiler.problem_ir import problem_text, seen_by_passes
from lowtide.compiler.ptxas import BadCode
from lowtide.compiler.spec import GemmSpec
from lowtide.dialects.levels import Level
from lowtide.dialects.tile import OperandsKind, PackKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import ScheduleError
from lowtide.passes.schedules.choice.opening import opened
from lowtide.passes.schedules.facts.alignment import PACK_FIELDS
from lowtide.passes.schedules.rules.rules import broken_rule

Epilogue = Callable[..., Any]
REFUSALS = (ScheduleError, BadCode)
"""The errors of schedules that have no good kernel; another schedule may have one."""


def compile_planned(spec: GemmSpec, target: str, schedule: str) -> CompiledKernel:
    """The kernel of a schedule from a plan. Fields that the plan leaves open are chosen; if the code spills, they are
    chosen again. Raises as `compile_gemm` does, one of `REFUSALS` if there is no good code for the schedule."""
    given = Schedule.parse(schedule)
    return CompiledKernel(attempts.compile_ir(problem_text(spec, targets.get(target), given), target=target))


def compile_alone(of: Family, m: int, epilogue: Epilogue | None, device: str | None) -> CompiledKernel:
    """The kernel of `compile_gemm` for one M. `device`: the model of GPU whose tuned schedules may be used. Raises as
    `compile_gemm` does."""
    request = Request(of.example(epilogue, m), targets.get(of.target), of.given or None, of.numerics)
    return compile_for(request, device or "")


def compile_tuned(of: Family, epilogue: Epilogue | None, schedule: str, planned: str | None) -> CompiledKernel:
    """The kernel of a tuned schedule. Raises as `compile_gemm` does, and ScheduleError if the schedule breaks the
    promise of the family's numerics, or sums in another order than the `planned` schedule."""
    spec, target = of.spec(epilogue), targets.get(of.target)
    tuned = opened(Schedule.parse(schedule), seen_by_passes(spec, target), target)
    tuned = tuned.filled(dict.fromkeys(PACK_FIELDS.values(), PackKind.none))  # tuned matrices are aligned
    lowered = driver.lower(problem_text(spec, target, tuned), target=of.target)
    summation = summation_in(lowered)
    confirm(summation, of.numerics)
    if planned is not None:
        text = problem_text(spec, target, Schedule.parse(planned))
        confirm_equal(str(summation), str(summation_in(driver.lower(text, target=of.target, until=Level.ATOMS))))
    return CompiledKernel(lowered)


def chosen_alone(of: Family, m: int, epilogue: Epilogue | None, planned: str) -> tuple[str, str]:
    """The fields in which the schedule for one shape alone differs from a planned one, as text, and the rule that
    forbids that schedule for run-time extents. Each is "" if there is none."""
    target, given = targets.get(of.target), Schedule.parse(of.given) if of.given else None
    own = chosen(of.example(epilogue, m), target, given)
    problem = seen_by_passes(of.spec(epilogue), target)
    broken = broken_rule(own, problem.swap() if own.grid.operands is OperandsKind.swapped else problem, target)
    theirs, kept = own.texts(), Schedule.parse(planned).texts()
    first_rows = {path: text for path, text in theirs.items() if path == "epilogue.start"}
    differing = {path: text for path, text in fixed_of(own).texts().items() if kept.get(path) != text} | first_rows
    return ", ".join(f"{path} = {text}" for path, text in differing.items()), broken or ""
