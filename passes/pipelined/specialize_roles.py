"""specialize-roles: split the K loop into a producer that copies and consumers that multiply, joined by a ring.

Before   tile.work_tiles (%m, %n) of … persistent {
           scf.for %k … { sm.copy %at to %as; sm.copy %bt to %bs; sm.barrier; tile.mma tn %as, %bs, %c; sm.barrier }
           tile.store %acc into %d[%m, %n] … }
After    %ring = sm.ring : !sm.ring<4 x [A, B]>
         sm.roles {
           producer warps(4) registers(40) {
             tile.work_tiles … iter_args(%w, %wp) { scf.for … { acquire; copy_async ×2; commit; advance } } }
           consumer warps(8) registers(232) {
             tile.work_tiles … iter_args(%r, %rp) {
               scf.for … { sm.consumer_wait; tile.mma; sm.consumer_release; advance }
               tile.store … } } }
         Each role has its own work-tile loop; the ring and its cursors continue from one tile to the next. A kernel
         may have several such loops in sequence; cursors also continue from loop to loop. The slots have the size of
         the first loop's buffers, and a later loop with smaller ones uses a prefix of each (`sm.prefix`). A
         tile.await_wave at the start of a work tile becomes the producer's.
Needs    level pipelined, a kernel that pipeline-mainloop left unchanged; the schedule's `roles` = cooperative(n) and
         `stages`. Without `registers` the roles keep the registers at entry.
Refuses  a kernel of another form; a later loop whose buffers are larger than the first's; a schedule without stages.
Test     test/lit/passes/pipelined/specialize-roles.mlir, specialize-roles-{tail,waves,invalid}.mlir
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from mlir import ir
from mlir.dialects import arith, scf

from lowtide.dialects import sm, tile
from lowtide.dialects.levels import Level
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.pipelined.staged_loop import StagedLoop
from lowtide.passes.support.builder import Builder, constant_of
from lowtide.passes.support.kernels import kernels_of, schedule_of
from lowtide.passes.support.rewriting import before, defining_op, erase, move_region, ops_in
from lowtide.targets import Target
from lowtide.targets.atoms import WARPGROUP_WARPS

Pair: TypeAlias = tuple[ir.Value, ir.Value]  # (row, column) of a tile, or (slot, phase) of a cursor
EmitTile: TypeAlias = Callable[["_Work", ir.Value, Pair, Pair], Sequence[ir.Value]]  # of a ring, origin, cursor


@dataclass(frozen=True)
class SpecializeRoles(Pass):
    """Gives every kernel a producer and a consumer role."""

    name: ClassVar[str] = "specialize-roles"
    needs: ClassVar[Level] = Level.PIPELINED
    gives: ClassVar[Level] = Level.PIPELINED

    def run(self, module: ir.Module, target: Target) -> None:
        for kernel in kernels_of(module, roles=True):
            schedule = schedule_of(kernel, "mainloop.stages")
            loops = [_Work.match(work) for work in walk(kernel, tile.WorkTilesOp)]
            if loops:
                with loops[0].work.operation.location:
                    _specialize(loops, schedule)


def _specialize(loops: Sequence["_Work"], schedule: Schedule) -> None:
    """The roles in place of the loops, which they run one after the other."""
    assert schedule.mainloop.stages is not None
    registers = schedule.mainloop.registers or (0, 0)
    with before(loops[-1].work):  # what any of them reads stands above it
        ring = loops[0].staged.make_ring(schedule.mainloop.stages)
        roles = sm.RolesOp(
            ir.ArrayAttr.get([ir.StringAttr.get("producer"), ir.StringAttr.get("consumer")]),
            ir.DenseI64ArrayAttr.get([WARPGROUP_WARPS, WARPGROUP_WARPS * schedule.consumers]),
            ir.DenseI64ArrayAttr.get(list(registers)),
            2,
        )
    for region, emit in zip(roles.bodies, (_Work.emit_producer, _Work.emit_consumer), strict=True):
        with ir.InsertionPoint(region.blocks.append()):
            zero = Builder.index().constant(0)
            cursor = [zero, zero]
            for loop in loops:
                cursor = loop.emit_work(ring, cursor, emit)
            tile.YieldOp([])
    buffers = [buffer for loop in loops for buffer in loop.staged.buffers]
    for loop in loops:
        erase(loop.work)
    for buffer in buffers:
        erase(buffer.owner.opview)


@dataclass(frozen=True)
class _Work:
    """A loop over work tiles as assign-smem-layouts leaves it."""

    work: tile.WorkTilesOp
    splat: tile.SplatOp
    staged: StagedLoop
    store: tile.StoreOp
    wait: tile.AwaitWaveOp | None

    @classmethod
    def match(cls, work: tile.WorkTilesOp) -> "_Work":
        mmas, stores = walk(work, tile.MmaOp), walk(work, tile.StoreOp)
        if len(mmas) != 1 or len(stores) != 1 or len(work.inits):
            raise Refusal(work, "must hold one K loop and one tile.store, and carry nothing")
        staged, store = StagedLoop.match(mmas[0]), stores[0]
        splat = defining_op(staged.loop.initArgs[0])
        if not isinstance(splat, tile.SplatOp) or store.value != staged.loop.results[0]:
            raise Refusal(staged.loop, "must start from a tile.splat and give what tile.store stores")
        if constant_of(staged.tile_k) is None:
            raise Refusal(staged.loop, "must have a constant step, the K extent of the CTA tile")
        waits = walk(work, tile.AwaitWaveOp)
        for op in ops_in(work.body.blocks[0]):
            if op not in (splat, staged.loop, store, *waits[:1]) and not isinstance(op, arith.ConstantOp):
                raise Refusal(op, "belongs to no role: a work tile is its splat, its K loop and its tile.store")
        return cls(work, splat, staged, store, waits[0] if waits else None)

    def emit_work(self, ring: ir.Value, cursor: Sequence[ir.Value], emit: "EmitTile") -> list[ir.Value]:
        """A role's work tiles, which carry its cursor in the ring; returns it as it is after them."""
        index = ir.IndexType.get()
        work = tile.WorkTilesOp(
            [index, index],
            self.work.rows,
            self.work.columns,
            list(cursor),
            self.work.tile,
            self.work.order,
            self.work.scheduler,
            part=self.work.part,
        )
        body = work.body.blocks.append(*[index] * 4)
        with ir.InsertionPoint(body):
            row, column, slot, phase = body.arguments
            tile.YieldOp(list(emit(self, ring, (row, column), (slot, phase))))
        return list(work.results_)

    @property
    def _tile_k(self) -> int:
        """The step of the K loop."""
        step = constant_of(self.staged.tile_k)
        assert step is not None
        return step

    def _k_loop(self, inits: Sequence[ir.Value]) -> scf.ForOp:
        """An empty loop over the K steps."""
        build = Builder.index()
        steps = build.ceil_sdiv(self.staged.loop.upperBound, self._tile_k)
        return scf.ForOp(build.constant(0), steps, build.constant(1), list(inits))

    def emit_producer(self, ring: ir.Value, origin: Pair, cursor: Pair) -> list[ir.Value]:
        """Fills one slot per K step; returns the cursor after the last."""
        if self.wait is not None:  # consumers follow the producer
            tile.AwaitWaveOp(self.wait.counter)
        loop = self._k_loop(cursor)
        with ir.InsertionPoint(loop.body):
            slot, phase = loop.inner_iter_args
            acquire = sm.ProducerAcquireOp(ring, slot, phase)
            places = dict(zip(self.work.body.blocks[0].arguments, origin, strict=True))
            places[self.staged.loop.induction_variable] = Builder.index().mul(loop.induction_variable, self._tile_k)
            self.staged.fill(acquire, places)
            advance = sm.RingAdvanceOp(ring, slot, phase)
            scf.YieldOp([advance.next_index, advance.next_phase])
        return list(loop.results)

    def emit_consumer(self, ring: ir.Value, origin: Pair, cursor: Pair) -> list[ir.Value]:
        """Multiplies one slot per K step, then stores; returns the cursor after the last."""
        zero = tile.SplatOp(self.splat.result.type, self.splat.value).result
        loop = self._k_loop([zero, *cursor])
        with ir.InsertionPoint(loop.body):
            acc, slot, phase = loop.inner_iter_args
            wait = sm.ConsumerWaitOp(ring, slot, phase)
            product = tile.MmaOp(acc.type, self.staged.mma.layout, *self.staged.within(wait.buffers), acc).result
            sm.ConsumerReleaseOp(ring, wait.slot)
            advance = sm.RingAdvanceOp(ring, slot, phase)
            scf.YieldOp([product, advance.next_index, advance.next_phase])
        store = tile.StoreOp(
            loop.results[0], self.store.d, *origin, list(self.store.epilogue_operands), kinds=self.store.kinds
        )
        move_region(self.store.epilogue.blocks[0], store.epilogue)
        return list(loop.results)[1:]
