"""The work items of each CTA, and their coordinates: schedulers in one thread's program.

In clusters, a cluster takes super-tiles as a CTA takes tiles, and each of its CTAs its own tile of them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TypeAlias, TypeVar

from mlir import ir
from mlir.dialects import nvvm, scf

from lowtide.dialects import sm, tile
from lowtide.dialects.enums import k_division_kind, raster_kind, scheduler_kind, work_part
from lowtide.dialects.tile import Coordinate, SchedulerKind, WorkPart
from lowtide.dialects.tile.work import Place, carried_by
from lowtide.passes.base import Refusal
from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.nvvm.thread.control import LowerBlock, bind_all
from lowtide.passes.nvvm.thread.values import GlobalMatrix, flatten
from lowtide.passes.nvvm.work.grids import Grids, grids_of
from lowtide.passes.nvvm.work.k_ranges import ITEMS, Bounds, Item, Items
from lowtide.passes.nvvm.work.orders import ORDERS
from lowtide.passes.support.builder import Builder, Scalar
from lowtide.passes.support.kernels import cluster_shape

Share: TypeAlias = tuple[Scalar, ir.Value]  # a first tile, a number of work tiles

Word = TypeVar("Word", bound=IntEnum)
Lowering = TypeVar("Lowering")


def lower_work_tiles(context: Context, op: tile.WorkTilesOp, lower_block: LowerBlock) -> None:
    """This CTA's work items: one, or a loop over those assigned to it, which carries the op's values."""
    build, body = context.build, op.body.blocks[0]
    cluster = _cluster(context, op)
    grids = grids_of(context, op, (op.tile[0] * _pieces(op) * cluster[0], op.tile[1] * cluster[1]))
    worker = Worker.of(context)
    inits = [context.get(value) for value in op.inits]
    carried = list(carried_by(op))
    scheduler = scheduler_kind(op)
    items = _lowering_of(op, "division of K", k_division_kind(op), ITEMS)(context, op, worker.index, grids.total())
    if scheduler is SchedulerKind.one_shot:
        context.values.update(zip(carried, inits, strict=True))
        _bind_place(context, op, items.at(worker.index), grids)
        lower_block(context, body)
        yielded = list(body.operations)[-1].operands
        context.values.update(zip(op.results_, map(context.get, yielded), strict=True))
        return
    take = _lowering_of(op, "part", work_part(op), _PARTS)
    first, count = take(build, worker, items.total)
    bounds = items.bounds or _lowering_of(op, "scheduler", scheduler, _LOOPS)(build, worker, count)
    if op.in_turn and context.instance is not None:
        bounds = _in_turn(build, bounds, context.instance, context.instances)
    loop = scf.ForOp(*bounds, [v for init in inits for v in flatten(init)])
    bind_all(context, carried, inits, list(loop.inner_iter_args))
    with ir.InsertionPoint(loop.body):
        inner = replace(context, work_tiles=build.mul(count, context.cluster.size))
        _place_next(inner, op, loop.induction_variable, bounds, items, grids, first)
        _bind_place(inner, op, items.at(loop.induction_variable), grids, first)
        lower_block(inner, body)
        yielded = list(body.operations)[-1].operands
        scf.YieldOp([value for old in yielded for value in flatten(context.get(old))])
    bind_all(context, list(op.results_), inits, list(loop.results))


def lower_await_wave(context: Context, op: tile.AwaitWaveOp) -> None:
    """By the one thread of a producer."""
    counter = context.get(op.counter)
    assert isinstance(counter, GlobalMatrix)
    if not context.elected or context.work_tiles is None:
        raise Refusal(
            op,
            "is run by the one thread of a producer, in its work tiles; take roles = cooperative(2) [await-wave-place]",
        )
    sm.PtxAwaitWaveOp(counter.pointer, context.work_tiles, nvvm.GridDimXOp(context.build.i32).result)


@dataclass(frozen=True)
class Worker:
    """What takes work tiles: a CTA or, of a kernel that is launched in clusters, a cluster. Its number; `count` is how
    many there are."""

    index: ir.Value
    in_clusters: bool

    @classmethod
    def of(cls, context: Context) -> "Worker":
        """The worker that this CTA belongs to."""
        in_clusters, i32 = context.cluster.size > 1, context.build.i32
        return cls((nvvm.ClusterIdXOp if in_clusters else nvvm.BlockIdXOp)(i32).result, in_clusters)

    def count(self, build: Builder) -> ir.Value:
        """Reads the number of workers at the insertion point."""
        return (nvvm.ClusterDimXOp if self.in_clusters else nvvm.GridDimXOp)(build.i32).result


def _cluster(context: Context, op: tile.WorkTilesOp) -> tuple[int, int]:
    """The tiles of a super-tile along M and N. Refuses those of another cluster than the launch's."""
    shape = cluster_shape(op.cluster)
    if shape != context.cluster.shape:
        launched = list(context.cluster.shape)
        raise Refusal(
            op,
            f"hands tiles to clusters of {list(shape)}, but the launch has clusters of {launched} [tiles-of-cluster]",
        )
    return shape


def _lowering_of(op: tile.WorkTilesOp, what: str, word: Word, lowerings: dict[Word, Lowering]) -> Lowering:
    """The lowering of an enum's word. Refuses a word that has none."""
    if word not in lowerings:
        raise Refusal(
            op, f"has the {what} {word}, which has no lowering; take {', '.join(map(str, lowerings))} [no-lowering]"
        )
    return lowerings[word]


def _bind_place(context: Context, op: tile.WorkTilesOp, item: Item, grids: Grids, first: Scalar = 0) -> None:
    """Gives the body its coordinates of an item, those of the op beginning in tile `first` of the order."""
    found = {**_origin_of(context, op, item.tile, grids, first), **item.range_of_k()}
    place = Place.of(op)
    context.values.update({getattr(place, each.name): value for each, value in found.items()})


def _origin_of(
    context: Context, op: tile.WorkTilesOp, index: ir.Value, grids: Grids, first: Scalar
) -> dict[Coordinate, ir.Value]:
    """The coordinates of the work tile with a number, counted from `first`; of a super-tile, those of the CTA's own."""
    build, pieces, cluster = context.build, _pieces(op), context.cluster
    spot = grids.find(build.add(build.udiv(index, pieces), first))
    order = _lowering_of(op, "order", raster_kind(op.order), ORDERS)
    row, column = order(build, op.order, spot.index, spot.tiles)
    row = build.add(build.mul(row, pieces), build.urem(index, pieces)) if pieces > 1 else row
    members = zip(cluster.shape, (cluster.row, cluster.column), strict=True)
    m, n = (
        build.mul(build.add(build.mul(place, side), own), extent)
        for place, extent, (side, own) in zip((row, column), op.tile, members, strict=True)
    )
    return {**spot.coordinates, Coordinate.m: build.add(spot.first_row, m), Coordinate.n: n}


def _place_next(
    context: Context, op: tile.WorkTilesOp, index: ir.Value, bounds: Bounds, items: Items, grids: Grids, first: Scalar
) -> None:
    """Gives each tile.next_work_tile of the body the coordinates of that tile; of this one if there is none."""
    build = context.build
    for reader in op.body.blocks[0].operations:
        if isinstance(reader, tile.NextWorkTileOp):
            ahead = 1 if reader.ahead is None else reader.ahead.value
            after = build.add(index, build.mul(bounds[2], ahead) if ahead > 1 else bounds[2])
            following = build.select(build.ult(after, bounds[1]), after, index)
            found = _origin_of(context, op, items.at(following).tile, grids, first)
            context.values.update({getattr(reader, each.name): value for each, value in found.items()})


def lower_next_work_tile(context: Context, op: tile.NextWorkTileOp) -> None:
    """Nothing is left to do: the work tiles that it stands in gave it its results."""
    if op.m not in context.values:
        raise Refusal(
            op,
            "stands in one_shot work tiles, in which no tile follows; take persistent or even_split"
            " [next-tile-one-shot]",
        )


def _pieces(op: tile.WorkTilesOp) -> int:
    """How many work tiles of the op, one below the other, are a tile of the order."""
    return 2 if work_part(op) is WorkPart.tail_halves else 1


def _every_tile(build: Builder, worker: Worker, total: ir.Value) -> Share:
    return 0, total


def _full_waves(build: Builder, worker: Worker, total: ir.Value) -> Share:
    """The tiles that are not split."""
    return 0, _unsplit(build, worker, total)


def _tail_halves(build: Builder, worker: Worker, total: ir.Value) -> Share:
    """Both halves of each tile that is split."""
    unsplit = _unsplit(build, worker, total)
    return unsplit, build.mul(build.sub(total, unsplit), 2)


def _unsplit(build: Builder, worker: Worker, total: ir.Value) -> ir.Value:
    """The number of tiles before those of a last wave that is at most half full; all if it is fuller."""
    workers = worker.count(build)
    over = build.urem(total, workers)
    is_split = build.ule(over, build.udiv(workers, 2))
    return build.select(is_split, build.sub(total, over), total)


def _every_nth(build: Builder, worker: Worker, total: ir.Value) -> Bounds:
    """Worker i of g takes tiles i, i + g, …"""
    return worker.index, total, worker.count(build)


def _even_run(build: Builder, worker: Worker, total: ir.Value) -> Bounds:
    """Worker i takes the i-th run of neighbouring tiles; the first total mod g workers take one more.

    Uses quotient and remainder, since i · total would not fit in 32 bits.
    """
    index, count = worker.index, worker.count(build)
    each, over = build.udiv(total, count), build.urem(total, count)
    first = build.add(build.mul(index, each), build.umin(index, over))
    one_more = build.zext(build.ult(index, over), build.i32)
    return first, build.add(build.add(first, each), one_more), build.constant(1)


def _in_turn(build: Builder, bounds: Bounds, instance: ir.Value, instances: int) -> Bounds:
    """Of the CTA's tiles, every n-th for n instances of the role, from the instance's own number on."""
    first, end, step = bounds
    return build.add(first, build.mul(instance, step)), end, build.mul(step, instances)


# The first tile of the order that the op takes, and the number of its work tiles.
_PARTS: dict[WorkPart, Callable[[Builder, Worker, ir.Value], Share]] = {
    WorkPart.all: _every_tile,
    WorkPart.full_waves: _full_waves,
    WorkPart.tail_halves: _tail_halves,
}
# Bounds of the loop over a CTA's tiles. `one_shot` needs none.
_LOOPS: dict[SchedulerKind, Callable[[Builder, Worker, ir.Value], Bounds]] = {
    SchedulerKind.persistent: _every_nth,
    SchedulerKind.even_split: _even_run,
}
