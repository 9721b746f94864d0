"""The K loop as promote-operands-to-smem leaves it, from which a ring of stages is made."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, scf

from lowtide.dialects import sm, tile
from lowtide.dialects.tile.work import Place
from lowtide.passes.base import Refusal
from lowtide.passes.support.ir.builder import Builder, constant_of
from lowtide.passes.support.ir.rewriting import defining_op, uses
from lowtide.passes.support.problem.kernels import bytes_of, main_loop

_PARTS = (
    tile.ViewOp,
    sm.BarrierOp,
    tile.MmaOp,
    tile.PromoteOp,
    arith.ConstantOp,
    arith.DivUIOp,
    arith.MulIOp,
    arith.RemUIOp,
    scf.YieldOp,
)


@dataclass(frozen=True)
class StagedLoop:
    """Copies A's and B's windows into a buffer each, and those of scales that are staged; multiplies them; carries the
    accumulator, or the promoted sums."""

    loop: scf.ForOp
    mma: tile.MmaOp
    promote: tile.PromoteOp | None
    copies: tuple[sm.CopyOp, ...]

    @classmethod
    def match(cls, mma: tile.MmaOp) -> "StagedLoop":
        """The loop around an mma. Refuses one of another form, or whose buffers are used elsewhere."""
        loop = main_loop(mma)
        copies = {}
        for op in loop.body.operations:
            if isinstance(op, sm.CopyOp):
                copies[hash(op.destination)] = op
            elif not isinstance(op, _PARTS):
                raise Refusal(op, "is not part of a K loop as promote-operands-to-smem leaves it [staged-loop]")
        promote = next((op for op in loop.body.operations if isinstance(op, tile.PromoteOp)), None)
        readers = {hash(operand): (operand, mma) for operand in (mma.a, mma.b)}
        readers |= {hash(view.source): (view.source, view) for view in _staged_windows(promote)}
        if len(copies) != len(readers) or any(buffer not in copies for buffer in readers):
            raise Refusal(
                mma,
                "needs both operands copied into shared memory in its loop; run promote-operands-to-smem"
                " [staged-operands]",
            )
        carried, yielded = list(loop.inner_iter_args), list(loop.body.operations[-1].operands)
        if promote is not None and promote.partial != mma.result:
            raise Refusal(promote, "must add the product of the loop's tile.mma [staged-product]")
        start, end = (mma.acc, mma.result) if promote is None else (promote.sum, promote.result)
        if carried != [start] or yielded != [end]:
            raise Refusal(
                loop,
                "must carry the accumulator of its tile.mma, or of its tile.promote, and nothing else [staged-carry]",
            )
        if promote is not None and mma.acc != loop.initArgs[0]:
            raise Refusal(mma, "must sum each K step from what the loop starts from, a tile.splat of zero [staged-sum]")
        if constant_of(loop.lowerBound) != 0 and not _is_range_of_work(loop):
            raise Refusal(
                loop,
                "must start at 0, or where the work item's range of K does: steps are counted from there"
                " [staged-start]",
            )
        for copy in copies.values():
            buffer = copy.destination
            if not isinstance(defining_op(buffer), sm.AllocOp):
                raise Refusal(copy, "must fill a buffer of sm.alloc, which the ring replaces [staged-buffer]")
            if any(use not in (copy, readers[hash(buffer)][1]) for use in uses(buffer)):
                raise Refusal(
                    copy, "fills a buffer that is used outside its loop, so no ring can replace it [staged-uses]"
                )
        return cls(loop, mma, promote, tuple(copies[buffer] for buffer in readers))

    @property
    def tile_k(self) -> ir.Value:
        return self.loop.step

    def steps(self) -> ir.Value:
        """How many steps of K the loop has."""
        build, loop = Builder.index(), self.loop
        from_zero = constant_of(loop.lowerBound) == 0
        return build.ceil_sdiv(loop.upperBound if from_zero else build.sub(loop.upperBound, loop.lowerBound), loop.step)

    def place(self, step: ir.Value) -> ir.Value:
        """Where step number `step` begins along K."""
        build, loop = Builder.index(), self.loop
        extent = constant_of(loop.step)  # its op may stay with the loop, which is erased
        offset = build.mul(step, loop.step if extent is None else extent)
        return offset if constant_of(loop.lowerBound) == 0 else build.add(loop.lowerBound, offset)

    @property
    def buffers(self) -> list[ir.Value]:
        """A's and B's, then those of staged scales of rows and of columns."""
        return [copy.destination for copy in self.copies]

    @property
    def is_scaled(self) -> bool:
        """Whether the sum of a K step is multiplied by scales of blocks."""
        return self.promote is not None and self.promote.rows is not None

    @property
    def stages_scales(self) -> bool:
        """Whether these are copied to slots of the ring."""
        return len(self.copies) > 2

    def scales(self, offsets: Mapping[ir.Value, ir.Value], buffers: Sequence[ir.Value] | None = None) -> list[ir.Value]:
        """The windows of the scales of rows and of columns in a K step, at other offsets, and of a slot's buffers where
        they are staged; or none."""
        if not self.is_scaled:
            return []
        assert self.promote is not None
        held = {} if buffers is None else dict(zip(self.buffers, buffers, strict=True))
        windows = [window.owner.opview for window in (self.promote.rows, self.promote.columns)]
        return [_moved(view, offsets, held.get(view.source)) for view in windows]

    def multiply(
        self,
        buffers: Sequence[ir.Value],
        total: ir.Value,
        zero: ir.Value,
        step: ir.Value,
        scales: Sequence[ir.Value] = (),
    ) -> ir.Value:
        """The sum after K step number `step`, whose operands these buffers hold; `zero` is where the loop starts."""
        start = total if self.promote is None else zero
        zeros, weights = self._of_group(self.mma.zeros, step), self.mma.weights
        scale = None if self.promote is None else self._of_group(self.promote.scale, step)
        product = tile.MmaOp(total.type, self.mma.layout, *buffers, start, weights=weights, zeros=zeros).result
        if self.promote is None:
            return product
        windows = dict(zip(("rows", "columns"), scales, strict=bool(scales)))
        return tile.PromoteOp(total.type, product, total, scale=scale, **windows).result

    def _of_group(self, window: ir.Value | None, step: ir.Value) -> ir.Value | None:
        """The window of what the group of K step number `step` has; the group is its place divided by its extent."""
        if window is None:
            return None
        view = defining_op(window)
        group = defining_op(view.offsets[0]) if isinstance(view, tile.ViewOp) else None
        extent = constant_of(group.rhs) if isinstance(group, arith.DivUIOp) else None
        if view is None or group is None or extent is None or group.lhs != self.loop.induction_variable:
            raise Refusal(
                self.mma,
                "scales and zero points must be a tile.view at the K of the step, divided by that of a group"
                " [staged-group]",
            )
        place = Builder.index().udiv(self.place(step), extent)
        return tile.ViewOp(view.result.type, view.source, [place, *list(view.offsets)[1:]], kind=view.kind).result

    def make_ring(self, stages: int, kept: Sequence[int] = (), shared: int | None = None) -> ir.Value:
        """A ring whose stages have the types of the buffers, and that keeps those with these numbers, of so many slots
        where slots share them."""
        type_ = sm.RingType.get(stages, [buffer.type for buffer in self.buffers])
        return sm.RingOp(type_, kept=ir.DenseI64ArrayAttr.get(kept) if kept else None, kept_stages=shared).result

    def within(self, buffers: Sequence[ir.Value]) -> list[ir.Value]:
        """A slot's buffers, or prefixes of them, of the types of the loop's own buffers.

        Refuses buffers too small for them.
        """
        found = []
        names = ("operand A is", "operand B is", "scales of rows are", "scales of columns are")
        for name, buffer, own in zip(names, buffers, self.buffers, strict=False):
            if bytes_of(self.mma, own.type) > bytes_of(self.mma, buffer.type):
                raise Refusal(
                    self.mma,
                    f"{name} {own.type}, which the slots of the ring, {buffer.type}, cannot hold; put the loop "
                    "with the largest tiles first [staged-slots]",
                )
            found.append(buffer if buffer.type == own.type else sm.PrefixOp(own.type, buffer).result)
        return found

    def fill(self, acquire: sm.ProducerAcquireOp, offsets: Mapping[ir.Value, ir.Value]) -> None:
        """Starts the copies into a slot and commits it. They read the loop's windows, at other offsets where given."""
        self.start_copies(acquire, offsets, range(len(self.copies)))
        sm.ProducerCommitOp(acquire.ring, acquire.slot)

    def start_copies(
        self, acquire: sm.ProducerAcquireOp, offsets: Mapping[ir.Value, ir.Value], operands: Iterable[int]
    ) -> None:
        """As `fill`, of the operands with these numbers, and without a commit."""
        buffers = self.within(acquire.buffers)
        for number in operands:
            sm.CopyAsyncOp(_moved(self.copies[number].source.owner.opview, offsets), buffers[number])


def _moved(view: tile.ViewOp, offsets: Mapping[ir.Value, ir.Value], source: ir.Value | None = None) -> ir.Value:
    """The window at other offsets, where given, of another source, where given."""
    moved = [_at(offset, offsets) for offset in view.offsets]
    return tile.ViewOp(view.result.type, view.source if source is None else source, moved, kind=view.kind).result


def _at(offset: ir.Value, offsets: Mapping[ir.Value, ir.Value]) -> ir.Value:
    """An offset as it is where others are given: one of them, or the block, or the place in one, that it lies in."""
    op, build = defining_op(offset), Builder.index()
    steps = {arith.DivUIOp: build.udiv, arith.RemUIOp: build.urem, arith.MulIOp: build.mul}
    if op is not None and type(op) in steps and (block := constant_of(op.rhs)) is not None:
        of = _at(op.lhs, offsets)
        return offset if of == op.lhs else steps[type(op)](of, block)
    if isinstance(op, arith.ConstantOp) and not isinstance(op.operation.parent.opview, tile.KernelOp):
        return build.constant(constant_of(offset) or 0)  # it goes with the loop
    return offsets.get(offset, offset)


def _staged_windows(promote: tile.PromoteOp | None) -> list[tile.ViewOp]:
    """The windows of scales of rows and of columns that lie in shared memory."""
    windows = [] if promote is None or promote.rows is None else [promote.rows, promote.columns]
    views = [defining_op(window) for window in windows]
    return [
        view for view in views if isinstance(view, tile.ViewOp) and isinstance(defining_op(view.source), sm.AllocOp)
    ]


def _is_range_of_work(loop: scf.ForOp) -> bool:
    """Whether a loop begins where the range of K of its work item does, a multiple of its step."""
    owner = loop.lowerBound.owner
    work = owner.owner.opview if isinstance(owner, ir.Block) else None
    return isinstance(work, tile.WorkTilesOp) and Place.of(work).k0 == loop.lowerBound
