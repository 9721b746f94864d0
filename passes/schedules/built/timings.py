"""Checks the timing of loops, and the number of CTAs on an SM, against the schedules that the kernels carry.

From level `pipelined` on, loops have a timing (`sm.timing`). From level `nvvm` on, passes replace loops, and the
function has the timing of all its loops together.
"""

from collections.abc import Iterator

from mlir import ir
from mlir.dialects import scf

from lowtide.dialects import sm, tile
from lowtide.dialects.levels import LEVEL_ATTRIBUTE, Level, level_of
from lowtide.dialects.sm.timing import Timing
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.base import Refusal, walk
from lowtide.passes.schedules.built.kernel import AGAIN, BOTH, refusal
from lowtide.passes.schedules.facts.resources import work_loops
from lowtide.passes.schedules.facts.timing import timing_of
from lowtide.passes.support.ir.rewriting import ops_in
from lowtide.passes.support.problem.kernels import gemm_kernels, schedule_if_any, scheduled_kernels

_PRODUCTS = (tile.MmaOp, sm.MmaSyncOp, sm.WgmmaOp, sm.WgmmaPromoteOp)
_CTAS = ("ctas_per_sm", "nvvm.minctasm")  # the attribute before level nvvm, and from there on


def timing_mismatches(module: ir.Module) -> Iterator[Refusal]:
    """A refusal for each loop or function that differs from its kernel's schedule, at any level."""
    kernels = gemm_kernels(module)
    timed = LEVEL_ATTRIBUTE not in module.operation.attributes or level_of(module) >= Level.PIPELINED
    for kernel in kernels if timed else ():
        yield from _loops(kernel, schedule_if_any(kernel))
    tiled = {kernel.operation for kernel in kernels}
    for op in scheduled_kernels(module).values():
        schedule = Schedule.of(op.attributes["schedule"])
        yield from _ctas_per_sm(op, schedule)
        if op not in tiled:
            yield from _function(op, schedule)


def _loops(kernel: tile.KernelOp, schedule: Schedule) -> Iterator[Refusal]:
    """The loops of a kernel that multiply."""
    for loop in walk(kernel, scf.ForOp):
        product = next((op for op in ops_in(loop.body) if isinstance(op, _PRODUCTS)), None)
        if product is not None:
            rows = product.results[0].type
            shape = rows.fragment.shape if isinstance(rows, sm.PendingType) else rows.shape
            wanted = timing_of(schedule, shape[0])
            if Timing.of(loop) != wanted:
                yield _refused(loop, Timing.of(loop), wanted)


def _function(op: ir.Operation, schedule: Schedule) -> Iterator[Refusal]:
    """A kernel as one thread's program."""
    found = Timing.of(op)
    wanted = Timing.together(timing_of(schedule, shape[0]) for shape, _ in work_loops(schedule.grid))
    if found != wanted:
        yield _refused(op, found, wanted)
    for loop in walk(op, scf.ForOp):
        if Timing.together([found, Timing.of(loop)]) != found:
            yield _refused(loop, Timing.of(loop), found)


def _ctas_per_sm(op: ir.Operation, schedule: Schedule) -> Iterator[Refusal]:
    found = next((int(ir.IntegerAttr(op.attributes[name]).value) for name in _CTAS if name in op.attributes), 1)
    wanted = schedule.grid.ctas_per_sm or 1
    if found != wanted:
        yield refusal(op.opview, f"leaves room for {found} CTAs on an SM", f"grid.ctas_per_sm = {wanted}", BOTH)


def _refused(op: ir.Operation | ir.OpView, found: Timing, wanted: Timing) -> Refusal:
    built, scheduled = (str(timing) or "no timing of its own" for timing in (found, wanted))
    return refusal(op, f"has {built}", f"{scheduled}, by epilogue.start, unroll and promote", AGAIN)
