"""keep-tiles-ahead: compute the place of a tile before the wait for its data, not where the place is used.

Before   %m = llvm.udiv %tile, %columns : i32; llvm.cond_br %first, ^wait, ^body
         ^wait: nvvm.griddepcontrol wait; … ^body: … nvvm.cp.async.bulk.tensor.shared.cluster.global …[%k, %m]
After    %m = llvm.udiv %tile, %columns : i32; llvm.inline_asm has_side_effects "", "r" %m; llvm.cond_br …
         LLVM's MachineSink moves a computation into the branch that uses its result. A division of a tile's number by a
         run-time value takes about 100 cycles. If it comes after the wait for earlier kernels, it delays a kernel's
         first loads; if it comes before the stores of a tile, it delays these. An asm statement that becomes no
         instruction takes the value as an operand, so the value is computed before the statement.
Needs    device code in the llvm dialect. Of a block before a wait and TMA loads, all that the loads need is kept; of
         other blocks, only what depends on such a division: other threads need registers more than time.
Refuses  nothing.
Test     test/lit/passes/llvm/keep-tiles-ahead.mlir
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from mlir import ir
from mlir.dialects import llvm, nvvm

from lowtide.passes.base import Pass, walk
from lowtide.targets import Target

_REGISTER = "i32"  # the type of coordinates, steps and bytes


@dataclass(frozen=True)
class KeepTilesAhead(Pass):
    """Adds empty asm statements. They read the values that TMA loads need after a wait for earlier kernels, and the
    results of divisions by run-time values that other blocks need."""

    name: ClassVar[str] = "keep-tiles-ahead"

    def run(self, module: ir.Module, target: Target) -> None:
        for function in walk(module, llvm.LLVMFuncOp):
            # To look at each op from Python costs more than all else here: only blocks that divide are read.
            divisions = walk(function, llvm.UDivOp) + walk(function, llvm.URemOp)
            dividing = _blocks_of(op for op in divisions if _divides(op, op.operation.block))
            for region in function.regions:
                blocks = list(region)
                loading = _loading(function, blocks)
                found = [_keep_before(block, blocks, loading) for block in blocks if loading and _waits(block)]
                kept = [block for block in found if block is not None]
                for block in dividing if dividing and _has_extents(function) else ():
                    if block not in kept:
                        _keep_divided(block)


def _has_extents(function: llvm.LLVMFuncOp) -> bool:
    """Whether a kernel has extents as arguments. Only then does the number of tiles vary from launch to launch."""
    return any(str(argument.type) == _REGISTER for argument in function.regions[0].blocks[0].arguments)


def _blocks_of(ops: Iterable[ir.OpView]) -> list[ir.Block]:
    """The blocks of the ops, each once."""
    found: list[ir.Block] = []
    for op in ops:
        block = op.operation.block
        if block not in found:
            found.append(block)
    return found


def _loading(function: llvm.LLVMFuncOp, blocks: list[ir.Block]) -> list[ir.Block]:
    """The blocks that start TMA loads, and those that branch to them."""
    starts = _blocks_of(walk(function, nvvm.CpAsyncBulkTensorGlobalToSharedClusterOp))
    if not starts:
        return []
    return starts + [block for block in blocks if any(successor in starts for successor in _successors(block))]


def _successors(block: ir.Block) -> list[ir.Block]:
    count = len(block.operations)
    return list(block.operations[count - 1].operation.successors) if count else []


def _waits(block: ir.Block) -> bool:
    return any(
        isinstance(op, nvvm.GriddepcontrolOp) and "wait" in str(op.operation.attributes["kind"])
        for op in block.operations
    )


def _keep_before(wait: ir.Block, blocks: list[ir.Block], loading: list[ir.Block]) -> ir.Block | None:
    """Keeps the values that the block before the wait computes for the blocks that load. Returns this block; None
    unless exactly one block branches to the wait."""
    before = [block for block in blocks if wait in _successors(block)]
    if len(before) != 1:
        return None
    kept = [value for value in _results(before[0]) if any(use.owner.operation.block in loading for use in value.uses)]
    _keep(kept, before[0].operations[len(before[0].operations) - 1])
    return before[0]


def _keep_divided(block: ir.Block) -> None:
    """Keeps the quotients and remainders of a block by run-time values, and values computed from them, if other blocks
    use them."""
    operations = list(block.operations)
    divided: set[ir.Value] = set()
    kept: list[ir.Value] = []
    last = None
    for op in operations:
        if _divides(op, block) or any(operand in divided for operand in op.operands):
            own = [value for value in op.operation.results if str(value.type) == _REGISTER]
            divided.update(own)
            used = [value for value in own if any(use.owner.operation.block != block for use in value.uses)]
            kept, last = kept + used, op if used else last
    if last is not None:
        _keep(kept, operations[operations.index(last) + 1])


def _divides(op: ir.OpView, block: ir.Block) -> bool:
    """Whether an op divides by a value that is not a constant and is the same for all tiles, because another block
    computes it. Orders in bands divide by the height of a tile's band, which differs. They are used for many large
    tiles, and are 1 to 3 % slower if the place is kept (8192³, H200)."""
    if not isinstance(op, (llvm.UDivOp, llvm.URemOp)):
        return False
    divisor = op.rhs.owner
    if isinstance(divisor, ir.Block):
        return divisor != block
    return divisor.operation.block != block and not isinstance(divisor.opview, llvm.ConstantOp)


def _keep(values: list[ir.Value], before: ir.OpView) -> None:
    """Adds an asm statement that reads the values, so that they are computed before it."""
    if values:
        with ir.InsertionPoint(before), values[0].location:
            llvm.inline_asm(None, values, "", ",".join(["r"] * len(values)), has_side_effects=True)


def _results(block: ir.Block) -> Iterator[ir.Value]:
    """The values of a register that the block computes."""
    for op in block.operations:
        if not isinstance(op, llvm.ConstantOp):
            yield from (result for result in op.operation.results if str(result.type) == _REGISTER)
