"""verify-schedule: hold every schedule against the target and the problem. Changes nothing.

Needs    a complete schedule, on tile.gemm or (entering from a dump) on the kernel.
Refuses  what breaks a rule: the rule, the limit, and the nearest legal value (schedule_rules.py).
Test     test/lit/passes/verify-schedule-invalid.mlir
"""

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from lowtide.dialects import tile
from lowtide.dialects.levels import Level
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.problem import Problem
from lowtide.passes.schedule_rules import broken_rule
from lowtide.targets import Target


@dataclass(frozen=True)
class VerifySchedule(Pass):
    """Checks the schedule of every tile.gemm."""

    name: ClassVar[str] = "verify-schedule"
    needs: ClassVar[Level] = Level.PROBLEM
    gives: ClassVar[Level] = Level.PROBLEM

    def run(self, module: ir.Module, target: Target) -> None:
        for gemm in walk(module, tile.GemmOp):
            if gemm.schedule is None:
                raise Refusal(gemm, "has no schedule; run choose-schedule first, or write one")
            message = broken_rule(Schedule.of(gemm.schedule), Problem.of(gemm), target)
            if message is not None:
                raise Refusal(gemm, message)
