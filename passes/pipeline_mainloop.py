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
         Copies past K need no case of their own: windows clip, so they fill their slots with zeros.
Needs    level smem; the schedule's `stages` ≥ 2.
Refuses  a K loop of another form; a schedule of fewer than two stages.
Test     test/lit/passes/pipeline-mainloop.mlir, pipeline-mainloop-invalid.mlir
"""

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir
from mlir.dialects import arith, scf

from lowtide.dialects import sm, tile
from lowtide.dialects.levels import Level
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.kernels import kernels_of, main_loop, schedule_of
from lowtide.passes.rewriting import before, ceil_div, constant_of, defining_op, erase, index_constant, replace, uses
from lowtide.targets import Target


@dataclass(frozen=True)
class PipelineMainloop(Pass):
    """Software-pipelines the K loop of every kernel, in one role."""

    name: ClassVar[str] = "pipeline-mainloop"
    needs: ClassVar[Level] = Level.SMEM
    gives: ClassVar[Level] = Level.PIPELINED

    def run(self, module: ir.Module, target: Target) -> None:
        for kernel in kernels_of(module, roles=False):
            stages = schedule_of(kernel, "stages").stages
            for mma in walk(kernel, tile.MmaOp):
                if stages is None or stages < 2:
                    raise Refusal(kernel, f"schedule has stages = {stages}; a pipeline needs at least 2")
                loop = _StagedLoop.match(mma)
                with mma.operation.location:
                    _pipeline(kernel, loop, stages)


@dataclass(frozen=True)
class _StagedLoop:
    """The K loop as promote-operands-to-smem leaves it."""

    loop: scf.ForOp
    mma: tile.MmaOp
    copies: tuple[sm.CopyOp, sm.CopyOp]

    @classmethod
    def match(cls, mma: tile.MmaOp) -> "_StagedLoop":
        loop = main_loop(mma)
        copies = {}
        for op in loop.body.operations:
            if isinstance(op, sm.CopyOp):
                copies[hash(op.destination)] = op
            elif not isinstance(op, (tile.ViewOp, sm.BarrierOp, tile.MmaOp, scf.YieldOp)):
                raise Refusal(op, "is not part of a K loop as promote-operands-to-smem leaves it")
        if len(copies) != 2 or any(hash(operand) not in copies for operand in (mma.a, mma.b)):
            raise Refusal(
                mma, "needs both operands copied into shared memory in its loop; run promote-operands-to-smem"
            )
        carried, yielded = list(loop.inner_iter_args), list(loop.body.operations[-1].operands)
        if carried != [mma.acc] or yielded != [mma.result]:
            raise Refusal(loop, "must carry the accumulator of its tile.mma, and nothing else")
        if constant_of(loop.lowerBound) != 0:
            raise Refusal(loop, "must start at 0: its steps are counted from there")
        for copy in copies.values():
            buffer = copy.destination
            if not isinstance(defining_op(buffer), sm.AllocOp):
                raise Refusal(copy, "must fill a buffer of sm.alloc, which the ring replaces")
            if any(use not in (copy, mma) for use in uses(buffer)):
                raise Refusal(copy, "fills a buffer that is used outside its loop, so no ring can replace it")
        return cls(loop, mma, (copies[hash(mma.a)], copies[hash(mma.b)]))

    @property
    def tile_k(self) -> ir.Value:
        return self.loop.step


def _pipeline(kernel: tile.KernelOp, staged: _StagedLoop, stages: int) -> None:
    buffers = [copy.destination for copy in staged.copies]
    with ir.InsertionPoint.at_block_begin(kernel.body.blocks[0]):
        types = ", ".join(str(buffer.type) for buffer in buffers)
        ring = sm.RingOp(ir.Type.parse(f"!sm.ring<{stages} x [{types}]>")).result
    with before(staged.loop):
        write, write_phase = _emit_prologue(staged, ring, stages)
        result = _emit_main_loop(staged, ring, stages, write, write_phase)
        sm.ProducerTailOp(ring)
    replace(staged.loop, [result])
    for buffer in buffers:
        erase(buffer.owner.opview)


def _emit_prologue(staged: _StagedLoop, ring: ir.Value, stages: int) -> tuple[ir.Value, ir.Value]:
    """Fills all slots but one; gives the cursor of the next slot to fill."""
    zero, one = index_constant(0), index_constant(1)
    loop = scf.ForOp(zero, index_constant(stages - 1), one, [zero, zero])
    with ir.InsertionPoint(loop.body):
        write, phase = loop.inner_iter_args
        _emit_fill(staged, ring, loop.induction_variable, write, phase)
        advance = sm.RingAdvanceOp(ring, write, phase)
        scf.YieldOp([advance.next_index, advance.next_phase])
    return loop.results[0], loop.results[1]


def _emit_fill(staged: _StagedLoop, ring: ir.Value, step: ir.Value, write: ir.Value, phase: ir.Value) -> None:
    """Acquires a slot, starts the copies of K step `step` into it and commits."""
    acquire = sm.ProducerAcquireOp(ring, write, phase)
    k = arith.muli(step, staged.tile_k)
    for copy, buffer in zip(staged.copies, acquire.buffers, strict=True):
        view = copy.source.owner.opview
        offsets = [k if offset == staged.loop.induction_variable else offset for offset in view.offsets]
        window = tile.ViewOp(view.result.type, view.source, offsets, kind=view.kind).result
        sm.CopyAsyncOp(window, buffer)
    sm.ProducerCommitOp(ring, acquire.slot)


def _emit_main_loop(
    staged: _StagedLoop, ring: ir.Value, stages: int, write: ir.Value, write_phase: ir.Value
) -> ir.Value:
    """The loop over K steps; gives the accumulator."""
    zero, one = index_constant(0), index_constant(1)
    steps = ceil_div(staged.loop.upperBound, staged.tile_k)
    init = staged.loop.initArgs[0]
    loop = scf.ForOp(zero, steps, one, [init, zero, zero, write, write_phase])
    with ir.InsertionPoint(loop.body):
        acc, read, read_phase, fill, fill_phase = loop.inner_iter_args
        wait = sm.ConsumerWaitOp(ring, read, read_phase)
        ahead = arith.addi(loop.induction_variable, index_constant(stages - 1))
        _emit_fill(staged, ring, ahead, fill, fill_phase)
        a, b = wait.buffers
        product = tile.MmaOp(acc.type, staged.mma.layout, a, b, acc).result
        sm.ConsumerReleaseOp(ring, wait.slot)
        next_read = sm.RingAdvanceOp(ring, read, read_phase)
        next_fill = sm.RingAdvanceOp(ring, fill, fill_phase)
        scf.YieldOp([product, next_read.next_index, next_read.next_phase, next_fill.next_index, next_fill.next_phase])
    return loop.results[0]
