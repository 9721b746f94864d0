"""The work items of each CTA, and their coordinates: schedulers in one thread's program.

A cluster takes super-tiles as a CTA takes tiles. Each of its CTAs computes its own tile of a super-tile.
"""

from dataclasses import replace
from enum import IntEnum
from typing import TypeVar

from mlir import ir
from mlir.dialects import llvm, nvvm

from lowtide.dialects import sm, tile
from lowtide.dialects.enums import raster_kind, scheduler_kind, work_part
from lowtide.dialects.tile import Coordinate, SchedulerKind, WorkPart
from lowtide.dialects.tile.work import Place, carried_by
from lowtide.passes.base import Refusal
from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.nvvm.thread.control import LowerBlock, bind_all
from lowtide.passes.nvvm.thread.memory import element_pointer
from lowtide.passes.nvvm.thread.values import GlobalMatrix, flatten
from lowtide.passes.nvvm.work.grids import Cursor, Grids, grids_of
from lowtide.passes.nvvm.work.items import PARTS, Item, Items, items_of
from lowtide.passes.nvvm.work.loops import item_loop
from lowtide.passes.nvvm.work.orders import ORDERS
from lowtide.passes.nvvm.work.schedulers import LOOPS, Bounds, Worker, in_turn
from lowtide.passes.support.problem.kernels import cluster_shape

Word = TypeVar("Word", bound=IntEnum)
Lowering = TypeVar("Lowering")


def lower_work_tiles(context: Context, op: tile.WorkTilesOp, lower_block: LowerBlock) -> None:
    """This CTA's work items: one, or a loop over those assigned to it, which carries the op's values."""
    build, body = context.build, op.body.blocks[0]
    cluster, halves = _cluster(context, op), 2 if work_part(op) is WorkPart.tail_halves else 1
    grids = grids_of(context, op, (op.tile[0] * halves * cluster[0], op.tile[1] * cluster[1]))
    worker = Worker.of(context)
    inits = [context.get(value) for value in op.inits]
    carried = list(carried_by(op))
    scheduler = scheduler_kind(op)
    _lowering_of(op, "part", work_part(op), PARTS)
    count = grids.total if scheduler is SchedulerKind.even_split else grids.most
    items = items_of(context, op, worker, count())
    if scheduler is SchedulerKind.one_shot:
        context.values.update(zip(carried, inits, strict=True))
        item = items.at(worker.index)
        _bind_place(context, op, item, grids, grids.seek(item.tile, grids.start())[0])
        lower_block(context, body)
        yielded = list(body.operations)[-1].operands
        context.values.update(zip(op.results_, map(context.get, yielded), strict=True))
        return
    bounds = items.bounds or _lowering_of(op, "scheduler", scheduler, LOOPS)(build, worker, items.total)
    if op.in_turn and context.instance is not None:
        bounds = in_turn(build, bounds, context.instance, context.instances)

    def lower_item(index: ir.Value, cursor: Cursor, values: list[ir.Value]) -> list[ir.Value]:
        bind_all(context, carried, inits, values)
        is_first = build.eq(index, bounds[0])
        inner = replace(context, work_tiles=build.mul(items.total, context.cluster.size), is_first_tile=is_first)
        _place_next(inner, op, (index, cursor), bounds, items, grids)
        _bind_place(inner, op, items.at(index), grids, cursor)
        lower_block(inner, body)
        yielded = list(body.operations)[-1].operands
        return [value for old in yielded for value in flatten(context.get(old))]

    results = item_loop(build, bounds, items, grids, [v for init in inits for v in flatten(init)], lower_item)
    bind_all(context, list(op.results_), inits, results)


def lower_await_wave(context: Context, op: tile.AwaitWaveOp) -> None:
    """Waits for the wave in the one thread of a producer. Refuses the op elsewhere."""
    counter = context.get(op.counter)
    assert isinstance(counter, GlobalMatrix)
    if not context.elected or context.work_tiles is None:
        raise Refusal(
            op,
            "is run by the one thread of a producer, in its work tiles; take roles = cooperative(2) [await-wave-place]",
        )
    sm.PtxAwaitWaveOp(counter.pointer, context.work_tiles, nvvm.GridDimXOp(context.build.i32).result)


def lower_await_arrival(context: Context, op: tile.AwaitArrivalOp) -> None:
    """Each thread that reads the shard polls the flag itself. If TMA reads the shard, the thread that issues the loads
    polls."""
    build, shard = context.build, context.scalar(op.shard)
    arrived, turn, status = (context.get(each) for each in (op.arrived, op.turn, op.status))
    assert isinstance(arrived, GlobalMatrix) and isinstance(turn, GlobalMatrix) and isinstance(status, GlobalMatrix)
    flag = element_pointer(arrived.pointer, build.zext(shard, build.i64), build.i32)
    rank, epoch, limit = (
        llvm.LoadOp(
            build.i32, element_pointer(turn.pointer, build.constant(at, build.i64), build.i32), alignment=4
        ).result
        for at in range(3)
    )
    late = sm.PtxAwaitArrivalOp(flag, epoch, limit, status.pointer, shard, for_tma=context.elected or None)
    context.values[op.source] = build.select(late.late, rank, shard)


def lower_is_late(context: Context, op: tile.IsLateOp) -> None:
    """Whether the first number of the status is not 0."""
    status = context.get(op.status)
    assert isinstance(status, GlobalMatrix)
    value = sm.PtxReadStatusOp(status.pointer).value
    context.values[op.late] = context.build.ne(value, 0)


def _cluster(context: Context, op: tile.WorkTilesOp) -> tuple[int, int]:
    """The tiles of a super-tile along M and N. Refuses another shape than that of the launch's clusters."""
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


def _bind_place(context: Context, op: tile.WorkTilesOp, item: Item, grids: Grids, cursor: Cursor) -> None:
    """Gives the body its coordinates of an item."""
    found = {**_origin_of(context, op, item, grids, cursor), **item.range_of_k()}
    place = Place.of(op)
    context.values.update({getattr(place, each.name): value for each, value in found.items()})


def _origin_of(
    context: Context, op: tile.WorkTilesOp, item: Item, grids: Grids, cursor: Cursor
) -> dict[Coordinate, ir.Value]:
    """The coordinates of an item's tile or half tile; in clusters, of the CTA's own tile of a super-tile."""
    build, cluster = context.build, context.cluster
    spot = grids.spot(item.tile, cursor)
    order = _lowering_of(op, "order", raster_kind(op.order), ORDERS)
    row, column = order(build, op.order, spot.index, spot.tiles)
    row = row if item.half is None else build.add(build.mul(row, 2), item.half)
    members = zip(cluster.shape, (cluster.row, cluster.column), strict=True)
    m, n = (
        build.mul(build.add(build.mul(place, side), own), extent)
        for place, extent, (side, own) in zip((row, column), op.tile, members, strict=True)
    )
    return {**spot.coordinates, Coordinate.m: build.add(spot.first_row, m), Coordinate.n: n}


def _place_next(
    context: Context,
    op: tile.WorkTilesOp,
    here: tuple[ir.Value, Cursor],
    bounds: Bounds,
    items: Items,
    grids: Grids,
) -> None:
    """Gives each tile.next_work_tile of the body the coordinates of that tile; of this one if there is none."""
    build, (index, cursor) = context.build, here
    for reader in op.body.blocks[0].operations:
        if isinstance(reader, tile.NextWorkTileOp):
            ahead = 1 if reader.ahead is None else reader.ahead.value
            after = build.add(index, build.mul(bounds[2], ahead) if ahead > 1 else bounds[2])
            item = items.at(build.select(build.ult(after, bounds[1]), after, index))
            found = _origin_of(context, op, item, grids, cursor)
            context.values.update({getattr(reader, each.name): value for each, value in found.items()})


def lower_next_work_tile(context: Context, op: tile.NextWorkTileOp) -> None:
    """Nothing is left to do: the lowering of its work tiles has bound its results."""
    if op.m not in context.values:
        raise Refusal(
            op,
            "stands in one_shot work tiles, in which no tile follows; take persistent or even_split"
            " [next-tile-one-shot]",
        )
