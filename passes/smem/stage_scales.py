"""stage-scales: copy the scales of each K step to shared memory, beside A and B, if the schedule says so.

Before   sm.copy %at to %as; sm.copy %bt to %bs; sm.barrier
         %p = tile.mma tn %as, %bs, %zero;  sm.barrier
         %rows = tile.view row_scale %sa[%m, %k] : … to !tile.view<128x192xf32>
         %columns = tile.view column_block_scale %sb[%n, %k] : … to !tile.view<128x192xf32>
         %c2 = tile.promote %p into %c block_scaled(%rows, %columns)
After    %sas = sm.alloc : memref<1x128xf32>;  %sbs = sm.alloc : memref<2x16xf32>
         sm.copy %at to %as; sm.copy %bt to %bs
         sm.copy (tile.view %sa[%k / 128, %m] : … to !tile.view<1x128xf32>) to %sas
         sm.copy (tile.view %sb[%n / 128, %k / 2048 · 16] : … to !tile.view<2x16xf32>) to %sbs;  sm.barrier
         %p = tile.mma tn %as, %bs, %zero
         %rows = tile.view row_scale %sas[0, 0] : memref<1x128xf32> to !tile.view<128x192xf32>
         %columns = tile.view column_block_scale %sbs[%n mod 128, %k mod 2048] : … to !tile.view<128x192xf32>
         %c2 = tile.promote %p into %c block_scaled(%rows, %columns);  sm.barrier
         A tile may reach into several blocks of columns. A row of a box has 16 bytes at least, and begins at a multiple
         of 16, so that it holds the scales of more of K.
Needs    level smem, with `scales = staged` in the schedule; other kernels are left as they are.
Refuses  scales that are not windows of an argument at the K of the step; a product without a barrier before it.
Test     test/lit/passes/smem/stage-scales.mlir, stage-scales-invalid.mlir, test/interpreter/passes/test_smem_passes.py,
         test/interpreter/test_block_scales.py
"""

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir
from tensor_layouts import Layout

from lowtide.dialects import sm, tile
from lowtide.dialects.enums import operand_kind
from lowtide.dialects.levels import Level
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.support.buffers import buffer_type
from lowtide.passes.support.builder import Builder
from lowtide.passes.support.kernels import gemm_kernels, schedule_of
from lowtide.passes.support.operand_kinds import SCALES
from lowtide.passes.support.rewriting import before, defining_op, erase_if_unused, ops_in
from lowtide.passes.support.staged_scales import extent_of, stage_shape
from lowtide.targets import Target


@dataclass(frozen=True)
class StageScales(Pass):
    """Copies the windows of scales of every tile.promote into buffers of its kernel."""

    name: ClassVar[str] = "stage-scales"
    needs: ClassVar[Level] = Level.SMEM
    gives: ClassVar[Level] = Level.SMEM

    def run(self, module: ir.Module, target: Target) -> None:
        for kernel in gemm_kernels(module):
            if not schedule_of(kernel).stages_scales:
                continue
            for promote in walk(kernel, tile.PromoteOp):
                if promote.rows is not None:
                    with promote.operation.location:
                        _stage(kernel, promote)


def _stage(kernel: tile.KernelOp, promote: tile.PromoteOp) -> None:
    barrier, last = _barriers_around(promote)
    for position, window in enumerate(promote.operands):
        view = defining_op(window)
        if not isinstance(view, tile.ViewOp) or operand_kind(view) not in SCALES:
            continue
        if view.source not in list(kernel.body.blocks[0].arguments) or len(view.offsets) != 2:
            raise Refusal(
                promote,
                "a scale must be a window of a kernel argument; take one at the K of the step [staged-scales-window]",
            )
        promote.operation.operands[position] = _copied(kernel, promote, view, barrier)
        erase_if_unused(view)
    last.operation.move_after(promote.operation)


def _barriers_around(promote: tile.PromoteOp) -> tuple[sm.BarrierOp, sm.BarrierOp]:
    """The barriers before and after the product that is promoted: those of the copies of its operands."""
    product, here = defining_op(promote.partial), ops_in(promote.operation.block)
    place = here.index(product) if product in here else len(here)
    barriers = [[op for op in part if isinstance(op, sm.BarrierOp)] for part in (here[:place], here[place:])]
    if not isinstance(product, tile.MmaOp) or not all(barriers):
        raise Refusal(
            promote,
            "needs the copies of its product's operands before it; run promote-operands-to-smem [staged-scales-copies]",
        )
    return barriers[0][-1], barriers[1][0]


def _copied(kernel: tile.KernelOp, promote: tile.PromoteOp, view: tile.ViewOp, barrier: sm.BarrierOp) -> ir.Value:
    """A copy of the scales that a tile needs in this step, before the barrier; returns its window of them."""
    kind, (outer, k), build = operand_kind(view), view.offsets, Builder.index()
    scales, type_ = SCALES[kind], ir.MemRefType(view.source.type).element_type
    rows, columns = shape = stage_shape(kind, extent_of(kind, tuple(view.result.type.shape)))
    with ir.InsertionPoint.at_block_begin(kernel.body.blocks[0]):
        buffer = sm.AllocOp(buffer_type(shape, type_, Layout((rows, columns), (columns, 1)))).result
    with before(barrier):
        if scales.k_dim == 0:
            place = [build.udiv(k, scales.k_block), outer]
        else:
            place = [build.udiv(outer, scales.block), build.mul(build.udiv(k, scales.k_block * columns), columns)]
        sm.CopyOp(tile.ViewOp(tile.ViewType.get(shape, type_), view.source, place).result, buffer)
    with before(promote):
        if scales.k_dim == 0:
            within = [build.constant(0), build.constant(0)]
        else:
            within = [build.urem(outer, scales.block), build.urem(k, scales.k_block * columns)]
        return tile.ViewOp(view.result.type, buffer, within, kind=kind).result
