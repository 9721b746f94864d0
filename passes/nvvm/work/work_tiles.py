"""The work tiles of each CTA and their order: schedulers and rasterization orders in one thread's program.

In clusters, a cluster takes super-tiles as a CTA takes tiles, and each of its CTAs its own tile of them. The tiles of a
batch are those of one matrix after another. All arithmetic is unsigned 32-bit: a launch has fewer than 2³¹ tiles, and
no value here exceeds their number.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import TypeAlias, TypeVar

from mlir import ir
from mlir.dialects import nvvm, scf

from lowtide.dialects import sm, tile
from lowtide.dialects.enums import k_division_kind, raster_kind, scheduler_kind, work_part
from lowtide.dialects.tile import RasterKind, SchedulerKind, WorkPart
from lowtide.passes.base import Refusal
from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.nvvm.thread.control import LowerBlock, bind_all
from lowtide.passes.nvvm.thread.values import GlobalMatrix, flatten
from lowtide.passes.nvvm.work.hilbert import place_on_hilbert_curve
from lowtide.passes.nvvm.work.k_ranges import ITEMS, Bounds, Item, Items
from lowtide.passes.support.builder import Builder, Scalar
from lowtide.passes.support.kernels import cluster_shape

Pair: TypeAlias = tuple[ir.Value, ir.Value]  # along M, along N
Share: TypeAlias = tuple[Scalar, ir.Value]  # a first tile, a number of work tiles

Word = TypeVar("Word", bound=IntEnum)
Lowering = TypeVar("Lowering")


def lower_work_tiles(context: Context, op: tile.WorkTilesOp, lower_block: LowerBlock) -> None:
    """This CTA's work tiles: one, or a loop over those assigned to it, which carries the op's values."""
    build = context.build
    rows, columns = context.scalar(op.rows), context.scalar(op.columns)
    cluster = _cluster(context, op)
    extents = op.tile[0] * _pieces(op) * cluster[0], op.tile[1] * cluster[1]
    tiles = tuple(
        build.udiv(build.add(size, extent - 1), extent) for size, extent in zip((rows, columns), extents, strict=True)
    )
    worker = Worker.of(context)
    inits = [context.get(value) for value in op.inits]
    carried = list(op.body.blocks[0].arguments)[-len(inits) :] if inits else []
    scheduler = scheduler_kind(op)
    total = build.mul(*tiles)
    if op.batch is not None:
        total = build.mul(context.scalar(op.batch), total)
    items = _lowering_of(op, "division of K", k_division_kind(op), ITEMS)(context, op, worker.index, total)
    if scheduler is SchedulerKind.one_shot:
        for argument, init in zip(carried, inits, strict=True):
            context.values[argument] = init
        results = _lower_tile(context, op, items.at(worker.index), tiles, lower_block)
        for result, old in zip(op.results_, results, strict=True):
            context.values[result] = context.get(old)
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
        _place_next(inner, op, loop.induction_variable, bounds, items, tiles, first)
        yielded = _lower_tile(inner, op, items.at(loop.induction_variable), tiles, lower_block, first)
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


def _lower_tile(
    context: Context, op: tile.WorkTilesOp, item: Item, tiles: Pair, lower_block: LowerBlock, first: Scalar = 0
) -> list[ir.Value]:
    """The work item, those of the op beginning in tile `first` of the order; returns what it yields."""
    body = op.body.blocks[0]
    origin = _origin_of(context, op, item[0], tiles, first)
    context.values.update(zip(body.arguments, [*origin, *item[1:]], strict=False))
    lower_block(context, body)
    return list(list(body.operations)[-1].operands)


def _origin_of(context: Context, op: tile.WorkTilesOp, index: ir.Value, tiles: Pair, first: Scalar) -> list[ir.Value]:
    """First row and column of the work tile with a number, counted from `first`; of a super-tile, the CTA's own. In a
    batch the number of the matrix comes first."""
    build, pieces, cluster = context.build, _pieces(op), context.cluster
    number = build.add(build.udiv(index, pieces), first)
    matrix = []
    if op.batch is not None:
        each = build.mul(*tiles)
        matrix = [build.udiv(number, each)]
        number = build.sub(number, build.mul(matrix[0], each))
    row, column = _lowering_of(op, "order", raster_kind(op.order), _ORDERS)(build, op.order, number, tiles)
    row = build.add(build.mul(row, pieces), build.urem(index, pieces)) if pieces > 1 else row
    members = zip(cluster.shape, (cluster.row, cluster.column), strict=True)
    origin = [
        build.mul(build.add(build.mul(place, side), own), extent)
        for place, extent, (side, own) in zip((row, column), list(op.tile)[:2], members, strict=True)
    ]
    return matrix + origin


def _place_next(
    context: Context, op: tile.WorkTilesOp, index: ir.Value, bounds: Bounds, items: Items, tiles: Pair, first: Scalar
) -> None:
    """Gives each tile.next_work_tile of the body the origin of that tile; of this one if there is none."""
    build = context.build
    for reader in op.body.blocks[0].operations:
        if isinstance(reader, tile.NextWorkTileOp):
            ahead = 1 if reader.ahead is None else reader.ahead.value
            after = build.add(index, build.mul(bounds[2], ahead) if ahead > 1 else bounds[2])
            following = build.select(build.ult(after, bounds[1]), after, index)
            origin = _origin_of(context, op, items.at(following)[0], tiles, first)
            context.values.update(zip(reader.results, origin, strict=True))


def lower_next_work_tile(context: Context, op: tile.NextWorkTileOp) -> None:
    """Nothing is left to do: the work tiles that it stands in gave it its results."""
    if op.row not in context.values:
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


def _by_rows(build: Builder, order: tile.RasterAttr, index: ir.Value, tiles: Pair) -> Pair:
    """Along a row of tiles first."""
    return build.udiv(index, tiles[1]), build.urem(index, tiles[1])


def _by_columns(build: Builder, order: tile.RasterAttr, index: ir.Value, tiles: Pair) -> Pair:
    """Down a column of tiles first."""
    return build.urem(index, tiles[0]), build.udiv(index, tiles[0])


def _in_bands(build: Builder, order: tile.RasterAttr, index: ir.Value, tiles: Pair) -> Pair:
    """In bands of `group` rows, down the band first."""
    first, height, within = _cut(build, index, tiles[0], order.group, tiles[1])
    return build.add(first, build.urem(within, height)), build.udiv(within, height)


def _in_groups(build: Builder, order: tile.RasterAttr, index: ir.Value, tiles: Pair) -> Pair:
    """In bands of `group` rows, cut into groups of `columns` columns, each walked row by row."""
    first, height, within = _cut(build, index, tiles[0], order.group, tiles[1])
    left, width, place = _cut(build, within, tiles[1], order.columns, height)
    return build.add(first, build.udiv(place, width)), build.add(left, build.urem(place, width))


def _on_curve(build: Builder, order: tile.RasterAttr, index: ir.Value, tiles: Pair) -> Pair:
    """Along a Hilbert curve."""
    return place_on_hilbert_curve(build, index, tiles)


def _cut(
    build: Builder, index: ir.Value, extent: ir.Value, size: int, across: ir.Value
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Position `index` in strips of `size` along the extent, `across` long: strip start, size, position in it.

    The last strip may be narrower. A strip wider than the extent is cut to it, so that its tiles fit in 32 bits.
    """
    size_here = build.umin(extent, size)
    tiles = build.mul(across, size_here)
    first = build.mul(build.udiv(index, tiles), size_here)
    return first, build.umin(build.sub(extent, first), size_here), build.urem(index, tiles)


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
# Row and column of the work tile with a number, as `#tile.raster` orders them.
_ORDERS: dict[RasterKind, Callable[[Builder, tile.RasterAttr, ir.Value, Pair], Pair]] = {
    RasterKind.row: _by_rows,
    RasterKind.column: _by_columns,
    RasterKind.grouped: _in_bands,
    RasterKind.groups: _in_groups,
    RasterKind.hilbert: _on_curve,
}
