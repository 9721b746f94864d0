"""keep-tiles-ahead: compute where TMA loads begin before the wait for earlier kernels, not after it.

Before   %m = llvm.udiv %tile, %columns : i32; llvm.cond_br %first, ^wait, ^body
         ^wait: nvvm.griddepcontrol wait; … ^body: … nvvm.cp.async.bulk.tensor.shared.cluster.global …[%k, %m]
After    %m = llvm.udiv %tile, %columns : i32; llvm.inline_asm has_side_effects "", "r" %m; llvm.cond_br …
         LLVM's MachineSink moves a computation to the branch that uses its result. The divisions of a tile's number
         would then follow the wait, and delay a kernel's first loads by some 150 instructions. The value is an operand
         of an asm statement that becomes no instruction, so it is computed before it.
Needs    device code in the llvm dialect. Only waits before TMA loads: other threads need registers more than time.
Refuses  nothing.
Test     test/lit/passes/llvm/keep-tiles-ahead.mlir
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from mlir import ir
from mlir.dialects import llvm, nvvm

from lowtide.passes.base import Pass, walk
from lowtide.targets import Target

_REGISTER = "i32"  # the type of coordinates, steps and bytes


@dataclass(frozen=True)
class KeepTilesAhead(Pass):
    """Writes an empty asm statement that reads what the TMA loads after a wait for earlier kernels need."""

    name: ClassVar[str] = "keep-tiles-ahead"

    def run(self, module: ir.Module, target: Target) -> None:
        for function in walk(module, llvm.LLVMFuncOp):
            for region in function.regions:
                blocks = list(region)
                loading = _loading(blocks)
                for block in blocks if loading else ():
                    if _waits(block):
                        _keep_before(block, blocks, loading)


def _loading(blocks: list[ir.Block]) -> list[ir.Block]:
    """The blocks that start TMA loads, and those that branch to them."""
    starts = [block for block in blocks if any(map(_is_load, block.operations))]
    return starts + [block for block in blocks if any(successor in starts for successor in _successors(block))]


def _is_load(op: ir.OpView) -> bool:
    return isinstance(op, nvvm.CpAsyncBulkTensorGlobalToSharedClusterOp)


def _successors(block: ir.Block) -> list[ir.Block]:
    count = len(block.operations)
    return list(block.operations[count - 1].operation.successors) if count else []


def _waits(block: ir.Block) -> bool:
    return any(
        isinstance(op, nvvm.GriddepcontrolOp) and "wait" in str(op.operation.attributes["kind"])
        for op in block.operations
    )


def _keep_before(wait: ir.Block, blocks: list[ir.Block], loading: list[ir.Block]) -> None:
    """Keeps what the one block that branches to the wait computes for the blocks that load."""
    before = [block for block in blocks if wait in _successors(block)]
    if len(before) != 1:
        return
    kept = [value for value in _results(before[0]) if any(use.owner.operation.block in loading for use in value.uses)]
    last = before[0].operations[len(before[0].operations) - 1]
    if kept:
        with ir.InsertionPoint(last), last.location:
            llvm.inline_asm(None, kept, "", ",".join(["r"] * len(kept)), has_side_effects=True)


def _results(block: ir.Block) -> Iterator[ir.Value]:
    """The values of a register that the block computes."""
    for op in block.operations:
        if not isinstance(op, llvm.ConstantOp):
            yield from (result for result in op.operation.results if str(result.type) == _REGISTER)
