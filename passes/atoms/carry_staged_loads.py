"""carry-staged-loads: load what copies through registers store one K step ahead, in fragments that the loop carries.

Before   scf.for %i = 0 to %n iter_args(%c, …) {
           %full, %a, %b = sm.consumer_wait %ring[%r, %rp]
           %empty, %ea, %eb = sm.producer_acquire %ring[%w, %wp]
           %at = tile.view %A[%m, (%i + 2) * 32]
           %f = sm.load_global %at; sm.store_shared %f to %ea
           sm.producer_commit %ring, %empty
           the loads of fragments and the mma }
After    %f0 = sm.load_global of K step 2
         scf.for %i = 0 to %n iter_args(%c, …, %f = %f0) {
           %full, %a, %b = sm.consumer_wait %ring[%r, %rp]
           %empty, %ea, %eb = sm.producer_acquire %ring[%w, %wp]
           sm.store_shared %f to %ea
           sm.producer_commit %ring, %empty
           %next = sm.load_global of K step %i + 3
           the loads of fragments and the mma
           scf.yield …, %next }
         so that a load has the time of one K step, in which its registers stay occupied. Before the main loop copies
         are left as they are. The load of the last round is past the end of K: it reads nothing.
Needs    level atoms: loops in which a slot is waited for and another filled.
Refuses  a load whose window depends on what its loop computes otherwise than by its induction variable.
Test     test/lit/passes/atoms/carry-staged-loads.mlir, carry-staged-loads-invalid.mlir
"""

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir
from mlir.dialects import arith, scf

from lowtide.dialects import sm, tile
from lowtide.dialects.levels import Level
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.support.ir.rewriting import after, before, carry_more, computing, copy_ops, erase_if_unused, ops_in
from lowtide.targets import Target


@dataclass(frozen=True)
class CarryStagedLoads(Pass):
    """Rotates the loads of copies through registers by one round of the main loop."""

    name: ClassVar[str] = "carry-staged-loads"
    needs: ClassVar[Level] = Level.ATOMS
    gives: ClassVar[Level] = Level.ATOMS

    def run(self, module: ir.Module, target: Target) -> None:
        for kernel in walk(module, tile.KernelOp):
            for loop in walk(kernel, scf.ForOp):
                if any(isinstance(op, sm.ConsumerWaitOp) for op in loop.body.operations):
                    with loop.operation.location:
                        _carry(loop)


def _carry(loop: scf.ForOp) -> None:
    """Carries the fragments of the loop's copies, if it has any."""
    loads = [op for op in ops_in(loop.body) if isinstance(op, sm.LoadGlobalOp) and _is_stored(op)]
    if not loads:
        return
    needed = [computing([load.result], loop) for load in loads]
    for load, ops in zip(loads, needed, strict=True):
        if any(operand in loop.inner_iter_args for op in ops for operand in op.operands):
            raise Refusal(
                load,
                "loads a window that depends on values carried by the loop, so it cannot be loaded ahead [load-ahead]",
            )
    last = [op for op in ops_in(loop.body) if isinstance(op, sm.ProducerCommitOp)][-1]
    with before(loop):
        first = [_at(load, loop, loop.lowerBound) for load in loads]
    with after(last):
        step = arith.addi(loop.induction_variable, loop.step)
        following = [_at(load, loop, step) for load in loads]

    def arguments(fragments: list[ir.Value]) -> None:
        for load, fragment in zip(loads, fragments, strict=True):
            load.result.replace_all_uses_with(fragment)

    carry_more(loop, first, arguments, lambda yielded: following)
    for ops in needed:
        for op in reversed(ops):
            erase_if_unused(op)


def _is_stored(load: sm.LoadGlobalOp) -> bool:
    return any(isinstance(use.owner.operation.opview, sm.StoreSharedOp) for use in load.result.uses)


def _at(load: sm.LoadGlobalOp, loop: scf.ForOp, variable: ir.Value) -> ir.Value:
    """The load of the round in which the induction variable is `variable`: a copy of the ops that compute it."""
    values = {loop.induction_variable: variable}
    copy_ops(computing([load.result], loop), values)
    return values[load.result]
