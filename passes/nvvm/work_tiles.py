"""Which work tiles a CTA computes, in which order: schedulers and rasterization orders in one thread's program.

All is unsigned 32-bit: a launch has fewer than 2³¹ tiles, and nothing below exceeds their number.
"""

from mlir import ir
from mlir.dialects import arith, scf

from lowtide.dialects import tile
from lowtide.dialects.tile import RasterKind, SchedulerKind
from lowtide.passes.nvvm.context import Context
from lowtide.passes.nvvm.control import LowerBlock, bind_all, special_register
from lowtide.passes.nvvm.values import flatten


def lower_work_tiles(context: Context, op: tile.WorkTilesOp, lower_block: LowerBlock) -> None:
    """This CTA's work tiles: one, or a loop over those that fall to it, which carries what the op carries."""
    emit = context.emit
    rows, columns = context.scalar(op.rows), context.scalar(op.columns)
    tile_m, tile_n = op.tile
    tiles = (emit.div(emit.add(rows, tile_m - 1), tile_m), emit.div(emit.add(columns, tile_n - 1), tile_n))
    cta = special_register("ctaid.x")
    body = op.body.blocks[0]
    inits = [context.get(value) for value in op.inits]
    scheduler = SchedulerKind(ir.IntegerAttr(op.scheduler).value)
    if scheduler is SchedulerKind.one_shot:
        for argument, init in zip(list(body.arguments)[2:], inits, strict=True):
            context.values[argument] = init
        results = _lower_tile(context, op, cta, tiles, lower_block)
        for result, old in zip(op.results_, results, strict=True):
            context.values[result] = context.get(old)
        return
    total = arith.MulIOp(*tiles).result
    bounds = (_every_so_many if scheduler is SchedulerKind.persistent else _even_run)(context, cta, total)
    loop = scf.ForOp(*bounds, [v for init in inits for v in flatten(init)])
    bind_all(context, list(body.arguments)[2:], inits, list(loop.inner_iter_args))
    with ir.InsertionPoint(loop.body):
        yielded = _lower_tile(context, op, loop.induction_variable, tiles, lower_block)
        scf.YieldOp([value for old in yielded for value in flatten(context.get(old))])
    bind_all(context, list(op.results_), inits, list(loop.results))


def _every_so_many(context: Context, cta: ir.Value, total: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Bounds and step of the loop: CTA i of g takes tiles i, i + g, …"""
    return cta, total, special_register("nctaid.x")


def _even_run(context: Context, cta: ir.Value, total: ir.Value) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Bounds and step of the loop: CTA i takes the i-th run of neighbouring tiles; the first total mod g, one more.

    By quotient and remainder: i · total would not fit in 32 bits.
    """
    ctas = special_register("nctaid.x")
    each, over = arith.DivUIOp(total, ctas).result, arith.RemUIOp(total, ctas).result
    emit = context.emit
    first = emit.add(arith.MulIOp(cta, each).result, arith.MinUIOp(cta, over).result)
    one_more = arith.ExtUIOp(emit.i32, emit.less(cta, over)).result
    return first, emit.add(emit.add(first, each), one_more), emit.constant(1)


def _lower_tile(
    context: Context, op: tile.WorkTilesOp, index: ir.Value, tiles: tuple[ir.Value, ir.Value], lower_block: LowerBlock
) -> list[ir.Value]:
    """One tile; gives what the body yields."""
    m, n = _rasterize(context, op.order, index, *tiles)
    body = op.body.blocks[0]
    for argument, place, extent in zip(list(body.arguments)[:2], (m, n), op.tile, strict=True):
        context.values[argument] = context.emit.mul(place, extent)
    lower_block(context, body)
    return list(list(body.operations)[-1].operands)


def _rasterize(
    context: Context, order: tile.RasterAttr, index: ir.Value, tiles_m: ir.Value, tiles_n: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Row and column of the work tile with this number, as `#tile.raster` orders them."""
    kind = RasterKind[order.kind]
    if kind is RasterKind.row:
        return arith.DivUIOp(index, tiles_n).result, arith.RemUIOp(index, tiles_n).result
    if kind is RasterKind.column:
        return arith.RemUIOp(index, tiles_m).result, arith.DivUIOp(index, tiles_m).result
    first, height, within = _cut(context, index, tiles_m, order.group, tiles_n)
    if kind is RasterKind.grouped:  # down the band first
        row = arith.AddIOp(first, arith.RemUIOp(within, height).result).result
        return row, arith.DivUIOp(within, height).result
    left, width, place = _cut(context, within, tiles_n, order.columns, height)
    row = arith.AddIOp(first, arith.DivUIOp(place, width).result).result
    return row, arith.AddIOp(left, arith.RemUIOp(place, width).result).result


def _cut(
    context: Context, index: ir.Value, extent: ir.Value, size: int, across: ir.Value
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Place `index` in strips of `size` of the extent, `across` long: the strip's start, its size, the place in it.

    The last strip may be narrower. A strip wider than the extent is cut to it, so that its tiles fit in 32 bits.
    """
    emit = context.emit
    size_here = arith.MinUIOp(extent, emit.constant(size)).result
    tiles = arith.MulIOp(across, size_here).result
    first = arith.MulIOp(arith.DivUIOp(index, tiles).result, size_here).result
    left = arith.SubIOp(extent, first).result
    return first, arith.MinUIOp(left, size_here).result, arith.RemUIOp(index, tiles).result
