"""promote-operands-to-smem: stage what each K step reads, A, B and the scales of blocks, in shared memory.

Before   %c2 = tile.mma tn %at, %bt, %c : !tile.view<…>, !tile.view<…>, !tile.tile<…>
After    %as = sm.alloc : memref<128x32xbf16, #tile.layout<(128,32):(32,1)>, workgroup>   (once, at the kernel's start)
         sm.copy %at to %as; sm.copy %bt to %bs; sm.barrier
         %c2 = tile.mma tn %as, %bs, %c
         sm.barrier
         With mainloop.scales = staged, scales are copied beside A and B, in boxes as TMA copies them:
Before   %p = tile.mma tn %at, %bt, %zero
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
         A tile may reach into several blocks of columns. A row of a box may hold the scales of more of K. In groups of
         rows a tile begins at any row; its box of row_scale begins at %m / 4 · 4, and the window at %m mod 4.
Needs    level cta. The layout is still row-major: assign-smem-layouts comes next. A kernel whose schedule loads A and B
         from global memory (ld.global.…) is left as it is, here and by the passes up to level atoms.
Refuses  a tile.mma whose operands are not windows of global memory; scales that are not windows of an argument.
Test     test/lit/passes/smem/promote-operands-to-smem.mlir, promote-operands-to-smem-{scales,invalid}.mlir,
         test/interpreter/passes/test_smem_passes.py, test/interpreter/test_block_scales.py
"""

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir
from mlir.dialects import memref
from tensor_layouts import Layout

from lowtide.dialects import sm, tile
from lowtide.dialects.enums import operand_kind
from lowtide.dialects.levels import Level
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.support.ir.builder import Builder
from lowtide.passes.support.ir.rewriting import after, before, defining_op, erase_if_unused, uses
from lowtide.passes.support.problem.kernels import gemm_kernels, is_direct, schedule_if_any, work_tiles_around
from lowtide.passes.support.problem.operand_kinds import SCALES
from lowtide.passes.support.streams.buffers import buffer_type
from lowtide.targets import Target


@dataclass(frozen=True)
class PromoteOperandsToSmem(Pass):
    """Copies the operands of every tile.mma, and scales that the schedule stages, into buffers of its kernel."""

    name: ClassVar[str] = "promote-operands-to-smem"
    needs: ClassVar[Level] = Level.CTA
    gives: ClassVar[Level] = Level.SMEM

    def run(self, module: ir.Module, target: Target) -> None:
        for kernel in gemm_kernels(module):
            if is_direct(kernel):
                continue
            schedule = schedule_if_any(kernel)
            for mma in walk(kernel, tile.MmaOp):
                with mma.operation.location:
                    last: ir.OpView = mma
                    _promote(kernel, mma)
                    if schedule.stages_scales:
                        last = _stage_scales(kernel, mma, schedule.mainloop.k or 1)
                    with before(mma):
                        sm.BarrierOp()
                    with after(last):
                        sm.BarrierOp()


def _promote(kernel: tile.KernelOp, mma: tile.MmaOp) -> None:
    for position, operand in enumerate((mma.a, mma.b)):
        if not isinstance(operand.type, tile.ViewType):
            raise Refusal(
                mma, f"operand {'AB'[position]} is {operand.type}, not a window of global memory [promoted-window]"
            )
    for position, view in enumerate((mma.a, mma.b)):
        mma.operation.operands[position] = _copied(kernel, mma, view)


def _stage_scales(kernel: tile.KernelOp, mma: tile.MmaOp, k: int) -> ir.OpView:
    """Copies the scales of the step too; returns the op behind which nothing reads the buffers."""
    promote = next((op for op in uses(mma.result) if isinstance(op, tile.PromoteOp)), None)
    if promote is None:
        return mma
    for position, window in enumerate(promote.operands):
        view = defining_op(window)
        if not isinstance(view, tile.ViewOp) or operand_kind(view) not in SCALES:
            continue
        if _source(view)[0] not in list(kernel.body.blocks[0].arguments):
            raise Refusal(
                promote,
                "a scale must be a window of a kernel argument; take one at the K of the step [staged-scales-window]",
            )
        scales = SCALES[operand_kind(view)]
        work = work_tiles_around(mma)
        anywhere = scales.of_rows and work is not None and work.ends is not None and work.batches is None
        box = scales.box((*window.type.shape, k), anywhere=anywhere)
        promote.operation.operands[position] = _window((kernel, mma, promote), view, box, anywhere=anywhere)
        part = defining_op(view.source)
        erase_if_unused(view)
        if isinstance(part, memref.SubViewOp):
            erase_if_unused(part)
    return promote


def _source(view: tile.ViewOp) -> tuple[ir.Value, list[ir.Value]]:
    """The argument that a window of scales lies in, since TMA copies from arguments. If it is a batch, also the number
    of the window's matrix."""
    part = defining_op(view.source)
    return (part.source, list(part.offsets)) if isinstance(part, memref.SubViewOp) else (view.source, [])


def _window(
    place_of: tuple[tile.KernelOp, tile.MmaOp, tile.PromoteOp],
    view: tile.ViewOp,
    box: tuple[int, int],
    *,
    anywhere: bool,
) -> ir.Value:
    """The window of scales, of a copy of the box in which it lies. `place_of`: the kernel, the product and its
    promotion. `anywhere`: the window begins at any row, and the box at the multiple of 16 bytes before."""
    (kernel, mma, promote), scales, (outer, k) = place_of, SCALES[operand_kind(view)], view.offsets
    build = Builder.index()
    type_, of_row = tile.ViewType.get(box, ir.MemRefType(view.source.type).element_type), scales.k * box[1]
    with before(mma), view.operation.location:
        if scales.k_is_last:
            place = [build.udiv(outer, scales.rows), build.mul(build.udiv(k, of_row), box[1])]
        else:
            first = build.mul(build.udiv(outer, scales.together), scales.together) if anywhere else outer
            place = [build.udiv(k, scales.k), first]
        source, number = _source(view)
        buffer = _copied(kernel, mma, tile.ViewOp(type_, source, [*number, *place]).result)
    with before(promote), view.operation.location:
        if scales.k_is_last:
            within = [build.urem(outer, scales.rows), build.urem(k, of_row)]
        else:
            within = [build.urem(outer, scales.together) if anywhere else build.constant(0), build.constant(0)]
        return tile.ViewOp(view.result.type, buffer, within, kind=view.kind).result


def _copied(kernel: tile.KernelOp, mma: tile.MmaOp, view: ir.Value) -> ir.Value:
    """A buffer with a copy of the window, which comes before the product. The origin of both is the window."""
    shape = tuple(view.type.shape)
    type_ = buffer_type(shape, view.type.element_type, Layout(shape, (shape[1], 1)))
    with ir.InsertionPoint.at_block_begin(kernel.body.blocks[0]), view.location:
        buffer = sm.AllocOp(type_).result
    with before(mma), view.location:
        sm.CopyOp(view, buffer)
    return buffer
