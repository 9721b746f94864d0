"""keep-loads-ahead: keep the loads of the next K step before the back edge of the loop that multiplies.

Before   %next = llvm.load %p : !llvm.ptr<3> -> f64; llvm.br ^loop(%next : f64)
After    %next = llvm.load %p : !llvm.ptr<3> -> f64; llvm.inline_asm has_side_effects "", "~{memory}"; llvm.br ^loop(…)
         LLVM's InstCombine (foldPHIArgLoadIntoPHI) replaces a phi of loads by one load of a phi of addresses. Fragments
         that were read a step ahead would then be read at the head of the loop, just before the products that wait for
         them. A load is not moved past an op that may write to memory; this one becomes no instruction.
Needs    device code in the llvm dialect. Only loops with the intrinsic of an atom that `keeps_loads_ahead`.
Refuses  nothing.
Test     test/lit/passes/llvm/keep-loads-ahead.mlir
"""

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir
from mlir.dialects import llvm

from lowtide.passes.base import Pass, walk
from lowtide.targets import Target
from lowtide.targets.atoms import mma_atom

_SHARED = "!llvm.ptr<3>"


@dataclass(frozen=True)
class KeepLoadsAhead(Pass):
    """Writes an empty asm statement before each back edge that passes loads from shared memory."""

    name: ClassVar[str] = "keep-loads-ahead"

    def run(self, module: ir.Module, target: Target) -> None:
        kept = {atom.intrinsic for atom in map(mma_atom, target.mma_atoms) if atom.keeps_loads_ahead}
        for function in walk(module, llvm.LLVMFuncOp):
            if not any(call.intrin.value in kept for call in walk(function, llvm.CallIntrinsicOp)):
                continue
            for region in function.regions:
                _keep_in(list(region), kept)


def _keep_in(blocks: list[ir.Block], kept: set[str]) -> None:
    for last, block in enumerate(blocks):
        if not len(block.operations):
            continue
        branch = block.operations[len(block.operations) - 1]
        heads = [blocks.index(successor) for successor in branch.operation.successors]
        loops = [blocks[head : last + 1] for head in heads if head <= last]
        loads = [value for value in branch.operands if _is_load(value)]
        if any(_calls(loop, kept) for loop in loops) and loads:
            with ir.InsertionPoint(branch), loads[0].location:
                llvm.inline_asm(None, [], "", "~{memory}", has_side_effects=True)


def _calls(blocks: list[ir.Block], intrinsics: set[str]) -> bool:
    return any(
        isinstance(op, llvm.CallIntrinsicOp) and op.intrin.value in intrinsics
        for block in blocks
        for op in block.operations
    )


def _is_load(value: ir.Value) -> bool:
    return (
        isinstance(value, ir.OpResult)
        and isinstance(load := value.owner.opview, llvm.LoadOp)
        and str(load.addr.type) == _SHARED
    )
