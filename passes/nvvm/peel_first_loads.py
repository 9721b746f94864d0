"""peel-first-loads: write out the loads of the first K steps of a CTA's first tile, without a loop and without waits.

Before   scf.for %tile = %first to %tiles step %ctas iter_args(%s = 0, %p = 0) {
           scf.for %k = %begin to %end step 1 iter_args(%slot = %s, %phase = %p) {
             nvvm.mbarrier.try_wait.parity %empty[%slot], %phase ^ 1
             nvvm.mbarrier.arrive.expect_tx %full[%slot]; nvvm.cp.async.bulk.tensor.shared.cluster.global … %k
             scf.yield (the next slot and its phase) } }
After    scf.for %tile = %first to %tiles step %ctas iter_args(%s = 0, %p = 0) {
           scf.if %tile == %first {
             %n = max(min(%end - %begin, %most), 0)
             scf.if 0 < %n { expect_tx %full[0]; cp.async.bulk.tensor … %begin
               scf.if 1 < %n { expect_tx %full[1]; cp.async.bulk.tensor … %begin + 1
                 … } }
             scf.for %k = %begin + %n to %end step 1 iter_args(%slot = %n, %phase = %p) { as before }
           } else { the loop, as before } }
         %most is 4, or the number of slots minus 1 if that is less. If %n is a constant, the next step folds the
         conditions. If at most 16 other steps are left, and their number is known, LLVM may not unroll the loop over
         them.
         A CTA of one tile has no loop over tiles, and no `scf.if %tile == %first`.
         The first loads of a kernel start late: their instructions are not in the cache yet and, in a loop, the
         address of the slot is computed first. This delay is a large part of the time of a short kernel. On an H200,
         20 kernels of up to 4 µs took 0.91 to 1.00 of the time that they take without this pass, 0.98 on average (with
         six steps; with four, kernels are as fast). Kernels of more than 8 µs took as long as without it.
Needs    a loop over K of a producer that is one thread, as convert-sm-to-nvvm leaves it: it waits for a slot, expects
         bytes and loads by TMA. The loop is directly in the outermost loop over tiles, or in no loop. Its slot and
         phase are 0 when the kernel starts. All slots are empty then, so the first loads need no waits. The pass leaves
         all other loops alone. It also leaves alone kernels in clusters, six of which took 0.98 to 1.04 of the time
         with it, and producers with fewer than 40 registers, which would spill.
Refuses  nothing.
Test     test/lit/passes/nvvm/peel-first-loads.mlir
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from mlir import ir
from mlir.dialects import arith, gpu, nvvm, scf

from lowtide.dialects.levels import Level
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.base import Pass, walk
from lowtide.passes.nvvm.thread.unrolling import keep_rolled
from lowtide.passes.support.ir.builder import Builder, constant_of
from lowtide.passes.support.ir.rewriting import before, copy_ops, defining_op, ops_in, replace
from lowtide.targets import Target

_LOWER_BOUND, _SLOT = 0, 3  # operands of the loop
# LLVM would unroll a loop over so few other steps completely. ptxas then computes the coordinates of all boxes ahead,
# and they do not fit in the registers of a producer. In kernels of up to 4 µs a rolled loop is as fast.
_FEW_STEPS = 16
_FEWEST_REGISTERS = 40  # of a producer. Beside three consumers it has fewer, and spilled.
_MOST_STEPS = 4  # With 6 or 8 steps, kernels are as fast. With all 12 steps of a ring, they are a little slower.


@dataclass(frozen=True)
class PeelFirstLoads(Pass):
    """Writes out the first loads of each producer."""

    name: ClassVar[str] = "peel-first-loads"
    needs: ClassVar[Level] = Level.NVVM
    gives: ClassVar[Level] = Level.NVVM

    def run(self, module: ir.Module, target: Target) -> bool:
        found = [
            (loop, most)
            for kernel in walk(module, gpu.GPUFuncOp)
            if (most := _most_steps(kernel)) > 0
            for loop in walk(kernel, scf.ForOp)
            if _fills_from_slot_0(loop)
        ]
        for loop, most in found:
            _peel(loop, most)
        return bool(found)


def _most_steps(kernel: gpu.GPUFuncOp) -> int:
    """The largest number of K steps that are written out in a kernel. 0 for a kernel in clusters, for one whose
    producer has few registers, and for one without a ring or a schedule, such as one that packs."""
    if "schedule" not in kernel.attributes:
        return 0
    schedule = Schedule.of(kernel.attributes["schedule"])
    has_few_registers = 0 < (schedule.agents.producer.registers or 0) < _FEWEST_REGISTERS
    if schedule.cluster != (1, 1) or has_few_registers:
        return 0
    # Fewer steps than slots: after as many, the loop would begin with slot 0 and the other phase.
    return min(_MOST_STEPS, (schedule.mainloop.stages or 1) - 1)


def _fills_from_slot_0(loop: scf.ForOp) -> bool:
    """Whether a loop waits for empty slots and fills them by TMA, and begins with slot 0 and phase 0 in the first
    tile."""
    ops = ops_in(loop.body)
    waits = [op for op in ops if isinstance(op, nvvm.MBarrierTryWaitParityOp)]
    loads = [op for op in ops if isinstance(op, nvvm.CpAsyncBulkTensorGlobalToSharedClusterOp)]
    carried = list(loop.inner_iter_args)
    if len(waits) != 1 or not loads or len(carried) != 2 or constant_of(loop.step) != 1:
        return False
    parity = defining_op(waits[0].phase)
    waits_for_empty = isinstance(parity, arith.XOrIOp) and parity.lhs == carried[1] and constant_of(parity.rhs) == 1
    return waits_for_empty and all(_begins_with_0(loop, init) for init in loop.initArgs)


def _begins_with_0(loop: scf.ForOp, init: ir.Value) -> bool:
    """Whether `init`, the first value of what a loop carries, is 0 in the first tile. If no loop is around this one,
    it is the constant 0. Otherwise the loop over tiles carries it, and begins with 0; the loop is directly in that
    one, and that one is outermost."""
    tiles = _loop_around(loop)
    if tiles is None:
        return constant_of(init) == 0
    is_direct = isinstance(tiles, scf.ForOp) and loop.operation.parent == tiles.operation
    if not is_direct or _loop_around(tiles) is not None:
        return False
    carried = dict(zip(tiles.inner_iter_args, tiles.initArgs, strict=True))
    return init in carried and constant_of(carried[init]) == 0


def _loop_around(op: ir.OpView) -> ir.OpView | None:
    """The innermost loop around an op, if any."""
    parent = op.operation.parent
    while parent is not None and not isinstance(parent.opview, (scf.ForOp, scf.WhileOp)):
        parent = parent.parent
    return None if parent is None else parent.opview


def _peel(loop: scf.ForOp, most: int) -> None:
    """Writes out at most `most` steps of the first tile. Other tiles keep the loop as it is."""
    tiles, build = _loop_around(loop), Builder(loop.induction_variable.type)
    with before(loop), loop.operation.location:
        if tiles is None:
            results = _first_tile(loop, build, most)
        else:
            is_first = build.eq(tiles.induction_variable, tiles.lowerBound)
            branch = scf.IfOp(is_first, [value.type for value in loop.results], has_else=True)
            with ir.InsertionPoint(branch.then_block):
                scf.YieldOp(_first_tile(loop, build, most))
            with ir.InsertionPoint(branch.else_block):
                scf.YieldOp(loop.operation.clone().results)
            results = list(branch.results)
    replace(loop, results)


def _first_tile(loop: scf.ForOp, build: Builder, most: int) -> list[ir.Value]:
    """Writes out the first steps of the first tile, at most `most`, and then a loop over its other steps. Returns the
    slot and the phase after them."""
    count = build.smax(build.smin(build.sub(loop.upperBound, loop.lowerBound), most), 0)
    _load(loop, build, count, range(most))
    begin = build.add(loop.lowerBound, count)
    rest = loop.operation.clone().opview
    rest.operation.operands[_LOWER_BOUND] = begin
    rest.operation.operands[_SLOT] = count
    others = constant_of(build.sub(loop.upperBound, begin))
    if others is not None and others <= _FEW_STEPS:
        keep_rolled(rest)
    return list(rest.results)


def _load(loop: scf.ForOp, build: Builder, count: ir.Value, steps: Sequence[int]) -> None:
    """Writes out those of the `steps`, in ascending order, that are less than `count`. Each step is in an `scf.if`,
    within that of the step before."""
    if not steps:
        return
    with ir.InsertionPoint(scf.IfOp(build.slt(steps[0], count)).then_block):
        _load_one(loop, build, steps[0])
        _load(loop, build, count, steps[1:])
        scf.YieldOp([])


def _load_one(loop: scf.ForOp, build: Builder, step: int) -> None:
    """Copies the body of the loop, without its wait, for one step of the first tile."""
    slot, phase = loop.inner_iter_args
    values = {
        loop.induction_variable: build.add(loop.lowerBound, step),
        slot: build.constant(step),
        phase: build.constant(0),
    }
    copy_ops([op for op in ops_in(loop.body) if not isinstance(op, nvvm.MBarrierTryWaitParityOp)], values)
