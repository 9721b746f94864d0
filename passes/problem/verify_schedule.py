"""verify-schedule: check every schedule against the target and the problem. Changes nothing.

Needs    a schedule on tile.gemm or, entering from a dump of a later level, on its tile.kernel.
Refuses  a schedule that breaks a rule, with the rule, the limit, and the nearest legal value (schedules/rules); a
         kernel that was lowered for another schedule than the one it carries (schedules/built).
Test     test/lit/passes/problem/verify-schedule.mlir and, for each kind of refusal, verify-schedule-…-invalid.mlir
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from lowtide.dialects import tile
from lowtide.errors import ScheduleError
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.schedules.built.kernel import mismatches
from lowtide.passes.schedules.built.launches import launch_mismatches
from lowtide.passes.schedules.built.timings import timing_mismatches
from lowtide.passes.schedules.rules.rules import broken_rule
from lowtide.passes.support.problem.kernels import gemm_kernels, problem_of, schedule_of
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target


@dataclass(frozen=True)
class VerifySchedule(Pass):
    """Checks the schedule of every tile.gemm and tile.kernel."""

    name: ClassVar[str] = "verify-schedule"

    def run(self, module: ir.Module, target: Target) -> bool:
        for gemm in walk(module, tile.GemmOp):
            _hold(gemm, Problem.of(gemm), target)
        for kernel in gemm_kernels(module):
            problem = problem_of(kernel)
            _hold(kernel, problem, target)
            _refuse_first(mismatches(kernel, schedule_of(kernel), problem))
        _refuse_first(timing_mismatches(module))
        _refuse_first(launch_mismatches(module))
        return False


def _hold(op: tile.GemmOp | tile.KernelOp, problem: Problem, target: Target) -> None:
    """Refuse, as a ScheduleError, a schedule that breaks a rule of the target or of the problem."""
    message = broken_rule(schedule_of(op), problem, target)
    if message is not None:
        raise Refusal(op, message) from ScheduleError(message)


def _refuse_first(refusals: Iterator[Refusal]) -> None:
    for refusal in refusals:
        raise refusal
