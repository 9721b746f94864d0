"""verify-schedule: hold every schedule against the target and the problem. Changes nothing.

Needs    a schedule on tile.gemm or, entering from a dump of a later level, on its tile.kernel.
Refuses  what breaks a rule: the rule, the limit, and the nearest legal value (schedule_rules.py); a kernel that was
         built for another schedule than the one it carries.
Test     test/lit/passes/verify-schedule.mlir, verify-schedule-invalid.mlir
"""

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from lowtide.dialects import sm, tile
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.kernels import problem_of, schedule_of
from lowtide.passes.problem import Problem
from lowtide.passes.schedule_rules import broken_rule
from lowtide.targets import Target


@dataclass(frozen=True)
class VerifySchedule(Pass):
    """Checks the schedule of every tile.gemm and tile.kernel."""

    name: ClassVar[str] = "verify-schedule"

    def run(self, module: ir.Module, target: Target) -> None:
        for gemm in walk(module, tile.GemmOp):
            message = broken_rule(schedule_of(gemm), Problem.of(gemm), target)
            if message is not None:
                raise Refusal(gemm, message)
        for kernel in walk(module, tile.KernelOp):
            schedule = schedule_of(kernel)
            message = broken_rule(schedule, problem_of(kernel), target)
            if message is not None:
                raise Refusal(kernel, message)
            _check_built_for(kernel, schedule)


def _check_built_for(kernel: tile.KernelOp, schedule: Schedule) -> None:
    """Refuse a kernel whose tiles or stages are not the schedule's: changing them takes more than the attribute."""
    assert schedule.cta is not None
    for work in walk(kernel, tile.WorkTilesOp):
        if tuple(work.tile) != schedule.cta[:2]:
            raise _built_for(work, f"cuts tiles of {list(work.tile)}", f"cta = {list(schedule.cta)}")
    for ring in walk(kernel, sm.RingOp):
        if ring.result.type.stages != schedule.stages:
            raise _built_for(ring, f"has {ring.result.type.stages} stages", f"stages = {schedule.stages}")


def _built_for(op: ir.OpView, built: str, scheduled: str) -> Refusal:
    return Refusal(op, f"{built}, but the kernel's schedule says {scheduled}; lower again from level problem with it")
