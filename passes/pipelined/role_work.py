"""The work tiles of a role: what the producer does for each of them, and what a consumer does."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from mlir import ir
from mlir.dialects import arith, memref, scf

from lowtide.dialects import sm, tile
from lowtide.dialects.sm.timing import keep_timing
from lowtide.dialects.tile.work import Place, add_body, work_like
from lowtide.passes.base import Refusal, walk
from lowtide.passes.pipelined.staged_loop import StagedLoop
from lowtide.passes.support.ir.builder import Builder, constant_of
from lowtide.passes.support.ir.rewriting import defining_op, ops_in, uses

EmitTile: TypeAlias = Callable[[Place, list[ir.Value]], list[ir.Value]]  # of an item's place and what is carried
# What may take the sum of a K loop, and what else exchanges partial sums
_TAKES_SUMS = (tile.StoreOp, tile.StorePartialOp, tile.AddPartialsOp)
_EXCHANGE = (*_TAKES_SUMS, tile.SumSharesOp, tile.SemaphoreArriveOp, tile.SemaphoreWaitOp, tile.SemaphoreLeaveOp)


@dataclass(frozen=True)
class Work:
    """A loop over work tiles as assign-smem-layouts leaves it."""

    work: tile.WorkTilesOp
    splat: tile.SplatOp
    staged: StagedLoop
    rest: tuple[ir.OpView, ...]  # what follows the K loop
    wait: tile.AwaitWaveOp | None

    @classmethod
    def match(cls, work: tile.WorkTilesOp) -> "Work":
        mmas, stores = walk(work, tile.MmaOp), walk(work, tile.StoreOp)
        together = len({store.operation.block for store in stores}) < len(stores)  # in two branches one of them runs
        if len(mmas) != 1 or not stores or together or len(work.inits):
            raise Refusal(work, "must hold one K loop and one tile.store, and carry nothing [role-tile]")
        staged, store = StagedLoop.match(mmas[0]), stores[0]
        splat = defining_op(staged.loop.initArgs[0])
        is_stored = any(isinstance(use, _TAKES_SUMS) for use in uses(staged.loop.results[0]))
        if not isinstance(splat, tile.SplatOp) or not is_stored:
            raise Refusal(
                staged.loop, "must start from a tile.splat and give what tile.store stores [role-accumulator]"
            )
        if constant_of(staged.tile_k) is None:
            raise Refusal(staged.loop, "must have a constant step, the K extent of the CTA tile [role-step]")
        waits = walk(work, tile.AwaitWaveOp)
        ops = [op for op in ops_in(work.body.blocks[0]) if op not in waits[:1]]
        first, rest = ops[: ops.index(staged.loop)], ops[ops.index(staged.loop) + 1 :]
        for op in first + rest:
            is_end = isinstance(op, (scf.IfOp, memref.SubViewOp, *_EXCHANGE)) or op.operation.name.startswith("arith.")
            is_place = isinstance(op, arith.ConstantOp | arith.DivUIOp)  # of rows that share bytes
            if op not in (splat, store) and not (is_end if op in rest else is_place):
                raise Refusal(
                    op, "belongs to no role: a work tile is its splat, its K loop and its tile.store [role-of-op]"
                )
        constants = [op for op in first if isinstance(op, arith.ConstantOp) and not _is_only_used_in(op, staged.loop)]
        return cls(
            work, splat, staged, (*constants, *rest) if rest != [store] else (store,), waits[0] if waits else None
        )

    def emit_work(self, inits: list[ir.Value], emit: EmitTile, *, in_turn: bool = False) -> list[ir.Value]:
        """A role's work tiles, which carry its cursor in the ring, and what comes after it in `inits`.

        Returns these values as they are after them.
        """
        work = work_like(self.work, inits, in_turn=in_turn)
        body = add_body(work)
        with ir.InsertionPoint(body):
            tile.YieldOp(emit(Place.of(work), list(body.arguments)[-len(inits) :]))
        return list(work.results_)

    def emit_turns(self, ring: ir.Value, turn: ir.Value, by_warpgroups: bool) -> None:
        """The work tiles of an instance: it skips the K steps of the tiles that the others take.

        Warps that multiply by themselves meet before one of them passes the turn on.
        """
        build, turns = Builder.index(), turn.type.count
        instance, steps = sm.RoleInstanceOp().result, self._k_steps()
        first = sm.RingAdvanceOp(ring, zero(), zero(), count=build.mul(instance, steps))
        # Instance 0 begins: the parity before the first phase passes at once.
        parity = build.select(build.eq(instance, 0), 1, 0)
        following = build.urem(build.add(instance, 1), turns)

        def emit(place: Place, carried: list[ir.Value]) -> list[ir.Value]:
            *cursor, parity = carried

            def pass_turn() -> None:
                if not by_warpgroups:
                    sm.BarrierOp()
                sm.MbarrierArriveOp(turn, following)

            sm.MbarrierWaitOp(turn, instance, parity)
            # One thread passes the turn on, and it may be back before another warp has seen it come, which would then
            # wait for a phase that has passed. So all have taken it before.
            sm.BarrierOp()
            slot, phase = self.emit_consumer(ring, place, cursor, pass_turn)
            skipped = sm.RingAdvanceOp(ring, slot, phase, count=build.mul(steps, turns - 1))
            return [skipped.next_index, skipped.next_phase, build.xor(parity, 1)]

        self.emit_work([first.next_index, first.next_phase, parity], emit, in_turn=True)

    @property
    def _tile_k(self) -> int:
        """The step of the K loop."""
        step = constant_of(self.staged.tile_k)
        assert step is not None
        return step

    def _k_steps(self, place: Place | None = None) -> ir.Value:
        """The steps of a whole tile or, where K is divided, of the work item at `place`."""
        build = Builder.index()
        if place is None or place.k1 is None:
            return build.ceil_sdiv(self.staged.loop.upperBound, self._tile_k)
        return build.ceil_sdiv(build.sub(place.k1, place.k0), self._tile_k)

    def _k_loop(self, place: Place, inits: Sequence[ir.Value]) -> scf.ForOp:
        """An empty loop over the K steps."""
        build, steps = Builder.index(), self._k_steps(place)
        return scf.ForOp(build.constant(0), steps, build.constant(1), list(inits))

    def emit_producer(self, ring: ir.Value, place: Place, carried: list[ir.Value]) -> list[ir.Value]:
        """Fills one slot per K step; returns the cursor after the last.

        A third value that is carried turns K around: where it is 1 the steps are taken from the last to the first.
        """
        build, (slot, phase, *turned) = Builder.index(), carried
        if self.wait is not None:  # consumers follow the producer
            tile.AwaitWaveOp(self.wait.counter)
        loop = self._k_loop(place, [slot, phase])
        with ir.InsertionPoint(loop.body):
            slot, phase = loop.inner_iter_args
            step = loop.induction_variable
            for back in turned:
                from_last = build.sub(build.sub(loop.upperBound, 1), step)
                step = build.select(build.eq(back, 0), step, from_last)
            acquire = sm.ProducerAcquireOp(ring, slot, phase)
            self.staged.fill(acquire, self._places(place, step))
            advance = sm.RingAdvanceOp(ring, slot, phase)
            scf.YieldOp([advance.next_index, advance.next_phase])
        return [*loop.results, *(build.xor(back, 1) for back in turned)]

    def _places(self, place: Place, step: ir.Value) -> dict[ir.Value, ir.Value]:
        """What a role has in place of the work item's arguments and of where K step number `step` begins."""
        places = dict(zip(Place.of(self.work).values, place.values, strict=True))
        offset = Builder.index().mul(step, self._tile_k)
        k = offset if place.k0 is None else Builder.index().add(place.k0, offset)
        places[self.staged.loop.induction_variable] = k
        return places

    def emit_consumer(
        self, ring: ir.Value, place: Place, cursor: list[ir.Value], multiplied: Callable[[], None] = lambda: None
    ) -> list[ir.Value]:
        """Multiplies one slot per K step, then stores; returns the cursor after the last.

        `multiplied` emits what follows the loop.
        """
        start = tile.SplatOp(self.splat.result.type, self.splat.value).result
        loop = self._k_loop(place, [start, *cursor])
        keep_timing(self.staged.loop, loop)
        with ir.InsertionPoint(loop.body):
            acc, slot, phase = loop.inner_iter_args
            staged, scales, step = self.staged, [], loop.induction_variable
            if staged.is_scaled and not staged.stages_scales:  # first: they are read while the slot is waited for
                scales = staged.scales(self._places(place, step))
            wait = sm.ConsumerWaitOp(ring, slot, phase)
            buffers = staged.within(wait.buffers)
            if staged.stages_scales:
                scales = staged.scales(self._places(place, step), buffers)
            product = staged.multiply(buffers[:2], acc, start, step, scales)
            sm.ConsumerReleaseOp(ring, wait.slot)
            advance = sm.RingAdvanceOp(ring, slot, phase)
            scf.YieldOp([product, advance.next_index, advance.next_phase])
        multiplied()
        # Moved, not copied: the old work tiles are erased.
        for old, new in zip(Place.of(self.work).values, place.values, strict=True):
            old.replace_all_uses_with(new)
        self.staged.loop.results[0].replace_all_uses_with(loop.results[0])
        here = ir.InsertionPoint.current
        for op in self.rest:
            op.operation.detach_from_parent()
            here.insert(op.operation)
        return list(loop.results)[1:]


def _is_only_used_in(op: ir.OpView, loop: scf.ForOp) -> bool:
    """Whether every use of an op's result is by the loop or in it."""
    for use in op.operation.results[0].uses:
        owner = use.owner.operation
        while owner.block != loop.operation.block:
            owner = owner.parent
        if owner != loop.operation:
            return False
    return True


def zero() -> ir.Value:
    return Builder.index().constant(0)
