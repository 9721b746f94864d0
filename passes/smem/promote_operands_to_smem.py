"""promote-operands-to-smem: stage the A and B tile of each K step in shared memory.

Before   %c2 = tile.mma tn %at, %bt, %c : !tile.view<…>, !tile.view<…>, !tile.tile<…>
After    %as = sm.alloc : memref<128x32xbf16, #tile.layout<(128,32):(32,1)>, workgroup>   (once, at the kernel's start)
         sm.copy %at to %as; sm.copy %bt to %bs; sm.barrier
         %c2 = tile.mma tn %as, %bs, %c
         sm.barrier
Needs    level cta. The layout is still row-major: assign-smem-layouts comes next. A kernel whose schedule loads A and B
         from global memory (ld.global.…) is left as it is, here and by the passes up to level atoms.
Refuses  a tile.mma whose operands are not windows of global memory.
Test     test/lit/passes/smem/promote-operands-to-smem.mlir, promote-operands-to-smem-invalid.mlir
"""

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir
from tensor_layouts import Layout

from lowtide.dialects import sm, tile
from lowtide.dialects.levels import Level
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.support.buffers import buffer_type
from lowtide.passes.support.kernels import gemm_kernels, is_direct
from lowtide.passes.support.rewriting import after, before
from lowtide.targets import Target


@dataclass(frozen=True)
class PromoteOperandsToSmem(Pass):
    """Copies both operands of every tile.mma into buffers of its kernel."""

    name: ClassVar[str] = "promote-operands-to-smem"
    needs: ClassVar[Level] = Level.CTA
    gives: ClassVar[Level] = Level.SMEM

    def run(self, module: ir.Module, target: Target) -> None:
        for kernel in gemm_kernels(module):
            if is_direct(kernel):
                continue
            for mma in walk(kernel, tile.MmaOp):
                with mma.operation.location:
                    _promote(kernel, mma)


def _promote(kernel: tile.KernelOp, mma: tile.MmaOp) -> None:
    for position, operand in enumerate((mma.a, mma.b)):
        if not isinstance(operand.type, tile.ViewType):
            raise Refusal(
                mma, f"operand {'AB'[position]} is {operand.type}, not a window of global memory [promoted-window]"
            )
    for position, view in enumerate((mma.a, mma.b)):
        with ir.InsertionPoint.at_block_begin(kernel.body.blocks[0]):
            buffer = sm.AllocOp(_row_major(view.type)).result
        with before(mma):
            sm.CopyOp(view, buffer)
        mma.operation.operands[position] = buffer
    with before(mma):
        sm.BarrierOp()
    with after(mma):
        sm.BarrierOp()


def _row_major(view: tile.ViewType) -> ir.MemRefType:
    rows, columns = view.shape
    return buffer_type((rows, columns), view.element_type, Layout((rows, columns), (columns, 1)))
