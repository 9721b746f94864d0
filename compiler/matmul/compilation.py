"""Compiles the kernel of a class of shapes: its schedule is chosen for the class's extents, which are run-time values.

This module needs MLIR; `kernels.py` imports it only if a kernel is neither in memory nor on disk.
"""

from collections.abc import Callable
from typing import Any

from lowtide import targets
from lowtide.compiler import attempts, driver
from lowtide.compiler.driver import Lowered
from lowtide.compiler.kernel import CompiledKernel
from lowtide.compiler.matmul.shape_class import ShapeClass
from lowtide.compiler.numerics import confirm, confirm_equal, promise, summation_in
from lowtide.compiler.problem_ir import problem_text, seen_by_passes
from lowtide.dialects.levels import Level
from lowtide.dialects.tile import PackKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import CompileError, ScheduleError, before_code
from lowtide.passes.schedules.choice.opening import opened
from lowtide.passes.schedules.facts.alignment import PACK_FIELDS

Epilogue = Callable[..., Any]


def compile_class(of: ShapeClass, epilogue: Epilogue | None) -> CompiledKernel:
    """The kernel of a class. Raises as `compile_gemm` does, and ScheduleError if no schedule keeps the promise of
    `numerics`."""
    order = None if of.reference is None else _order_of(of.reference, epilogue)
    examples = [of] if of.reference is None else [of, of.reference]
    refusals: list[ScheduleError | CompileError] = []
    for example in examples:
        problem = _problem(of, epilogue, example)
        try:
            return CompiledKernel(attempts.compile_ir(problem, target=of.target, check=promise(of.numerics, order)))
        except (ScheduleError, CompileError) as error:
            refusals.append(error)
    way_out = "" if order is None else "; pass aligned operands, or numerics='repeatable'"
    raise type(refusals[0])(before_code(f"{of}: {refusals[0]}", way_out))


def compile_tuned(of: ShapeClass, epilogue: Epilogue | None, schedule: str, keeps_bits: bool) -> CompiledKernel:
    """The kernel of a class with a tuned schedule for its extents. Raises as `compile_gemm` does, and ScheduleError if
    the schedule breaks the promise of the class's numerics. With `keeps_bits` that includes adding in another order
    than the chosen schedule."""
    spec, target = of.spec(epilogue), targets.get(of.target)
    tuned = opened(Schedule.parse(schedule), seen_by_passes(spec, target), target)
    tuned = tuned.filled(dict.fromkeys(PACK_FIELDS.values(), PackKind.none))  # tuned classes are aligned
    lowered = driver.lower(problem_text(spec, target, tuned), target=of.target)
    summation = summation_in(lowered)
    confirm(summation, of.numerics)
    if keeps_bits:
        confirm_equal(str(summation), _order_of(of.reference or of, epilogue))
    return CompiledKernel(lowered)


def _problem(of: ShapeClass, epilogue: Epilogue | None, example: ShapeClass) -> str:
    """The problem of a class, with the extents of `example` for the choice of a schedule."""
    given = Schedule.parse(of.given) if of.given else None
    return problem_text(of.spec(epilogue), targets.get(of.target), given, example.extents)


def _order_of(of: ShapeClass, epilogue: Epilogue | None) -> str:
    """The order of sums of a class, without compiling it to PTX."""
    lowered: Lowered = driver.lower(_problem(of, epilogue, of), target=of.target, until=Level.ATOMS)
    return str(summation_in(lowered))
