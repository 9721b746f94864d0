"""A kernel for a class of shapes: its schedule is chosen for the class's extents, its extents are run-time arguments.

This needs MLIR; `kernels.py` imports it when a kernel is neither in memory nor on disk.
"""

from collections.abc import Callable, Iterator
from typing import Any

from lowtide import targets
from lowtide.compiler import driver
from lowtide.compiler.chosen import chosen
from lowtide.compiler.driver import Lowered
from lowtide.compiler.kernel import CompiledKernel
from lowtide.compiler.matmul.shape_class import ShapeClass
from lowtide.compiler.numerics import confirm, confirm_equal, summation_in
from lowtide.compiler.problem_ir import problem_text
from lowtide.dialects.levels import Level
from lowtide.dialects.tile import PackKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import CompileError, ScheduleError
from lowtide.passes.schedules.alignment import PACK_FIELDS

Epilogue = Callable[..., Any]

_LEAST_COLUMNS = 16  # of a part of the epilogue


def compile_class(of: ShapeClass, epilogue: Epilogue | None) -> CompiledKernel:
    """The kernel of a class. Raises what `compile_gemm` raises; ScheduleError also where no schedule that is known
    keeps what `numerics` promises; CompileError also where each of them spills."""
    wanted = None if of.reference is None else _order_of(of.reference, epilogue)
    refusal: ScheduleError | CompileError
    refusal = ScheduleError(f"{of}: no schedule is legal for all extents; compile a spec with fixed ones")
    for schedule in _schedules(of, epilogue):
        try:
            lowered = _lowered(of, epilogue, schedule)
            summation = summation_in(lowered)
            confirm(summation, of.numerics)
            if wanted is None or str(summation) == wanted:
                return _assembled(CompiledKernel(lowered))
        except (ScheduleError, CompileError) as error:
            # What was chosen for these extents may not be legal for all, or spill where all are run-time arguments.
            refusal = error
            continue
        refusal = ScheduleError(
            f"{of}: sums would be in the order {summation}, those of other rows are in {wanted}; pass aligned operands,"
            " or numerics='repeatable'"
        )
    raise refusal


def compile_tuned(of: ShapeClass, epilogue: Epilogue | None, schedule: str, keeps_bits: bool) -> CompiledKernel:
    """The kernel of a class with a schedule that tuning found for its extents. Raises what `compile_gemm` raises;
    ScheduleError also for a schedule that breaks the promise of the class's numerics, or, where it was to keep the
    bits, does not sum as the chosen one does."""
    lowered = _lowered(of, epilogue, _without_packing(Schedule.parse(schedule)))
    summation = summation_in(lowered)
    confirm(summation, of.numerics)
    if keeps_bits:
        confirm_equal(str(summation), _order_of(of.reference or of, epilogue))
    return CompiledKernel(lowered)


def _assembled(kernel: CompiledKernel) -> CompiledKernel:
    """The kernel, once its machine code is known to be good; where there is no ptxas nothing is known."""
    _ = kernel.assembly
    return kernel


def _schedules(of: ShapeClass, epilogue: Epilogue | None) -> Iterator[Schedule]:
    """That of the class's extents, that of its reference, each also with narrower parts in its epilogue, which need
    fewer registers, and what is chosen for open extents."""
    fixed = _fixed(of)
    for example in (of, of.reference):
        if example is not None:
            schedule = _chosen(example, epilogue, fixed)
            yield schedule
            yield from _narrower(schedule)
    yield fixed


def _narrower(schedule: Schedule) -> Iterator[Schedule]:
    part = schedule.epilogue.tile
    if part is not None and part[1] > _LEAST_COLUMNS:
        halved = {"epilogue.tile": (part[0], part[1] // 2), "epilogue.swizzle": None, "epilogue.buffers": None}
        yield schedule.set(halved)


def _chosen(of: ShapeClass, epilogue: Epilogue | None, fixed: Schedule) -> Schedule:
    return _without_packing(chosen(of.example(epilogue), targets.get(of.target), fixed))


def _without_packing(schedule: Schedule) -> Schedule:
    """With open extents packing would be chosen, but what the class does not fix is aligned."""
    return schedule.filled(dict.fromkeys(PACK_FIELDS.values(), PackKind.none))


def _fixed(of: ShapeClass) -> Schedule:
    return Schedule.parse(of.given) if of.given else Schedule()


def _lowered(of: ShapeClass, epilogue: Epilogue | None, schedule: Schedule, until: Level = Level.PTX) -> Lowered:
    problem = problem_text(of.spec(epilogue), targets.get(of.target), schedule)
    return driver.lower(problem, target=of.target, until=until)


def _order_of(of: ShapeClass, epilogue: Epilogue | None) -> str:
    """The order of sums of a class, without compiling it to the end."""
    return str(summation_in(_lowered(of, epilogue, _chosen(of, epilogue, _fixed(of)), Level.ATOMS)))
