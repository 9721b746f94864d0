"""The work items of each CTA in one thread's program: tiles, halves of tiles, or ranges of their K.

The scheduler hands out items by number: whole tiles, halves, or the parts of all tiles. For other divisions each CTA
has a list of its own. The number of K steps of all tiles may not fit in 32 bits, so it has 64.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from mlir import ir
from mlir.dialects import scf

from lowtide.dialects import tile
from lowtide.dialects.enums import k_division, work_part
from lowtide.dialects.tile import Coordinate, WorkPart
from lowtide.dialects.tile.division import Adder, Cut, Tiles
from lowtide.passes.nvvm.thread.clusters import ClusterPlace
from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.nvvm.work.schedulers import Bounds, Worker
from lowtide.passes.support.ir.builder import Builder, constant_of


class Item(NamedTuple):
    """The number of a work item's tile; if K is divided, the coordinates of its range of K; for a half, which one."""

    tile: ir.Value
    k0: ir.Value | None = None
    k1: ir.Value | None = None
    part: ir.Value | None = None
    parts: ir.Value | None = None
    slot: ir.Value | None = None
    half: ir.Value | None = None

    def range_of_k(self) -> dict[Coordinate, ir.Value]:
        """The coordinates of the range by name; empty if K is not divided."""
        names = Coordinate.k0, Coordinate.k1, Coordinate.part, Coordinate.parts, Coordinate.slot
        return {name: value for name in names if (value := getattr(self, name.name)) is not None}


@dataclass(frozen=True)
class Items:
    """The number of items in all, and each item by its number. `bounds`: of the CTA's own list, if it has one."""

    total: ir.Value
    at: Callable[[ir.Value], Item]
    bounds: Bounds | None = None


def items_of(context: Context, op: tile.WorkTilesOp, worker: Worker, tiles: ir.Value) -> Items:
    """The items of work tiles; `tiles` is the number of all tiles."""
    division = k_division(op)
    if division is None:
        return PARTS[work_part(op)](context.build, worker, tiles)
    if division.cut is Cut.shares:
        return _shared(context, op, worker, tiles, division.tiles)
    if division.tiles is Tiles.last_wave:
        return _tail(context, op, worker, tiles)
    return (_scatter if division.adder is Adder.each else _split)(context, op, worker, tiles)


def _all_tiles(build: Builder, worker: Worker, tiles: ir.Value) -> Items:
    return Items(tiles, Item)


def _full_waves(build: Builder, worker: Worker, tiles: ir.Value) -> Items:
    """The tiles that are not split."""
    return Items(_unsplit(build, worker, tiles), Item)


def _tail_halves(build: Builder, worker: Worker, tiles: ir.Value) -> Items:
    """Both halves of each tile that is split."""
    unsplit = _unsplit(build, worker, tiles)

    def at(index: ir.Value) -> Item:
        return Item(build.add(build.udiv(index, 2), unsplit), half=build.urem(index, 2))

    return Items(build.mul(build.sub(tiles, unsplit), 2), at)


def _unsplit(build: Builder, worker: Worker, total: ir.Value) -> ir.Value:
    """The number of tiles before a last wave that is at most half full; all tiles if it is fuller."""
    workers = worker.count(build)
    over = build.urem(total, workers)
    is_split = build.ule(over, build.udiv(workers, 2))
    return build.select(is_split, build.sub(total, over), total)


PARTS: dict[WorkPart, Callable[[Builder, Worker, ir.Value], Items]] = {
    WorkPart.all: _all_tiles,
    WorkPart.full_waves: _full_waves,
    WorkPart.tail_halves: _tail_halves,
}


@dataclass(frozen=True)
class _Depth:
    """The extent of K, and its steps."""

    extent: ir.Value
    step: int
    steps: ir.Value

    @classmethod
    def of(cls, context: Context, op: tile.WorkTilesOp) -> "_Depth":
        extent, step = context.scalar(op.depth), op.k_step.value
        build = context.build
        return cls(extent, step, build.udiv(build.add(extent, step - 1), step))

    def places(self, build: Builder, first: ir.Value, end: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Begin and end along K of the steps from `first` to `end`; the last step may reach past K."""
        return build.mul(first, self.step), build.umin(build.mul(end, self.step), self.extent)


@dataclass(frozen=True)
class _Parts:
    """The steps of a tile in parts. If the steps do not divide evenly, the first parts have one step more."""

    build: Builder
    cluster: ClusterPlace
    depth: _Depth
    count: ir.Value

    @classmethod
    def of(cls, context: Context, op: tile.WorkTilesOp, most: ir.Value | None = None) -> "_Parts":
        """As many parts as the op says, but at most one for each step, and at most `most`. If parts add shares, each
        has a step: the host has checked it."""
        build, depth, division = context.build, _Depth.of(context, op), k_division(op)
        has_steps = division is not None and division.is_scattered
        count = build.constant(op.k_parts.value) if has_steps else build.umin(depth.steps, op.k_parts.value)
        return cls(build, context.cluster, depth, count if most is None else build.umin(count, most))

    def _begin(self, part: ir.Value, each: ir.Value, over: ir.Value) -> ir.Value:
        return self.build.add(self.build.mul(part, each), self.build.umin(part, over))

    def item(self, number: ir.Value, part: ir.Value) -> Item:
        """A part of tile `number` or, in clusters, of the CTA's own tile of that super-tile."""
        build, cluster, steps = self.build, self.cluster, self.depth.steps
        share = build.udiv(steps, self.count), build.urem(steps, self.count)
        range_of_k = self.depth.places(build, self._begin(part, *share), self._begin(build.add(part, 1), *share))
        tile_number = build.add(build.mul(number, cluster.size), cluster.rank)
        return Item(number, *range_of_k, part, self.count, build.mul(tile_number, self.count))

    def either(self, most: int, item: Callable[["_Parts"], Item]) -> Item:
        """`item` of the parts. If there are `most` of them, as usual, it is computed with this constant: a division by
        a run-time value takes about 100 cycles, and the first load waits for three of them."""
        build = self.build
        if constant_of(self.count) is not None:
            return item(self)
        branch = scf.IfOp(build.eq(self.count, most), [build.i32] * 6, has_else=True)
        with ir.InsertionPoint(branch.then_block):
            scf.YieldOp(item(replace(self, count=build.constant(most)))[:6])
        with ir.InsertionPoint(branch.else_block):
            scf.YieldOp(item(self)[:6])
        return Item(*branch.results)


def _split(context: Context, op: tile.WorkTilesOp, worker: Worker, tiles: ir.Value) -> Items:
    """The parts of all tiles: those of a tile have consecutive numbers, and part 0 is the last of them."""
    build, parts = context.build, _Parts.of(context, op)

    def at(index: ir.Value) -> Item:
        return parts.either(op.k_parts.value, lambda found: _in_order(found, index))

    return Items(build.mul(tiles, parts.count), at)


def _in_order(parts: _Parts, index: ir.Value) -> Item:
    """Item `index` if the K of all tiles is divided; the last part of a tile comes first."""
    build = parts.build
    number, place = build.udiv(index, parts.count), build.urem(index, parts.count)
    return parts.item(number, build.sub(build.sub(parts.count, 1), place))


def _scatter(context: Context, op: tile.WorkTilesOp, worker: Worker, tiles: ir.Value) -> Items:
    """In each round, workers take the same part of all its tiles, which read the same K; then the next part.

    A round is a whole number of tiles; the last round may have fewer. A worker's own list goes by the first tile of
    each round, which saves a division before the first load.
    """
    build, cta, parts = context.build, worker.index, _Parts.of(context, op)
    workers = worker.count(build)
    most = build.udiv(workers, parts.count)

    def at(first: ir.Value) -> Item:
        here = build.umin(build.sub(tiles, first), most)
        part = build.udiv(cta, here)
        return parts.item(build.add(first, build.sub(cta, build.mul(part, here))), part)

    # A round of n tiles has n · parts workers.
    end = build.sub(tiles, build.udiv(cta, parts.count))
    return Items(build.mul(tiles, parts.count), at, (build.constant(0), end, most))


def _tail(context: Context, op: tile.WorkTilesOp, worker: Worker, tiles: ir.Value) -> Items:
    """Whole tiles in waves; then the others in rounds. In a round the last part of all its tiles is first, part 0 last.

    A round is a whole number of tiles, so that part 0 waits for workers with lower numbers only.
    """
    build, cta = context.build, worker.index
    workers = worker.count(build)
    parts = _Parts.of(context, op, workers)
    waves, over, most = build.udiv(tiles, workers), build.urem(tiles, workers), build.udiv(workers, parts.count)
    left = build.sub(over, build.umin(over, build.udiv(cta, parts.count)))
    rounds = build.udiv(build.add(left, build.sub(most, 1)), most)
    rounds = build.select(build.ult(cta, build.mul(most, parts.count)), rounds, 0)

    def of_tail(first: ir.Value) -> Item:
        here = build.umin(build.sub(over, first), most)
        place = build.udiv(cta, here)
        own = build.add(first, build.sub(cta, build.mul(here, place)))
        part = parts.item(own, build.sub(build.sub(parts.count, 1), place))
        return part._replace(tile=build.add(build.mul(waves, workers), own))

    def at(index: ir.Value) -> Item:
        zero, one = build.constant(0), build.constant(1)
        branch = scf.IfOp(build.ult(index, waves), [build.i32] * 6, has_else=True)  # a whole tile without divisions
        with ir.InsertionPoint(branch.then_block):
            steps = parts.depth.places(build, zero, parts.depth.steps)
            scf.YieldOp([build.add(build.mul(index, workers), cta), *steps, zero, one, zero])
        with ir.InsertionPoint(branch.else_block):
            scf.YieldOp(of_tail(build.mul(build.sub(index, waves), most))[:6])
        return Item(*branch.results)

    return Items(tiles, at, (build.constant(0), build.add(waves, rounds), build.constant(1)))


def _shared(context: Context, op: tile.WorkTilesOp, worker: Worker, tiles: ir.Value, which: Tiles) -> Items:
    """Whole tiles in waves, and for each CTA its share of the steps of the other tiles.

    Shares are numbered from the last CTA to the first, so that part 0, at the end of a share, waits for the beginnings
    of shares of lower-numbered CTAs.
    """
    build, cta, waves = context.build, worker.index, _waves(context.build, worker, tiles, which)
    depth = _Depth.of(context, op)
    ctas = worker.count(build)
    first_tile = build.mul(waves, ctas)
    shares = _Shares(
        build, build.zext(build.sub(tiles, first_tile), build.i64), build.zext(depth.steps, build.i64), ctas
    )
    share = build.sub(build.sub(ctas, 1), cta)
    begin, end = shares.begin(share), shares.begin(build.add(share, 1))
    streams = build.ult(begin, end)
    first, last = shares.tile_of(begin), shares.tile_of(build.sub(end, 1))
    count = build.select(streams, build.add(build.sub(last, first), 1), 0)

    def at(index: ir.Value) -> Item:
        is_whole = build.ult(index, waves)
        streamed = build.add(first, build.sub(index, waves))
        start = build.mul(build.zext(streamed, build.i64), shares.steps)
        low = build.trunc(build.sub(build.umax(begin, start), start), build.i32)
        high = build.trunc(build.sub(build.umin(end, build.add(start, shares.steps)), start), build.i32)
        owner, final = shares.holder(start), shares.holder(build.sub(build.add(start, shares.steps), 1))
        number = build.select(is_whole, build.add(build.mul(index, ctas), cta), build.add(first_tile, streamed))
        range_of_k = depth.places(build, build.select(is_whole, 0, low), build.select(is_whole, depth.steps, high))
        part = build.select(is_whole, 0, build.sub(share, owner))
        parts = build.select(is_whole, 1, build.add(build.sub(final, owner), 1))
        return Item(number, *range_of_k, part, parts, build.select(is_whole, share, owner))

    bounds = build.constant(0), build.add(waves, count), build.constant(1)
    return Items(tiles, at, bounds)


def _waves(build: Builder, worker: Worker, tiles: ir.Value, divided: Tiles) -> ir.Value:
    """The number of waves of whole tiles, which come first: all waves if all are full, else all but the last two."""
    if divided is Tiles.all:
        return build.constant(0)
    workers = worker.count(build)
    full, rest = build.udiv(tiles, workers), build.urem(tiles, workers)
    one_less = build.select(build.eq(full, 0), 0, build.sub(full, 1))
    return build.select(build.eq(rest, 0), full, one_less)


@dataclass(frozen=True)
class _Shares:
    """Even shares of the steps of `tiles` tiles: share s begins at step s · all / shares. Steps are i64, shares i32."""

    build: Builder
    tiles: ir.Value
    steps: ir.Value
    shares: ir.Value

    @property
    def _all(self) -> ir.Value:
        return self.build.mul(self.tiles, self.steps)

    def _wide(self, value: ir.Value) -> ir.Value:
        return self.build.zext(value, self.build.i64)

    def begin(self, share: ir.Value) -> ir.Value:
        return self.build.udiv(self.build.mul(self._wide(share), self._all), self._wide(self.shares))

    def holder(self, step: ir.Value) -> ir.Value:
        """The share that holds a step: the last one that begins at or before it."""
        build = self.build
        after = build.mul(build.add(step, 1), self._wide(self.shares))
        return build.trunc(build.udiv(build.sub(after, 1), build.umax(self._all, 1)), build.i32)

    def tile_of(self, step: ir.Value) -> ir.Value:
        return self.build.trunc(self.build.udiv(step, self.steps), self.build.i32)
