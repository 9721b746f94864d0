"""pipeline-mainloop: turn the two buffers of the K loop into a ring of stages, with copies running ahead.

Before   scf.for %k = 0 to %K step 32 iter_args(%c) {
           sm.copy %at to %as; sm.copy %bt to %bs; sm.barrier
           %c2 = tile.mma tn %as, %bs, %c; sm.barrier }
After    %ring = sm.ring : !sm.ring<3 x [A, B]>                       (once, at the kernel's start)
         scf.for %s = 0 to 2 iter_args(%w, %wp) { acquire; copy_async ×2; commit; advance }        (prologue)
         scf.for %i = 0 to ceildiv(%K, 32) iter_args(%c, %r, %rp, %w, %wp) {
           %full, %a, %b = sm.consumer_wait %ring[%r, %rp]
           acquire %ring[%w, %wp]; copy_async of the K step %i + 2; commit
           %c2 = tile.mma tn %a, %b, %c
           sm.consumer_release %ring, %full; advance both }
         sm.producer_tail %ring
         Copies past K need no special case: windows clip, so they fill their slots with zeros.
         With prologue = once the ring is filled before the first tile of the CTA only. Work tiles carry its cursors
         and the trips of the prologue, 0 from the second tile on. The copies past K are those of the next tile:
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
Needs    level smem; the schedule's `stages` ≥ 2.
Refuses  a K loop of another form; a schedule of fewer than two stages; to keep an operand that differs between the
         tiles of a CTA, or whose K steps do not divide the slots of the ring.
Test     test/lit/passes/pipelined/pipeline-mainloop.mlir, pipeline-mainloop-invalid.mlir
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from mlir import ir
from mlir.dialects import arith, scf

from lowtide.dialects import sm, tile
from lowtide.dialects.enums import raster_kind, scheduler_kind
from lowtide.dialects.levels import Level
from lowtide.dialects.sm import StepForm
from lowtide.dialects.sm.timing import Timing, keep_timing
from lowtide.dialects.tile import RasterKind, RepeatKind, SchedulerKind
from lowtide.dialects.tile.work import Place, work_like
from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.pipelined.staged_loop import StagedLoop
from lowtide.passes.support.ir.builder import Builder, constant_of, is_multiple
from lowtide.passes.support.ir.rewriting import before, erase, move_region, replace
from lowtide.passes.support.problem.kernels import is_direct, kernels_of_one_agent, launches_of, schedule_of
from lowtide.targets import Target

Cursor: TypeAlias = tuple[ir.Value, ir.Value]  # slot and phase

# The order in which consecutive work tiles read other rows of A, and of B. CTA i of g takes tiles i, i + g, …: it stays
# with the same rows where the number of tiles along that side divides g.
_ALONG = (RasterKind.column, RasterKind.row)


@dataclass(frozen=True)
class PipelineMainloop(Pass):
    """Software-pipelines the K loop of every kernel, in one role."""

    name: ClassVar[str] = "pipeline-mainloop"
    needs: ClassVar[Level] = Level.PIPELINED
    gives: ClassVar[Level] = Level.PIPELINED

    def run(self, module: ir.Module, target: Target) -> None:
        for kernel in kernels_of_one_agent(module):
            if is_direct(kernel):
                continue
            schedule = schedule_of(kernel, "mainloop.stages")
            stages = schedule.mainloop.stages
            for mma in walk(kernel, tile.MmaOp):
                if stages is None or stages < 2:
                    raise Refusal(kernel, f"schedule has stages = {stages}; a pipeline needs at least 2 [ring-stages]")
                loop = StagedLoop.match(mma)
                unrolled = Timing.of(loop.loop).steps is StepForm.unrolled
                if unrolled and constant_of(loop.loop.upperBound) is None:
                    raise Refusal(
                        loop.loop, "unroll = full needs a K that is known at compile time; take none [unroll-known]"
                    )
                with mma.operation.location:
                    if schedule.mainloop.prologue is RepeatKind.once:
                        _pipeline_across_tiles(kernel, loop, stages, launches_of(module, kernel))
                    else:
                        _pipeline(kernel, loop, stages)


def _pipeline(kernel: tile.KernelOp, staged: StagedLoop, stages: int) -> None:
    buffers = staged.buffers
    with ir.InsertionPoint.at_block_begin(kernel.body.blocks[0]):
        ring = staged.make_ring(stages)
    with before(staged.loop):
        build = Builder.index()
        start = build.constant(0), build.constant(0)
        filled = _emit_prologue(staged, ring, build.constant(stages - 1), start)
        loop = _emit_main_loop(staged, ring, stages, start, filled, Ahead())
        sm.ProducerTailOp(ring)
    replace(staged.loop, [loop.results[0]])
    for buffer in buffers:
        erase(buffer.owner.opview)


def _pipeline_across_tiles(
    kernel: tile.KernelOp, staged: StagedLoop, stages: int, launches: Sequence[tile.LaunchOp]
) -> None:
    """As `_pipeline`, for a ring that stays filled from one work tile to the next."""
    work = _work_tiles(staged)
    buffers = staged.buffers
    build = Builder.index()
    index = ir.IndexType.get()
    kept = _kept(kernel, staged, work, stages, launches)
    steps = _known_steps(staged) if kept else None
    fills = _fills(stages, steps)
    with ir.InsertionPoint.at_block_begin(kernel.body.blocks[0]):
        ring = staged.make_ring(stages, kept, None if steps == stages else steps)
    with before(work):
        zero = build.constant(0)
        inits = [*map(build.constant, fills), zero, zero, zero, zero]
        new = work_like(work, inits)
        sm.ProducerTailOp(ring)
    move_region(work.body.blocks[0], new.body)
    erase(work)
    body = new.body.blocks[0]
    *trips, read, read_phase, write, write_phase = (body.add_argument(index, ir.Location.unknown()) for _ in inits)
    with before(staged.loop):
        filled = _emit_prologue(staged, ring, trips[0], (write, write_phase))
        following = [_tile_ahead(new, number) for number, _ in enumerate(fills, start=1)]
        for trip, there in zip(trips[1:], following, strict=False):
            filled = _emit_prologue(staged, ring, trip, filled, there, kept)
        is_first = arith.cmpi(arith.CmpIPredicate.ne, trips[0], build.constant(0)) if kept else None
        ahead = Ahead(following, kept, is_first)
        if steps is not None and len(fills) > 1:
            read, filled = _at_step(read, 0, steps), (_at_step(filled[0], steps - 1, steps), filled[1])
        loop = _emit_main_loop(staged, ring, stages, (read, read_phase), filled, ahead)
    replace(staged.loop, [loop.results[0]])
    end = body.operations[len(body.operations) - 1]
    with before(end.opview):
        tile.YieldOp([*[build.constant(0)] * len(fills), *list(loop.results)[1:]])
    erase(end.opview)
    for buffer in buffers:
        erase(buffer.owner.opview)


def _fills(stages: int, steps: int | None) -> list[int]:
    """How many slots the prologue fills for the first tile, and for those that follow where slots are more than its
    `steps`. None where an open number of them may be fewer than the slots."""
    ahead = stages - 1
    return [ahead] if steps is None else [min(steps, ahead - first) for first in range(0, ahead, steps)]


def _tile_ahead(work: tile.WorkTilesOp, number: int) -> dict[ir.Value, ir.Value]:
    """The origin of the `number`-th tile after this one, by that of this one."""
    index = ir.IndexType.get()
    batch = index if work.batches is not None else None
    there = tile.NextWorkTileOp(batch, index, index, ahead=number if number > 1 else None)
    here, after = Place.of(work), Place(m=there.m, n=there.n, batch=there.batch)
    return dict(zip(here.values, after.values, strict=True))


def _at_step(slot: ir.Value, step: int, steps: int) -> ir.Value:
    """A slot of this K step of a tile, where slots are a multiple of `steps`. It is the same slot, and the code after
    this one can know its remainder."""
    build = Builder.index()
    return build.add(build.mul(build.udiv(slot, steps), build.constant(steps)), step)


def _known_steps(staged: StagedLoop) -> int | None:
    """The number of K steps, where it is known at compile time."""
    end, step = constant_of(staged.loop.upperBound), constant_of(staged.tile_k)
    return None if end is None or step is None else -(-end // step)


def _work_tiles(staged: StagedLoop) -> tile.WorkTilesOp:
    """The work tiles whose body holds the K loop.

    Refuses another place, and work tiles that carry values already or are ranges of K.
    """
    parent = staged.loop.operation.parent.opview
    if not isinstance(parent, tile.WorkTilesOp) or len(parent.inits) or parent.depth or parent.ends:
        raise Refusal(
            staged.loop,
            "must stand in tile.work_tiles of whole tiles that carry nothing, for prologue = once [filled-ring-tiles]",
        )
    return parent


def _kept(
    kernel: tile.KernelOp,
    staged: StagedLoop,
    work: tile.WorkTilesOp,
    stages: int,
    launches: Sequence[tile.LaunchOp],
) -> tuple[int, ...]:
    """The operands that the schedule loads once. Refuses those that slots of their own cannot keep."""
    mainloop = schedule_of(kernel).mainloop
    kept = tuple(number for number, name in enumerate("ab") if mainloop.operand(name).load is RepeatKind.once)
    steps = _known_steps(staged)
    for number in kept:
        if not _is_shared(number, work, launches):
            side, order, most = "MN"[number], _ALONG[number], list(work.tile)[number]
            raise Refusal(
                staged.loop,
                f"{'ab'[number]}.load = once keeps what all work tiles of a CTA share: it needs one product, {side} "
                f"known at compile time, and at most {most}, the extent of the tile, or scheduler = persistent, "
                f"order = {order} and a multiple of the tiles along {side} as the number of CTAs [kept-operand]",
            )
        if not steps or stages % steps:
            raise Refusal(
                staged.loop,
                f"{'ab'[number]}.load = once keeps a K step in each slot: it needs K steps, known at compile time, "
                f"that divide the {stages} slots of the ring [kept-steps]",
            )
    return kept


def _is_shared(number: int, work: tile.WorkTilesOp, launches: Sequence[tile.LaunchOp]) -> bool:
    """Whether all work tiles of a CTA read the same rows of A (0) or of B (1)."""
    extent = constant_of((work.rows, work.columns)[number])
    if extent is None or work.batches is not None:
        return False
    tiles = -(-extent // list(work.tile)[number])
    in_turn = scheduler_kind(work) is SchedulerKind.persistent and raster_kind(work.order) is _ALONG[number]
    return tiles == 1 or (in_turn and all(is_multiple(launch.grid, tiles) for launch in launches))


def _emit_prologue(
    staged: StagedLoop,
    ring: ir.Value,
    slots: ir.Value,
    cursor: Cursor,
    origin: Mapping[ir.Value, ir.Value] | None = None,
    kept: Sequence[int] = (),
) -> Cursor:
    """Fills a number of slots; returns the cursor of the next slot to fill. They are those of this tile or, without the
    operands `kept`, of a tile at another origin."""
    build = Builder.index()
    loop = scf.ForOp(build.constant(0), slots, build.constant(1), list(cursor))
    Timing(steps=Timing.of(staged.loop).steps).write(loop)
    with ir.InsertionPoint(loop.body):
        write, phase = loop.inner_iter_args
        places = {**(origin or {}), staged.loop.induction_variable: loop.induction_variable}
        _emit_fill(staged, ring, (write, phase), places, kept if origin else ())
        advance = sm.RingAdvanceOp(ring, write, phase)
        scf.YieldOp([advance.next_index, advance.next_phase])
    return loop.results[0], loop.results[1]


def _emit_fill(
    staged: StagedLoop,
    ring: ir.Value,
    cursor: Cursor,
    places: Mapping[ir.Value, ir.Value],
    kept: Sequence[int] = (),
) -> None:
    """Acquires a slot, starts copies into it and commits. They read the loop's windows at `places`, K by its step; the
    operands `kept` are there already."""
    acquire = sm.ProducerAcquireOp(ring, *cursor)
    step = staged.loop.induction_variable
    moving = [number for number in range(len(staged.copies)) if number not in kept]
    staged.start_copies(acquire, {**places, step: staged.place(places[step])}, moving)
    sm.ProducerCommitOp(ring, acquire.slot)


@dataclass(frozen=True)
class Ahead:
    """What the main loop loads past the last K step of its tile: nothing (zeros), or those of the tiles that follow.

    `following` maps the origin of the tile to that of the next one, then to that of the one after it, …. The operands
    `kept` are loaded in the first tile of the CTA only.
    """

    following: Sequence[Mapping[ir.Value, ir.Value]] = ()
    kept: Sequence[int] = ()
    is_first: ir.Value | None = None

    def emit_fill(self, staged: StagedLoop, ring: ir.Value, cursor: Cursor, step: ir.Value, steps: ir.Value) -> None:
        """Fills a slot with K step number `step`, of `steps` of the tile."""
        build, loop_step = Builder.index(), staged.loop.induction_variable
        if not self.following:
            _emit_fill(staged, ring, cursor, {loop_step: step})
            return
        step_there, origins = step, {here: here for here in self.following[0]}
        for number, following in enumerate(self.following, start=1):
            before_it = steps if number == 1 else build.mul(steps, build.constant(number))
            is_there = arith.cmpi(arith.CmpIPredicate.sge, step, before_it)
            step_there = arith.select(is_there, build.sub(step, before_it), step_there)
            origins = {here: arith.select(is_there, there, origins[here]) for here, there in following.items()}
        acquire = sm.ProducerAcquireOp(ring, *cursor)
        place = staged.place(step_there)
        moving = [number for number in range(len(staged.copies)) if number not in self.kept]
        staged.start_copies(acquire, {**origins, loop_step: place}, moving)
        if self.is_first is not None:
            is_here = arith.cmpi(arith.CmpIPredicate.slt, step, steps)
            branch = scf.IfOp(arith.andi(self.is_first, is_here))
            with ir.InsertionPoint(branch.then_block):
                staged.start_copies(acquire, {loop_step: staged.place(step)}, self.kept)
                scf.YieldOp([])
        sm.ProducerCommitOp(ring, acquire.slot)


def _emit_main_loop(
    staged: StagedLoop,
    ring: ir.Value,
    stages: int,
    read_cursor: Cursor,
    write_cursor: Cursor,
    ahead: Ahead,
) -> scf.ForOp:
    """The loop over K steps; its results are the accumulator and both cursors.

    Where steps of the tiles that follow are loaded in the last ones, there are enough for those tiles to be enough.
    """
    build = Builder.index()
    zero, one = build.constant(0), build.constant(1)
    steps = staged.steps()
    if ahead.following:
        steps = build.smax(steps, -(-(stages - 1) // len(ahead.following)))
    init = staged.loop.initArgs[0]
    loop = scf.ForOp(zero, steps, one, [init, *read_cursor, *write_cursor])
    keep_timing(staged.loop, loop)
    with ir.InsertionPoint(loop.body):
        acc, read, read_phase, fill, fill_phase = loop.inner_iter_args
        wait = sm.ConsumerWaitOp(ring, read, read_phase)
        ahead.emit_fill(staged, ring, (fill, fill_phase), build.add(loop.induction_variable, stages - 1), steps)
        product = staged.multiply(wait.buffers, acc, init, loop.induction_variable)
        sm.ConsumerReleaseOp(ring, wait.slot)
        next_read = sm.RingAdvanceOp(ring, read, read_phase)
        next_fill = sm.RingAdvanceOp(ring, fill, fill_phase)
        scf.YieldOp([product, next_read.next_index, next_read.next_phase, next_fill.next_index, next_fill.next_phase])
    return loop
