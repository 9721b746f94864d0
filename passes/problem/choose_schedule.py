"""choose-schedule: decide every field of the schedule. The other passes only read it.

Before   tile.gemm tn %a, %b into %d acc(f32) …
After    tile.gemm tn %a, %b into %d acc(f32) schedule(#tile.schedule<cta = [128, 128, 32], stages = 4, …>) …
Needs    level problem; products of pieces already split. Given fields are kept; the others (and `auto`) are decided.
         The module may name extents to choose for, and schedules to pass over (schedules/choice/asked.py).
Refuses  a problem for which no schedule with the given fields is legal on the target.
Test     test/lit/passes/problem/choose-schedule.mlir, choose-schedule-invalid.mlir
"""

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from lowtide.dialects import tile
from lowtide.dialects.levels import Level
from lowtide.errors import ScheduleError
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.schedules.choice.asked import choice_for
from lowtide.targets import Target


@dataclass(frozen=True)
class ChooseSchedule(Pass):
    """Completes the schedule on every tile.gemm."""

    name: ClassVar[str] = "choose-schedule"
    needs: ClassVar[Level] = Level.PROBLEM
    gives: ClassVar[Level] = Level.PROBLEM

    def run(self, module: ir.Module, target: Target) -> None:
        for gemm in walk(module, tile.GemmOp):
            try:
                choice = choice_for(gemm, module, target)
            except ScheduleError as error:
                raise Refusal(gemm, str(error)) from error
            gemm.attributes["schedule"] = choice.schedule.attribute()
