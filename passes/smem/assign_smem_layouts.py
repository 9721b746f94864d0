"""assign-smem-layouts: lay out each operand's buffer by the schedule: swizzle, transposition, padding, panels for TMA.

Before   %as = sm.alloc : memref<128x32xbf16, #tile.layout<(128,32):(32,1)>, workgroup>
After    %as = sm.alloc : memref<128x32xbf16, #tile.layout<(128,32):(32,1), swizzle<2,3,3>>, workgroup>
         Where a producer fills the stages, as TMA does, rows wider than the swizzle are split into
         consecutive panels: 128x128 with swizzle<3,3,3> is (128,(64,2)):(64,(1,8192)).
         With stage = transposed, rows are contiguous; padding parts them: with 4 elements 128x8 is (128,8):(1,132).
Needs    level smem, and a schedule with `a.swizzle` and `b.swizzle`, which choose-schedule picks by counting bank
         conflicts.
Refuses  a schedule without them; an mma whose buffers are not of sm.alloc; rows that panels do not divide.
Test     test/lit/passes/smem/assign-smem-layouts.mlir, assign-smem-layouts-invalid.mlir
"""

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from lowtide.dialects import sm, tile
from lowtide.dialects.levels import Level
from lowtide.dialects.tile import StageOrder
from lowtide.dialects.tile.layouts import SwizzleBits, layout_attr
from lowtide.dialects.tile.schedule_parts import Operand
from lowtide.errors import ScheduleError
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.support.agents.atoms import stage_layout
from lowtide.passes.support.ir.rewriting import before, defining_op, replace
from lowtide.passes.support.problem.kernels import gemm_kernels, is_direct, schedule_of
from lowtide.passes.support.streams.panels import panel_layout
from lowtide.targets import Target


@dataclass(frozen=True)
class AssignSmemLayouts(Pass):
    """Swizzles the buffers that feed each tile.mma."""

    name: ClassVar[str] = "assign-smem-layouts"
    needs: ClassVar[Level] = Level.SMEM
    gives: ClassVar[Level] = Level.SMEM

    def run(self, module: ir.Module, target: Target) -> None:
        for kernel in gemm_kernels(module):
            if is_direct(kernel):
                continue
            schedule = schedule_of(kernel, "mainloop.a.swizzle", "mainloop.b.swizzle")
            swizzles = schedule.mainloop.a.swizzle, schedule.mainloop.b.swizzle
            for mma in walk(kernel, tile.MmaOp):
                for name, buffer, swizzle in zip("AB", (mma.a, mma.b), swizzles, strict=True):
                    alloc = defining_op(buffer)
                    if not isinstance(alloc, sm.AllocOp):
                        raise Refusal(
                            mma,
                            f"operand {name} does not come from sm.alloc; run promote-operands-to-smem"
                            " [layout-of-alloc]",
                        )
                    if swizzle is not None:
                        operand = schedule.mainloop.operand(name.lower())
                        _lay_out(alloc, operand, swizzle, schedule.agents.has_producer)


def _lay_out(alloc: sm.AllocOp, operand: Operand, swizzle: SwizzleBits, in_panels: bool) -> None:
    old = ir.MemRefType(alloc.result.type)
    layout = stage_layout((old.shape[0], old.shape[1]), operand.stage is StageOrder.transposed, operand.padding or 0)
    if in_panels:
        try:
            layout = panel_layout((old.shape[0], old.shape[1]), swizzle)
        except ScheduleError as error:
            raise Refusal(alloc, str(error)) from error
    new = ir.MemRefType.get(old.shape, old.element_type, layout_attr(layout, swizzle), old.memory_space)
    with before(alloc), alloc.operation.location:
        replace(alloc, [sm.AllocOp(new).result])
