"""spread-copies: issue the copies of a later K step one by one, each behind the fragment loads of a k-slice.

Before   scf.for … {
           nvvm.cp.async.wait.group 6; nvvm.barrier0
           nvvm.cp.async.shared.global …; nvvm.cp.async.shared.global …; nvvm.cp.async.commit.group
           nvvm.ldmatrix …; nvvm.mma.sync …; nvvm.ldmatrix …; nvvm.mma.sync … }        (two k-slices)
After    scf.for … {
           nvvm.cp.async.wait.group 6; nvvm.barrier0
           nvvm.ldmatrix …; nvvm.cp.async.shared.global …; nvvm.mma.sync …
           nvvm.ldmatrix …; nvvm.cp.async.shared.global …; nvvm.cp.async.commit.group; nvvm.mma.sync … }
         The memory pipeline takes a warp's instructions in order. Copies that come all at once, at the head of a K
         step, hold up the fragments of its first products; nothing waits for the copies themselves until a later step.
         They stay behind the same wait, and write a slot that no fragment of the step is read from.
Needs    a loop over K whose timing has copies = spread. Copies under a condition stay where they are.
Refuses  nothing.
Test     test/lit/passes/nvvm/spread-copies.mlir
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from mlir import ir
from mlir.dialects import nvvm, scf

from lowtide.dialects.levels import Level
from lowtide.dialects.sm import CopyIssue
from lowtide.dialects.sm.timing import Timing
from lowtide.passes.base import Pass, walk
from lowtide.passes.support.ir.rewriting import ops_in
from lowtide.targets import Target


@dataclass(frozen=True)
class SpreadCopies(Pass):
    """Moves the copies of each K step among its products."""

    name: ClassVar[str] = "spread-copies"
    needs: ClassVar[Level] = Level.NVVM
    gives: ClassVar[Level] = Level.NVVM

    def run(self, module: ir.Module, target: Target) -> bool:
        loops = [loop for loop in walk(module, scf.ForOp) if Timing.of(loop).copies is CopyIssue.spread]
        for loop in loops:
            for step in _steps(ops_in(loop.body)):
                _spread(step)
        return bool(loops)


def _steps(ops: list[ir.OpView]) -> list[list[ir.OpView]]:
    """The ops from each wait for copies to the next one, or to the end."""
    waits = [position for position, op in enumerate(ops) if isinstance(op, nvvm.CpAsyncWaitGroupOp)]
    return [ops[low:high] for low, high in pairwise([*waits, len(ops)])]


def _spread(step: list[ir.OpView]) -> None:
    """Moves a K step's copies, at even distances, to the first products of its k-slices; their group ends behind the
    last one."""
    slices = _first_products(step)
    if not slices:
        return
    head = step[: step.index(slices[0])]
    copies = [op for op in head if isinstance(op, nvvm.CpAsyncOp)]
    ends = [op for op in head if isinstance(op, nvvm.CpAsyncCommitGroupOp)]
    for number, copy in enumerate(copies):
        copy.operation.move_before(slices[number * len(slices) // len(copies)].operation)
    if copies:
        for end in ends:
            end.operation.move_after(copies[-1].operation)


def _first_products(step: list[ir.OpView]) -> list[ir.OpView]:
    """Of each k-slice: the products that follow the load of a fragment."""
    found: list[ir.OpView] = []
    is_loaded = False
    for op in step:
        if isinstance(op, nvvm.LdMatrixOp):
            is_loaded = True
        elif isinstance(op, nvvm.MmaOp) and is_loaded:
            found.append(op)
            is_loaded = False
    return found
