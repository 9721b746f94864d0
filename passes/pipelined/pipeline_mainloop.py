"""pipeline-mainloop: turn the two buffers of the K loop into a ring of stages, with copies running ahead.

Before   scf.for %k = 0 to %K step 32 iter_args(%c) {
           sm.copy %at to %as; sm.copy %bt to %bs; sm.barrier
           %c2 = tile.mma tn %as, %bs, %c; sm.barrier }
After    %ring = sm.ring : !sm.ring<3 x [A, B]>                       (once, at the kernel's start)
         scf.for %s = 0 to 2 iter_args(%w, %wp) { acquire; copy_async ×2; commit; advance }        (prologue)
         scf.for %i = 0 to ceildiv(%K, 32) iter_args(%c, %r, %rp, %w, %wp) {
           %full, %a, %b = sm.consumer_wait %ring[%r, %rp]
           acquire %ring[%w, %wp]; copy_async of the K step %i + 2; commit
           %c2 = tile.mma tn %a, %b, %c
           sm.consumer_release %ring, %full; advance both }
         sm.producer_tail %ring
         Copies past K need no special case: windows clip, so they fill their slots with zeros.
Needs    level smem; the schedule's `stages` ≥ 2.
Refuses  a K loop of another form; a schedule of fewer than two stages.
Test     test/lit/passes/pipelined/pipeline-mainloop.mlir, pipeline-mainloop-invalid.mlir
"""

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir
from mlir.dialects import scf

from lowtide.dialects import sm, tile
from lowtide.dialects.levels import Level
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.pipelined.staged_loop import StagedLoop
from lowtide.passes.support.builder import Builder
from lowtide.passes.support.kernels import is_direct, kernels_of, schedule_of
from lowtide.passes.support.rewriting import before, erase, replace
from lowtide.targets import Target


@dataclass(frozen=True)
class PipelineMainloop(Pass):
    """Software-pipelines the K loop of every kernel, in one role."""

    name: ClassVar[str] = "pipeline-mainloop"
    needs: ClassVar[Level] = Level.SMEM
    gives: ClassVar[Level] = Level.PIPELINED

    def run(self, module: ir.Module, target: Target) -> None:
        for kernel in kernels_of(module, roles=False):
            if is_direct(kernel):
                continue
            stages = schedule_of(kernel, "mainloop.stages").mainloop.stages
            for mma in walk(kernel, tile.MmaOp):
                if stages is None or stages < 2:
                    raise Refusal(kernel, f"schedule has stages = {stages}; a pipeline needs at least 2")
                loop = StagedLoop.match(mma)
                with mma.operation.location:
                    _pipeline(kernel, loop, stages)


def _pipeline(kernel: tile.KernelOp, staged: StagedLoop, stages: int) -> None:
    buffers = staged.buffers
    with ir.InsertionPoint.at_block_begin(kernel.body.blocks[0]):
        ring = staged.make_ring(stages)
    with before(staged.loop):
        write, write_phase = _emit_prologue(staged, ring, stages)
        result = _emit_main_loop(staged, ring, stages, write, write_phase)
        sm.ProducerTailOp(ring)
    replace(staged.loop, [result])
    for buffer in buffers:
        erase(buffer.owner.opview)


def _emit_prologue(staged: StagedLoop, ring: ir.Value, stages: int) -> tuple[ir.Value, ir.Value]:
    """Fills all slots but one; returns the cursor of the next slot to fill."""
    build = Builder.index()
    zero, one = build.constant(0), build.constant(1)
    loop = scf.ForOp(zero, build.constant(stages - 1), one, [zero, zero])
    with ir.InsertionPoint(loop.body):
        write, phase = loop.inner_iter_args
        _emit_fill(staged, ring, loop.induction_variable, write, phase)
        advance = sm.RingAdvanceOp(ring, write, phase)
        scf.YieldOp([advance.next_index, advance.next_phase])
    return loop.results[0], loop.results[1]


def _emit_fill(staged: StagedLoop, ring: ir.Value, step: ir.Value, write: ir.Value, phase: ir.Value) -> None:
    """Acquires a slot, starts the copies of K step `step` into it and commits."""
    acquire = sm.ProducerAcquireOp(ring, write, phase)
    staged.fill(acquire, {staged.loop.induction_variable: staged.place(step)})


def _emit_main_loop(
    staged: StagedLoop, ring: ir.Value, stages: int, write: ir.Value, write_phase: ir.Value
) -> ir.Value:
    """The loop over K steps; returns the accumulator."""
    build = Builder.index()
    zero, one = build.constant(0), build.constant(1)
    steps = staged.steps()
    init = staged.loop.initArgs[0]
    loop = scf.ForOp(zero, steps, one, [init, zero, zero, write, write_phase])
    with ir.InsertionPoint(loop.body):
        acc, read, read_phase, fill, fill_phase = loop.inner_iter_args
        wait = sm.ConsumerWaitOp(ring, read, read_phase)
        ahead = build.add(loop.induction_variable, stages - 1)
        _emit_fill(staged, ring, ahead, fill, fill_phase)
        a, b = wait.buffers
        product = tile.MmaOp(acc.type, staged.mma.layout, a, b, acc).result
        sm.ConsumerReleaseOp(ring, wait.slot)
        next_read = sm.RingAdvanceOp(ring, read, read_phase)
        next_fill = sm.RingAdvanceOp(ring, fill, fill_phase)
        scf.YieldOp([product, next_read.next_index, next_read.next_phase, next_fill.next_index, next_fill.next_phase])
    return loop.results[0]
