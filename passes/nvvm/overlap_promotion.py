"""overlap-promotion: await and read the slot of a K step while the products of the step before are in flight.

Before   scf.for %i = … iter_args(%sum, %slot, %phase) {
           nvvm.mbarrier.try_wait.parity %full[%slot], %phase; %s = llvm.load …; %a = … descriptor    (the head)
           nvvm.wgmma.fence …; nvvm.wgmma.mma_async %a …; commit
           %products = sm.ptx_wgmma_wait 0 …; %sum2 = math.fma %products, %s, %sum
           release; scf.yield %sum2, %next, %next_phase }
After    %s0, %a0 = head of the first step, if there is one
         scf.for %i = … iter_args(%sum, %slot, %phase, %s = %s0, %a = %a0) {
           nvvm.wgmma.fence …; nvvm.wgmma.mma_async %a …; commit
           %s2, %a2 = scf.if (there is a step after this one) { head of that one }
           %products = sm.ptx_wgmma_wait 0 …; %sum2 = math.fma %products, %s, %sum
           release; scf.yield %sum2, %next, %next_phase, %s2, %a2 }
         The wait for a slot, the loads of its scales and the arithmetic of its matrix descriptors so take no time
         between the sum of one step and the products of the next. Where several groups of products are in flight, the
         head stands before the last wait, behind the sums of the groups before.
Needs    a loop whose timing has slot = step_before, as convert-sm-to-nvvm leaves it.
Refuses  a loop that adds products without waiting for a slot first, or whose next slot depends on products.
Test     test/lit/passes/nvvm/overlap-promotion.mlir, overlap-promotion-invalid.mlir
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from mlir import ir
from mlir.dialects import arith, gpu, llvm, nvvm, scf

from lowtide.dialects import sm
from lowtide.dialects.levels import Level
from lowtide.dialects.sm import SlotRead
from lowtide.dialects.sm.timing import Timing
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.support.ir.builder import constant_of
from lowtide.passes.support.ir.rewriting import before, carry_more, copy_ops, erase_if_unused, ops_in
from lowtide.targets import Target


@dataclass(frozen=True)
class OverlapPromotion(Pass):
    """Moves the head of each promoted K step into the step before."""

    name: ClassVar[str] = "overlap-promotion"
    needs: ClassVar[Level] = Level.NVVM
    gives: ClassVar[Level] = Level.NVVM

    def run(self, module: ir.Module, target: Target) -> bool:
        loops = [loop for function in walk(module, gpu.GPUFuncOp) for loop in walk(function, scf.ForOp)]
        overlapped = [loop for loop in loops if Timing.of(loop).slot is SlotRead.step_before]
        for loop in overlapped:
            _overlap(_Step.match(loop))
        return bool(overlapped)


@dataclass(frozen=True)
class _Step:
    """A loop whose body is one K step: its head, which waits for a slot and reads it, and its products."""

    loop: scf.ForOp
    head: list[ir.OpView]
    handed: list[ir.Value]
    """What the products read of the head."""
    next_slot: list[ir.OpView]
    """The ops behind the head whose results the head of the next step reads."""
    last_wait: sm.PtxWgmmaWaitOp

    @classmethod
    def match(cls, loop: scf.ForOp) -> "_Step":
        ops = ops_in(loop.body)
        fence = next((i for i, op in enumerate(ops) if isinstance(op, nvvm.WgmmaFenceAlignedOp)), 0)
        head, products = ops[:fence], ops[fence:]
        if not any(isinstance(op, nvvm.MBarrierTryWaitParityOp) for op in head):
            raise Refusal(loop, "multiplies before it waits for a slot; take promote = per_step [promotion-waits]")
        read = {operand for op in products for operand in _operands(op)}
        handed = [value for op in head if not _is_constant(op) for value in op.results if value in read]
        waits = [op for op in products if isinstance(op, sm.PtxWgmmaWaitOp)]
        return cls(loop, head, handed, _next_slot(loop, head, products), waits[-1])

    def copy_head(self, arguments: Sequence[ir.Value], values: Sequence[ir.Value]) -> list[ir.Value]:
        """Copies the head with these values of the step's number and what the loop carries. Gives what it hands on."""
        mapping = dict(zip(arguments, values, strict=True))
        copy_ops(self.head, mapping)
        return [mapping[value] for value in self.handed]


def _operands(op: ir.OpView) -> set[ir.Value]:
    """What an op reads, and the ops nested in it."""
    found: set[ir.Value] = set()

    def visit(inner: ir.Operation) -> ir.WalkResult:
        found.update(inner.operands)
        return ir.WalkResult.ADVANCE

    op.operation.walk(visit)
    return found


def _is_constant(op: ir.OpView) -> bool:
    return not list(op.operands) and bool(list(op.results))


def _next_slot(loop: scf.ForOp, head: list[ir.OpView], products: list[ir.OpView]) -> list[ir.OpView]:
    """The ops among the products' that give the carried values which the head reads."""
    read = {operand for op in head for operand in _operands(op)}
    yielded = loop.body.operations[len(loop.body.operations) - 1].operands
    needed = {value for argument, value in zip(loop.inner_iter_args, yielded, strict=True) if argument in read}
    found: list[ir.OpView] = []
    for op in reversed(products):
        if needed.intersection(op.results):
            if not op.name.startswith("arith."):
                raise Refusal(
                    op,
                    "gives the next slot, but is no arithmetic on the slot of this step; take promote = per_step"
                    " [promotion-next-slot]",
                )
            found.insert(0, op)
            needed.update(op.operands)
    return found


def _overlap(step: _Step) -> None:
    loop = step.loop
    with before(loop), loop.operation.location:
        inits = _first(step)
    handed: list[ir.Value] = []
    carry_more(loop, inits, handed.extend, lambda yielded: _next(step, handed, yielded))


def _first(step: _Step) -> list[ir.Value]:
    """The head of the first step, if there is one."""
    loop, low, high = step.loop, constant_of(step.loop.lowerBound), constant_of(step.loop.upperBound)
    arguments, values = list(loop.body.arguments), [loop.lowerBound, *loop.initArgs]
    if low is not None and high is not None and low < high:
        return step.copy_head(arguments, values)
    has_some = arith.cmpi(arith.CmpIPredicate.slt, loop.lowerBound, loop.upperBound)
    branch = scf.IfOp(has_some, [value.type for value in step.handed], has_else=True)
    with ir.InsertionPoint(branch.then_block):
        scf.YieldOp(step.copy_head(arguments, values))
    with ir.InsertionPoint(branch.else_block):
        scf.YieldOp(_nothing(step))
    return list(branch.results)


def _nothing(step: _Step) -> list[ir.Value]:
    """What is handed on where there is no step that would read it: so registers need not be kept."""
    return [llvm.UndefOp(value.type).res for value in step.handed]


def _next(step: _Step, handed: Sequence[ir.Value], yielded: Sequence[ir.Value]) -> list[ir.Value]:
    """In the new body: the head of the step after this one, if there is one, before the last wait. What this step reads
    of its head is handed to it, and its own head is taken out."""
    loop, body = step.loop, ir.BlockArgument(handed[0]).owner
    number, *carried = list(body.arguments)[: 1 + len(yielded)]
    for op in step.next_slot:
        op.operation.move_before(step.last_wait.operation)
    with before(step.last_wait), step.last_wait.operation.location:
        after_this = arith.addi(number, loop.step)
        goes_on = arith.cmpi(arith.CmpIPredicate.slt, after_this, loop.upperBound)
        branch = scf.IfOp(goes_on, [value.type for value in handed], has_else=True)
        with ir.InsertionPoint(branch.then_block):
            scf.YieldOp(step.copy_head([number, *carried], [after_this, *yielded]))
        with ir.InsertionPoint(branch.else_block):
            scf.YieldOp(_nothing(step))
    for old, value in zip(step.handed, handed, strict=True):
        old.replace_all_uses_with(value)
    for op in reversed(step.head):
        erase_if_unused(op)
    return list(branch.results)
