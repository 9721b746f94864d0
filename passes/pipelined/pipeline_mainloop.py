"""pipeline-mainloop: make a ring of stages of the buffers of the K loop, between the agents that fill and read it.

Before   tile.work_tiles (%m, %n) of … {
           scf.for %k = 0 to %K step 32 iter_args(%c) {
             sm.copy %at to %as; sm.copy %bt to %bs; sm.barrier
             %c2 = tile.mma tn %as, %bs, %c; sm.barrier }
           tile.store … }
After    %ring = sm.ring : !sm.ring<3 x [A, B]>                       (once, at the kernel's start)
         An agent that fills the ring has a loop of fills, an agent that reads it a loop of reads:
           scf.for %s = 0 to %trips iter_args(%w, %wp) { acquire %ring[%w, %wp]; copy_async ×2; commit; advance }
           scf.for %i = 0 to ceildiv(%K, 32) iter_args(%c, %r, %rp) {
             %full, %a, %b = sm.consumer_wait %ring[%r, %rp]
             %c2 = tile.mma tn %a, %b, %c
             sm.consumer_release %ring, %full; advance }
         The reader keeps all else that a work tile does, such as the exchange of partial sums.
         A single agent does both. It fills two slots, then one in each round of the loop of reads, of K step %i + 2.
         In the end it drains the ring: sm.producer_tail. Copies past K fill slots with zeros: windows are clipped.
         With prologue = once the ring is filled before the first tile of the CTA only. Work tiles carry its cursors
         and the trips of the loop of fills, 0 from the second tile on. The copies past K are those of the next tile:
           tile.work_tiles … iter_args(%fill, %r, %rp, %w, %wp) {
             %next_m, %next_n = tile.next_work_tile
             scf.for %s = 0 to %fill … {…}
             scf.for %i = 0 to max(ceildiv(%K, 32), 2) { … } ; tile.store …
             tile.yield 0, … }
           sm.producer_tail %ring
         With b.load = once the ring keeps B, and slot i that of K step i. Its copies are left to the first tile:
           %ring = sm.ring kept [1] : !sm.ring<3 x [A, B]>
           scf.for %i … { …; copy_async A; scf.if %fill != 0 and %i + 2 < steps { copy_async B }; commit; … }
         Slots may be a multiple of the K steps: the ring runs ahead by whole tiles, and each of them keeps the same B.
           %ring = sm.ring kept [1] of 2 : !sm.ring<6 x [A, B]>
           %next_m, %next_n = tile.next_work_tile; … = tile.next_work_tile ahead 2; … = tile.next_work_tile ahead 3
         A producer and a consumer are roles, each with its own work tiles. Its cursor goes on from tile to tile and
         from loop to loop. A later loop with smaller tiles uses a prefix of each buffer (`sm.prefix`):
           sm.roles {
             producer warps(4) registers(40) { tile.work_tiles … iter_args(%w, %wp) { the loop of fills } }
             consumer warps(8) registers(232) {
               tile.work_tiles … iter_args(%r, %rp) { the loop of reads; tile.store … } } }
         With copies by threads (a.copy = staged.2) the first role is `copiers`, and all its threads run. Otherwise it
         is `producer`, and one thread runs. A tile.await_wave or tile.await_arrival at the start of a work tile becomes
         the producer's.
         With k_order = serpentine the producer takes the K steps of every second work tile from the last to the first:
           tile.work_tiles … iter_args(%w, %wp, %back = 0) {
             scf.for %i … { … %step = select(%back == 0, %i, %steps - 1 - %i); copy_async of step %step … }
             yield …, %back xor 1 }
         With roles = pingpong(2) the consumer role has two instances, which take the work tiles in turn:
           %turn = sm.mbarriers arrivals(1) : !sm.mbarriers<2>
           consumer warps(4) instances(2) registers(232) {
             %instance = sm.role_instance; %r, %rp = sm.ring_advance %ring[0, 0] by %instance · %steps
             tile.work_tiles … in_turn iter_args(%r, %rp, %tp) {
               sm.mbarrier_wait %turn[%instance, %tp];  sm.barrier               (all its warps have taken the turn)
               scf.for … { … }
               sm.mbarrier_arrive %turn[%instance + 1 mod 2]                    (after a sm.barrier, if warps multiply)
               tile.store …
               sm.ring_advance %ring[…] by %steps } }                           (the K steps of the other's tile)
         One instance stores its tile while the other multiplies, but only one at a time reads the ring. Otherwise their
         wgmmas would compete. And the parity of an mbarrier tells a fill of a slot only from the one before and the one
         after, so an instance could mistake a fill for the other instance for its own.
Needs    level smem; the schedule's `stages` ≥ 2 and agents. Without `registers` roles keep the registers at entry.
Refuses  a K loop of another form; a schedule of fewer than two stages; to keep an operand that differs between the
         tiles of a CTA, or whose K steps do not divide the slots of the ring; a later loop whose buffers are larger
         than the first's; with roles, a K loop without work tiles of its own, what stands before it and would not hold
         up the producer, and a second loop beside instances that take turns.
Test     test/lit/passes/pipelined/pipeline-mainloop.mlir, pipeline-mainloop-{roles,pingpong,tail,waves,k-order}.mlir,
         pipeline-mainloop-{invalid,roles-invalid}.mlir
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from mlir import ir

from lowtide.dialects import sm, tile
from lowtide.dialects.levels import Level
from lowtide.dialects.sm import StepForm
from lowtide.dialects.sm.timing import Timing
from lowtide.dialects.tile import RepeatKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.dialects.tile.work import Place, add_body, work_like
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.pipelined.filled_ring import FilledRing
from lowtide.passes.pipelined.ring_loops import advanced, fill_slots, read_slots, start
from lowtide.passes.pipelined.staged_loop import Cursor, StagedLoop
from lowtide.passes.support.ir.builder import Builder, constant_of
from lowtide.passes.support.ir.rewriting import after, before, carrying, erase, ops_in, uses, yield_from
from lowtide.passes.support.problem.kernels import (
    COPIERS,
    PRODUCER,
    gemm_kernels,
    is_direct,
    launches_of,
    schedule_of,
)
from lowtide.targets import Target

_BEFORE_LOOP = (tile.AwaitWaveOp, tile.AwaitArrivalOp, tile.SplatOp, tile.MatrixExtentOp)


@dataclass(frozen=True)
class PipelineMainloop(Pass):
    """Software-pipelines the K loops of every kernel, for the agents of its schedule."""

    name: ClassVar[str] = "pipeline-mainloop"
    needs: ClassVar[Level] = Level.PIPELINED
    gives: ClassVar[Level] = Level.PIPELINED

    def run(self, module: ir.Module, target: Target) -> None:
        for kernel in gemm_kernels(module):
            mmas = [] if is_direct(kernel) else walk(kernel, tile.MmaOp)
            if mmas:
                schedule = schedule_of(kernel, "mainloop.stages")
                with mmas[0].operation.location:
                    _pipeline(kernel, [StagedLoop.match(mma) for mma in mmas], schedule, launches_of(module, kernel))


def _pipeline(
    kernel: tile.KernelOp, loops: Sequence[StagedLoop], schedule: Schedule, launches: Sequence[tile.LaunchOp]
) -> None:
    """Replaces the buffers by a ring, and the loops, which run one after the other, by its fills and reads."""
    mainloop = schedule.mainloop
    if (mainloop.stages or 0) < 2:
        raise Refusal(kernel, f"schedule has stages = {mainloop.stages}; a pipeline needs at least 2 [ring-stages]")
    for staged in loops:
        if Timing.of(staged.loop).steps is StepForm.unrolled and constant_of(staged.loop.upperBound) is None:
            raise Refusal(
                staged.loop, "unroll = full needs a K that is known at compile time; take none [unroll-known]"
            )
    buffers = [buffer for staged in loops for buffer in staged.buffers]
    type_ = sm.RingType.get(mainloop.stages, [buffer.type for buffer in loops[0].buffers])
    with ir.InsertionPoint.at_block_begin(kernel.body.blocks[0]), buffers[0].location:
        ring = sm.RingOp(type_)
    if schedule.agents.has_producer:
        _emit_roles(loops, ring.result, schedule)
    elif mainloop.prologue is RepeatKind.once:
        for filled in [FilledRing.match(staged, mainloop, launches) for staged in loops]:
            filled.keep(ring)
            filled.emit(ring.result)
    else:
        for staged in loops:
            _emit_single(staged, ring.result)
    for buffer in buffers:
        erase(buffer.owner.opview)


def _emit_single(staged: StagedLoop, ring: ir.Value) -> None:
    """One agent fills and reads. It fills all slots but one before the loop, and one slot in each round."""
    build, ahead, last_barrier = Builder.index(), ring.type.stages - 1, staged.barrier(-1)
    with after(staged.loop):
        filled = fill_slots(staged, ring, build.constant(ahead), start())
        read_slots(
            staged,
            ring,
            staged.steps(),
            start(),
            filled,
            lambda cursor, step: staged.fill(ring, cursor, build.add(step, ahead)),
        )
        with last_barrier:
            sm.ProducerTailOp(ring)


def _emit_roles(loops: Sequence[StagedLoop], ring: ir.Value, schedule: Schedule) -> None:
    """One agent fills and another reads: each is a role, with work tiles of its own."""
    agents = schedule.agents
    turns = agents.consumer.turns
    _check_work(loops, turns)
    names = [COPIERS if schedule.copied_by_threads else PRODUCER, "consumer"]
    with before(loops[-1].work):  # all values that the loops read are defined above it
        turn = sm.MbarriersOp(sm.MbarriersType.get(turns), 1).result if turns > 1 else None
        roles = sm.RolesOp(
            ir.ArrayAttr.get([ir.StringAttr.get(name) for name in names]),
            ir.DenseI64ArrayAttr.get([agents.producer.warps, agents.consumer.warps]),
            ir.DenseI64ArrayAttr.get(list(agents.registers)),
            2,
            instances=ir.DenseI64ArrayAttr.get([1, turns]) if turns > 1 else None,
        )
    filling, reading = (region.blocks.append() for region in roles.bodies)
    with ir.InsertionPoint(filling):
        carried = start(3 if schedule.turns_k_around else 2)
        for staged in loops:
            carried = _fill_tiles(staged, ring, carried)
        tile.YieldOp([])
    with ir.InsertionPoint(reading):
        cursor = start()
        for staged in loops:
            if turn is not None:
                by_warpgroups = schedule.multiply.atom is None or schedule.multiply.by_warpgroups
                _read_in_turn(staged, ring, turn, by_warpgroups)
            else:
                cursor = _read_tiles(staged, ring, cursor)
        tile.YieldOp([])
    for wait in walk(roles, tile.AwaitArrivalOp):
        if not list(uses(wait.source)):  # an agent that only reads stages; the agent that fills them waits
            erase(wait)


def _check_work(loops: Sequence[StagedLoop], turns: int) -> None:
    """Each K loop has work tiles of its own, and an agent that fills can begin them without the reader."""
    for number, staged in enumerate(loops):
        work = staged.work
        if work is None or len(work.inits) or work in [other.work for other in loops[:number]]:
            raise Refusal(
                staged.loop, "must be the one K loop of tile.work_tiles that carry nothing, for roles [role-tile]"
            )
        if turns > 1 and number:
            raise Refusal(
                work,
                "is a second loop over work tiles, and turns would begin anew there; take one loop [roles-second-loop]",
            )
        ops = ops_in(work.body.blocks[0])
        for op in ops[: ops.index(staged.loop)]:
            if not isinstance(op, _BEFORE_LOOP) and not op.operation.name.startswith(("arith.", "memref.")):
                raise Refusal(
                    op, "stands before the K loop, and another agent would not wait for it; put it behind [role-of-op]"
                )


def _fill_tiles(staged: StagedLoop, ring: ir.Value, carried: Sequence[ir.Value]) -> list[ir.Value]:
    """The work tiles of an agent that only fills; returns the values that they carry, after them: the cursor and, if K
    is turned around, a direction. If that is 1, the steps are taken from the last to the first."""
    old, build = staged.work, Builder.index()
    assert old is not None
    work = work_like(old, carried)
    body = add_body(work)
    values = dict(zip(Place.of(old).values, Place.of(work).values, strict=True))
    with ir.InsertionPoint(body):
        for wait in walk(old, tile.AwaitWaveOp):  # readers follow the agent that fills
            with wait.operation.location:
                tile.AwaitWaveOp(wait.counter)
            erase(wait)
        values = staged.outside(values)
        slot, phase, *turned = list(body.arguments)[-len(carried) :]
        steps = staged.steps(values)

        def fill(cursor: Cursor, step: ir.Value) -> None:
            for back in turned:
                from_last = build.sub(build.sub(steps, 1), step)
                step = build.select(build.eq(back, 0), step, from_last)
            staged.fill(ring, cursor, step, values)

        cursor = fill_slots(staged, ring, steps, (slot, phase), fill)
        tile.YieldOp([*cursor, *(build.xor(back, 1) for back in turned)])
    return list(work.results_)


def _read_tiles(staged: StagedLoop, ring: ir.Value, cursor: Cursor) -> list[ir.Value]:
    """The work tiles of an agent that only reads; returns the cursor after them."""
    assert staged.work is not None
    work, cursor = carrying(staged.work, cursor)
    with after(staged.loop):
        cursor = read_slots(staged, ring, staged.steps(), cursor)
    yield_from(work, cursor)
    return list(work.results_)


def _read_in_turn(staged: StagedLoop, ring: ir.Value, turn: ir.Value, by_warpgroups: bool) -> None:
    """The work tiles of an instance of the reader: it skips the K steps of the tiles that the others take.

    Warps that multiply by themselves meet before one of them passes the turn on.
    """
    build, turns = Builder.index(), turn.type.count
    instance, steps = sm.RoleInstanceOp().result, staged.steps(staged.outside(copies=False))
    first = advanced(ring, start(), build.mul(instance, steps))
    # Instance 0 begins: its wait for the parity before the first phase passes at once.
    parity = build.select(build.eq(instance, 0), 1, 0)
    following = build.urem(build.add(instance, 1), turns)
    assert staged.work is not None
    work, (*cursor, parity) = carrying(staged.work, [*first, parity], in_turn=True)
    with ir.InsertionPoint.at_block_begin(work.body.blocks[0]):
        sm.MbarrierWaitOp(turn, instance, parity)
        # One thread passes the turn on, and it may be back before another warp has seen it come, which would then wait
        # for a phase that has passed. So all have taken it before.
        sm.BarrierOp()
    with after(staged.loop):
        cursor = read_slots(staged, ring, steps, cursor)
        if not by_warpgroups:
            sm.BarrierOp()
        sm.MbarrierArriveOp(turn, following)
    with ir.InsertionPoint.at_block_terminator(work.body.blocks[0]):
        skipped = advanced(ring, cursor, build.mul(steps, turns - 1))
        parity = build.xor(parity, 1)
    yield_from(work, [*skipped, parity])
