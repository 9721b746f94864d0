"""A ring that stays filled from one work tile of a CTA to the next (`prologue = once`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from mlir import ir
from mlir.dialects import arith, scf

from lowtide.dialects import sm, tile
from lowtide.dialects.enums import raster_kind, scheduler_kind
from lowtide.dialects.tile import RasterKind, RepeatKind, SchedulerKind
from lowtide.dialects.tile.schedule_parts import Mainloop
from lowtide.dialects.tile.work import Place
from lowtide.passes.base import Refusal
from lowtide.passes.pipelined.ring_loops import fill_slots, read_slots, start
from lowtide.passes.pipelined.staged_loop import NONE, Cursor, StagedLoop, Values
from lowtide.passes.support.ir.builder import Builder, constant_of, is_multiple
from lowtide.passes.support.ir.rewriting import after, carrying, yield_from

# The order in which consecutive work tiles read other rows of A; of B. CTA i of g takes tiles i, i + g, …. If the
# number of tiles along that side divides g, the CTA always reads the same rows.
_ALONG = (RasterKind.column, RasterKind.row)


@dataclass(frozen=True)
class FilledRing:
    """The K loop in its work tiles, the slots, the operands `kept`, and the K steps of a tile if it keeps any."""

    staged: StagedLoop
    work: tile.WorkTilesOp
    stages: int
    kept: tuple[int, ...]
    steps: int | None

    @classmethod
    def match(cls, staged: StagedLoop, mainloop: Mainloop, launches: Sequence[tile.LaunchOp]) -> "FilledRing":
        """Refuses a loop that is not in work tiles of whole tiles, work tiles that already carry values, and operands
        that the ring cannot keep."""
        work, stages = staged.work, mainloop.stages or 0
        if work is None or len(work.inits) or work.depth or work.ends:
            raise Refusal(
                staged.loop,
                "must stand in tile.work_tiles of whole tiles that carry nothing, for prologue = once"
                " [filled-ring-tiles]",
            )
        end, step = (constant_of(bound) for bound in staged.bounds[1:])
        steps = None if end is None or step is None else -(-end // step)
        kept = tuple(number for number, name in enumerate("ab") if mainloop.operand(name).load is RepeatKind.once)
        for number in kept:
            if not _is_shared(number, work, launches):
                side, order, most = "MN"[number], _ALONG[number], list(work.tile)[number]
                raise Refusal(
                    staged.loop,
                    f"{'ab'[number]}.load = once keeps what all work tiles of a CTA share: it needs one product, "
                    f"{side} known at compile time, and at most {most}, the extent of the tile, or scheduler = "
                    f"persistent, order = {order} and a multiple of the tiles along {side} as the number of CTAs"
                    " [kept-operand]",
                )
            if not steps or stages % steps:
                raise Refusal(
                    staged.loop,
                    f"{'ab'[number]}.load = once keeps a K step in each slot: it needs K steps, known at compile time, "
                    f"that divide the {stages} slots of the ring [kept-steps]",
                )
        return cls(staged, work, stages, kept, steps if kept else None)

    def fills(self) -> list[int]:
        """How many slots the prologue fills for the first tile and, if a tile has fewer `steps` than there are slots,
        for each of the tiles that follow. If no operand is kept, it fills for the first tile only."""
        ahead = self.stages - 1
        return [ahead] if self.steps is None else [min(self.steps, ahead - n) for n in range(0, ahead, self.steps)]

    def keep(self, ring: sm.RingOp) -> None:
        """Sets on the ring which operands it keeps, and for how many slots if slots share them."""
        if self.kept:
            ring.kept = ir.DenseI64ArrayAttr.get(self.kept)
        if self.steps not in (None, self.stages):
            ring.kept_stages = ir.IntegerAttr.get(ir.IntegerType.get_signless(64), self.steps)

    def emit(self, ring: ir.Value) -> None:
        """Makes work tiles carry the cursors and the trips of the prologue, which are 0 from the second tile on."""
        staged, build, fills = self.staged, Builder.index(), self.fills()
        with after(self.work):
            inits = [*map(build.constant, fills), *start(), *start()]
            work, carried = carrying(self.work, inits)
            with staged.barrier(-1):
                sm.ProducerTailOp(ring)
        trips, read, write = carried[: len(fills)], carried[-4:-2], carried[-2:]
        with after(staged.loop):
            write = fill_slots(staged, ring, trips[0], write)
            following = [_tile_ahead(work, number) for number, _ in enumerate(fills, start=1)]
            for trip, there in zip(trips[1:], following, strict=False):
                fill = partial(staged.fill, ring, values=there, operands=self.moving)
                write = fill_slots(staged, ring, trip, write, fill)
            is_first = arith.cmpi(arith.CmpIPredicate.ne, trips[0], build.constant(0)) if self.kept else None
            if len(fills) > 1:
                read, write = [self._at_step(read[0], 0), read[1]], [self._at_step(write[0], -1), write[1]]
            # Even if K is short, each tile has so many rounds that the loads ahead stay within the tiles that follow.
            steps = build.smax(staged.steps(), -(-(self.stages - 1) // len(fills)))
            fill = partial(self._fill_ahead, ring, following, steps, is_first)
            cursors = read_slots(staged, ring, steps, read, write, fill)
        with ir.InsertionPoint.at_block_terminator(work.body.blocks[0]):
            none = build.constant(0)
        yield_from(work, [*[none] * len(fills), *cursors])

    @property
    def moving(self) -> list[int]:
        """The operands that are not kept."""
        return [number for number in range(len(self.staged.copies)) if number not in self.kept]

    def _fill_ahead(
        self,
        ring: ir.Value,
        following: Sequence[Values],
        steps: ir.Value,
        is_first: ir.Value | None,
        cursor: Cursor,
        round_: ir.Value,
    ) -> None:
        """Fills a slot with the K step that runs ahead in this round of the loop: past the last of a tile's `steps`,
        with one of the tiles that follow.

        `following` maps the origin of the tile to that of the next one, then to that of the one after it, …. The
        operands that the ring keeps are copied in the first tile of the CTA only.
        """
        build = Builder.index()
        step = there = build.add(round_, self.stages - 1)
        origins = {here: here for here in following[0]}
        for number, after_it in enumerate(following, start=1):
            before_it = steps if number == 1 else build.mul(steps, build.constant(number))
            is_there = arith.cmpi(arith.CmpIPredicate.sge, step, before_it)
            there = arith.select(is_there, build.sub(step, before_it), there)
            origins = {here: arith.select(is_there, origin, origins[here]) for here, origin in after_it.items()}
        with self.staged.barrier(-1):
            acquire = sm.ProducerAcquireOp(ring, *cursor)
        self.staged.copy(acquire, there, origins, self.moving)
        if is_first is not None:
            is_here = arith.cmpi(arith.CmpIPredicate.slt, step, steps)
            branch = scf.IfOp(arith.andi(is_first, is_here))
            with ir.InsertionPoint(branch.then_block):
                self.staged.copy(acquire, step, NONE, self.kept)
                scf.YieldOp([])
        with self.staged.barrier(0):
            sm.ProducerCommitOp(ring, acquire.slot)

    def _at_step(self, slot: ir.Value, step: int) -> ir.Value:
        """The same slot, in a form that shows its remainder by the steps of a tile: the number of its K step."""
        build, steps = Builder.index(), self.steps or 1
        return build.add(build.mul(build.udiv(slot, steps), build.constant(steps)), step % steps)


def _tile_ahead(work: tile.WorkTilesOp, number: int) -> Values:
    """Maps the origin of this tile to that of the `number`-th tile after it."""
    index = ir.IndexType.get()
    batch = index if work.batches is not None else None
    there = tile.NextWorkTileOp(batch, index, index, ahead=number if number > 1 else None)
    here, after = Place.of(work), Place(m=there.m, n=there.n, batch=there.batch)
    return dict(zip(here.values, after.values, strict=True))


def _is_shared(number: int, work: tile.WorkTilesOp, launches: Sequence[tile.LaunchOp]) -> bool:
    """Whether all work tiles of a CTA read the same rows of A (0) or of B (1)."""
    extent = constant_of((work.rows, work.columns)[number])
    if extent is None or work.batches is not None:
        return False
    tiles = -(-extent // list(work.tile)[number])
    in_turn = scheduler_kind(work) is SchedulerKind.persistent and raster_kind(work.order) is _ALONG[number]
    return tiles == 1 or (in_turn and all(is_multiple(launch.grid, tiles) for launch in launches))
