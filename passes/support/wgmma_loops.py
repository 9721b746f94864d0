"""A consumer's loop over K that wgmma is to multiply: what it reads of a slot, and its windows of scales."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import scf

from lowtide.dialects import sm, tile
from lowtide.dialects.enums import operand_kind
from lowtide.passes.base import Refusal
from lowtide.passes.support.builder import constant_of
from lowtide.passes.support.kernels import main_loop
from lowtide.passes.support.rewriting import defining_op, ops_in

_SCALE_ATOM = "ld.global.4"  # one f32: a thread holds no two neighbours of rows


@dataclass(frozen=True)
class WgmmaLoop:
    """A consumer's loop over K as specialize-roles leaves it."""

    loop: scf.ForOp
    mma: tile.MmaOp
    promote: tile.PromoteOp | None
    splat: tile.SplatOp
    wait: sm.ConsumerWaitOp
    prefixes: dict[ir.Value, sm.PrefixOp]
    windows: list[ir.OpView]  # those of scales and zero points, and where they begin

    @classmethod
    def match(cls, mma: tile.MmaOp) -> "WgmmaLoop":
        loop = main_loop(mma)
        windows = [op for op in ops_in(loop.body) if _is_of_window(op)]
        body = [op for op in ops_in(loop.body) if not _is_of_window(op)]
        prefixes = {op.source: op for op in body if isinstance(op, sm.PrefixOp)}
        promote = next((op for op in body if isinstance(op, tile.PromoteOp)), None)
        multiply = [tile.MmaOp] if promote is None else [tile.MmaOp, tile.PromoteOp]
        forms = [sm.ConsumerWaitOp, *multiply, sm.ConsumerReleaseOp, sm.RingAdvanceOp]
        if [type(op) for op in body if not isinstance(op, sm.PrefixOp)] != forms or len(loop.initArgs) != 3:
            raise Refusal(loop, "must wait, multiply, release and advance, as specialize-roles leaves it")
        if constant_of(loop.lowerBound) != 0 or constant_of(loop.step) != 1:
            raise Refusal(loop, "must count its K steps from 0 by 1: the first is taken out of it")
        splat = defining_op(loop.initArgs[0])
        if not isinstance(splat, tile.SplatOp) or splat.value.value:
            raise Refusal(loop, "must start from tile.splat 0.0: wgmma clears its accumulators")
        if promote is not None and (mma.acc != splat.result or promote.partial != mma.result):
            raise Refusal(promote, "must add a sum that starts from zero, the loop's")
        return cls(loop, mma, promote, splat, body[0], prefixes, windows)

    def operands(self, slot: sm.ConsumerWaitOp) -> list[ir.Value]:
        """What is read of a slot: A's and B's buffers, then those of staged scales, or prefixes of them."""
        found = []
        for own, buffer in zip(self.wait.buffers, slot.buffers, strict=True):
            prefix = self.prefixes.get(own)
            found.append(buffer if prefix is None else sm.PrefixOp(prefix.result.type, buffer).result)
        return found

    def windows_at(self, step: ir.Value) -> dict[ir.Value, ir.Value]:
        """The windows of another K step, by those of the loop's; and where those of a slot's buffers begin."""
        moved = {self.loop.induction_variable: step}
        for op in self.windows:
            if self._in_slot(op):
                continue
            clone = op.operation.clone()
            for number, operand in enumerate(clone.operands):
                clone.operands[number] = moved.get(operand, operand)
            moved[op.operation.results[0]] = clone.results[0]
        return moved

    def _in_slot(self, op: ir.OpView) -> bool:
        """Whether an op is a window of scales in a slot's buffer."""
        return isinstance(op, tile.ViewOp) and op.source in self._read_of(self.wait.buffers)

    @property
    def stages_scales(self) -> bool:
        """Whether scales lie in the slots."""
        return any(map(self._in_slot, self.windows))

    def scales(self, step: ir.Value, type_: sm.FragmentType) -> list[ir.Value]:
        """The loads of the scales of rows and of columns of a K step from global memory; none if they are staged."""
        if self.promote is None or self.promote.rows is None or self.stages_scales:
            return []
        moved = self.windows_at(step)
        windows = (moved.get(window, window) for window in (self.promote.rows, self.promote.columns))
        return [sm.LoadGlobalOp(type_, window, _SCALE_ATOM).result for window in windows]

    def staged_scales(self, step: ir.Value, buffers: Sequence[ir.Value], type_: sm.FragmentType) -> list[ir.Value]:
        """The loads of the scales of rows and of columns from a slot's buffers; none if they are not staged."""
        if self.promote is None or not self.stages_scales:
            return []
        held = dict(zip(self._read_of(self.wait.buffers), buffers, strict=True))
        moved = self.windows_at(step)
        found = []
        for window in (self.promote.rows, self.promote.columns):
            view = defining_op(window)
            if not isinstance(view, tile.ViewOp) or view.source not in held:
                raise Refusal(self.promote, "scales by what is no window of its slot's buffers, beside one that is")
            offsets = (moved.get(offset, offset) for offset in view.offsets)
            found.append(sm.LoadScalesOp(type_, operand_kind(view), held[view.source], *offsets).result)
        return found

    def _read_of(self, buffers: Iterable[ir.Value]) -> list[ir.Value]:
        """What the loop reads of its slot's buffers: these, or prefixes of them."""
        return [self.prefixes[buffer].result if buffer in self.prefixes else buffer for buffer in buffers]


def _is_of_window(op: ir.OpView) -> bool:
    return isinstance(op, tile.ViewOp) or op.operation.name.startswith("arith.")
