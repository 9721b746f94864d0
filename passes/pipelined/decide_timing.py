"""decide-timing: write when each loop over K issues its copies, its stores and the reads of its slots.

Before   scf.for %k = %c0 to %c256 step %c64 … { …; tile.mma tn %as, %bs, %c; … }
After    scf.for %k = %c0 to %c256 step %c64 … { …; tile.mma tn %as, %bs, %c; … }
           {sm.timing = #sm.timing<stores = next_tile, copies = spread, steps = unrolled>}
         The schedule has epilogue.path = direct, epilogue.start = next_tile and mainloop.unroll = full. Passes that
         replace the loop keep its timing. Those that move ops (store-first-rows, overlap-promotion, spread-copies,
         overlap-stores) and convert-sm-to-nvvm read it there, and no schedule.
Needs    level smem; the schedule's epilogue.start, mainloop.unroll and multiply.promote. If a tile has one block of
         rows for each warpgroup, it has no first rows.
Refuses  nothing.
Test     test/lit/passes/pipelined/decide-timing.mlir
"""

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir
from mlir.dialects import scf

from lowtide.dialects import tile
from lowtide.dialects.levels import Level
from lowtide.passes.base import Pass, walk
from lowtide.passes.schedules.facts.timing import timing_of
from lowtide.passes.support.ir.rewriting import ops_in
from lowtide.passes.support.problem.kernels import gemm_kernels, schedule_if_any
from lowtide.targets import Target


@dataclass(frozen=True)
class DecideTiming(Pass):
    """Writes `sm.timing` on the loops that multiply."""

    name: ClassVar[str] = "decide-timing"
    needs: ClassVar[Level] = Level.SMEM
    gives: ClassVar[Level] = Level.PIPELINED

    def run(self, module: ir.Module, target: Target) -> None:
        for kernel in gemm_kernels(module):
            schedule = schedule_if_any(kernel)
            for loop in walk(kernel, scf.ForOp):
                for mma in (op for op in ops_in(loop.body) if isinstance(op, tile.MmaOp)):
                    timing_of(schedule, rows=mma.result.type.shape[0]).write(loop)
