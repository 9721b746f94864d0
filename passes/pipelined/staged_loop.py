"""The K loop as promote-operands-to-smem leaves it, and its parts for agents: fills and reads of a ring."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from mlir import ir
from mlir.dialects import scf

from lowtide.dialects import sm, tile
from lowtide.passes.base import Refusal
from lowtide.passes.support.ir.builder import Builder
from lowtide.passes.support.ir.rewriting import computing, copy_ops, defining_op, ops_in, uses
from lowtide.passes.support.problem.kernels import bytes_of, main_loop

Cursor: TypeAlias = Sequence[ir.Value]  # slot and phase
Values: TypeAlias = Mapping[ir.Value, ir.Value]  # what stands in place of values of the loop and of its work tiles

NONE: Values = MappingProxyType({})
_PARTS = (sm.BarrierOp, tile.PromoteOp, tile.ViewOp)


@dataclass(frozen=True)
class StagedLoop:
    """Copies windows of A and B into a buffer each, and those of scales that are staged; and multiplies them.

    The copies are for the agent that fills the ring. All else that the loop computes is for those that read it.
    """

    loop: scf.ForOp
    copies: tuple[sm.CopyOp, ...]  # of A and B, then of scales

    @classmethod
    def match(cls, mma: tile.MmaOp) -> "StagedLoop":
        """The loop around an mma. Refuses one of another form, or whose buffers are used elsewhere."""
        loop = main_loop(mma)
        copies = {}
        for op in ops_in(loop.body):
            if isinstance(op, sm.CopyOp):
                copies[op.destination] = op
            elif op != mma and not isinstance(op, _PARTS) and not op.operation.name.startswith("arith."):
                raise Refusal(op, "is not part of a K loop as promote-operands-to-smem leaves it [staged-loop]")
        if mma.a not in copies or mma.b not in copies:
            raise Refusal(
                mma,
                "needs both operands copied into shared memory in its loop; run promote-operands-to-smem"
                " [staged-operands]",
            )
        for buffer, copy in copies.items():
            if not isinstance(defining_op(buffer), sm.AllocOp):
                raise Refusal(copy, "must fill a buffer of sm.alloc, which the ring replaces [staged-buffer]")
            if any(use.operation.block != loop.body for use in uses(buffer)):
                raise Refusal(
                    copy, "fills a buffer that is used outside its loop, so no ring can replace it [staged-uses]"
                )
            read = {value for op in computing([copy.source], loop) for value in op.operands}
            if not read.isdisjoint({*copies, *loop.inner_iter_args}):
                raise Refusal(
                    copy,
                    "copies a window that depends on results of the loop, so it cannot be copied ahead [staged-ahead]",
                )
        return cls(loop, tuple(copies[buffer] for buffer in dict.fromkeys((mma.a, mma.b, *copies))))

    @property
    def buffers(self) -> list[ir.Value]:
        """The buffers that the copies fill."""
        return [copy.destination for copy in self.copies]

    def barrier(self, number: int) -> ir.Location:
        """The origin of the ring's verbs: the loop's first barrier (0), behind which the copies are read, or its last
        one (-1), behind which the buffers are filled again. Without barriers, a copy."""
        barriers = [op for op in ops_in(self.loop.body) if isinstance(op, sm.BarrierOp)]
        return (barriers or self.copies)[number].operation.location

    @property
    def work(self) -> tile.WorkTilesOp | None:
        """The work tiles whose body holds the loop."""
        parent = self.loop.operation.parent.opview
        return parent if isinstance(parent, tile.WorkTilesOp) else None

    @property
    def bounds(self) -> list[ir.Value]:
        """Where the loop begins and ends along K, and its step."""
        return [self.loop.lowerBound, self.loop.upperBound, self.loop.step]

    def outside(self, values: Values = NONE, *, copies: bool = True) -> dict[ir.Value, ir.Value]:
        """`values`, and clones of the values from the work tile that the bounds use; with `copies`, also of those that
        the copies use. For callers outside of the work tile."""
        found, sources = dict(values), [copy.source for copy in self.copies] if copies else []
        ops = computing([*self.bounds, *sources], self.work or self.loop)
        copy_ops([op for op in ops if op.operation.block != self.loop.body], found)
        return found

    def steps(self, values: Values = NONE) -> ir.Value:
        """How many steps of K the loop has."""
        low, high, step = (values.get(bound, bound) for bound in self.bounds)
        return Builder.index().ceil_sdiv(Builder.index().sub(high, low), step)

    def place(self, step: ir.Value, values: Values = NONE) -> ir.Value:
        """Where step number `step` begins along K."""
        low, _, extent = (values.get(bound, bound) for bound in self.bounds)
        return Builder.index().add(low, Builder.index().mul(step, extent))

    def fill(
        self,
        ring: ir.Value,
        cursor: Cursor,
        step: ir.Value,
        values: Values = NONE,
        operands: Sequence[int] | None = None,
    ) -> None:
        """Copies step number `step` to the slot at the cursor: all operands, or those with these numbers."""
        with self.barrier(-1):
            acquire = sm.ProducerAcquireOp(ring, *cursor)
        self.copy(acquire, step, values, range(len(self.copies)) if operands is None else operands)
        with self.barrier(0):
            sm.ProducerCommitOp(ring, acquire.slot)

    def copy(self, acquire: sm.ProducerAcquireOp, step: ir.Value, values: Values, operands: Sequence[int]) -> None:
        """As `fill`, without a commit."""
        at = dict(values)
        at[self.loop.induction_variable] = self.place(step, at)
        buffers = self.within(acquire.buffers)
        for number in operands:
            source = self.copies[number].source
            for op in computing([source], self.work or self.loop):
                is_other = op.operation.block == self.loop.body or not at.keys().isdisjoint(op.operands)
                if is_other and op.results[0] not in at:
                    copy_ops([op], at)
            with self.copies[number].operation.location:
                sm.CopyAsyncOp(at.get(source, source), buffers[number])

    def within(self, buffers: Sequence[ir.Value]) -> list[ir.Value]:
        """A slot's buffers, or prefixes of them, of the types of the loop's own buffers.

        Refuses buffers too small for them.
        """
        found = []
        names = ("operand A is", "operand B is", "scales of rows are", "scales of columns are")
        for name, buffer, own in zip(names, buffers, self.buffers, strict=False):
            if bytes_of(self.loop, own.type) > bytes_of(self.loop, buffer.type):
                raise Refusal(
                    self.loop,
                    f"{name} {own.type}, which the slots of the ring, {buffer.type}, cannot hold; put the loop "
                    "with the largest tiles first [staged-slots]",
                )
            found.append(buffer if buffer.type == own.type else sm.PrefixOp(own.type, buffer).result)
        return found

    @property
    def reads(self) -> list[ir.OpView]:
        """The ops that compute what the loop yields, windows first."""
        yielded = list(self.loop.body.operations)[-1].operands
        windows = [op.result for op in computing(yielded, self.loop) if isinstance(op, tile.ViewOp)]
        return computing([*windows, *yielded], self.loop)

    @property
    def direct_windows(self) -> list[ir.OpView]:
        """The windows of global memory among these ops, with the ops that compute them."""
        views = [op for op in self.reads if isinstance(op, tile.ViewOp) and op.source not in self.buffers]
        return computing([view.result for view in views], self.loop)
