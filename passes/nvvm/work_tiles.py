"""Which work tiles a CTA computes, in which order: schedulers and rasterization orders in one thread's program.

All is unsigned 32-bit: a launch has fewer than 2³¹ tiles, and nothing below exceeds their number.
"""

from mlir import ir
from mlir.dialects import scf

from lowtide.dialects import tile
from lowtide.passes.nvvm.context import Context
from lowtide.passes.nvvm.control import LowerBlock, bind_all, special_register
from lowtide.passes.nvvm.values import flatten
from lowtide.passes.schedules.rules import SCHEDULERS
from lowtide.passes.support.builder import Builder


def lower_work_tiles(context: Context, op: tile.WorkTilesOp, lower_block: LowerBlock) -> None:
    """This CTA's work tiles: one, or a loop over those that fall to it, which carries what the op carries."""
    build = context.build
    rows, columns = context.scalar(op.rows), context.scalar(op.columns)
    tile_m, tile_n = op.tile
    tiles = (build.udiv(build.add(rows, tile_m - 1), tile_m), build.udiv(build.add(columns, tile_n - 1), tile_n))
    cta = special_register("ctaid.x")
    body = op.body.blocks[0]
    inits = [context.get(value) for value in op.inits]
    scheduler = SCHEDULERS[ir.IntegerAttr(op.scheduler).value]
    if scheduler == "one_shot":
        for argument, init in zip(list(body.arguments)[2:], inits, strict=True):
            context.values[argument] = init
        results = _lower_tile(context, op, cta, tiles, lower_block)
        for result, old in zip(op.results_, results, strict=True):
            context.values[result] = context.get(old)
        return
    total = build.mul(*tiles)
    bounds = (_every_so_many if scheduler == "persistent" else _even_run)(context, cta, total)
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
    build = context.build
    each, over = build.udiv(total, ctas), build.urem(total, ctas)
    first = build.add(build.mul(cta, each), build.umin(cta, over))
    one_more = build.zext(build.ult(cta, over), build.i32)
    return first, build.add(build.add(first, each), one_more), build.constant(1)


def _lower_tile(
    context: Context, op: tile.WorkTilesOp, index: ir.Value, tiles: tuple[ir.Value, ir.Value], lower_block: LowerBlock
) -> list[ir.Value]:
    """One tile; gives what the body yields."""
    m, n = _rasterize(context.build, op.order, index, *tiles)
    body = op.body.blocks[0]
    for argument, place, extent in zip(list(body.arguments)[:2], (m, n), op.tile, strict=True):
        context.values[argument] = context.build.mul(place, extent)
    lower_block(context, body)
    return list(list(body.operations)[-1].operands)


def _rasterize(
    build: Builder, order: tile.RasterAttr, index: ir.Value, tiles_m: ir.Value, tiles_n: ir.Value
) -> tuple[ir.Value, ir.Value]:
    """Row and column of the work tile with this number, as `#tile.raster` orders them."""
    if order.kind == "row":
        return build.udiv(index, tiles_n), build.urem(index, tiles_n)
    if order.kind == "column":
        return build.urem(index, tiles_m), build.udiv(index, tiles_m)
    first, height, within = _cut(build, index, tiles_m, order.group, tiles_n)
    if order.kind == "grouped":  # down the band first
        return build.add(first, build.urem(within, height)), build.udiv(within, height)
    left, width, place = _cut(build, within, tiles_n, order.columns, height)
    return build.add(first, build.udiv(place, width)), build.add(left, build.urem(place, width))


def _cut(
    build: Builder, index: ir.Value, extent: ir.Value, size: int, across: ir.Value
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Place `index` in strips of `size` of the extent, `across` long: the strip's start, its size, the place in it.

    The last strip may be narrower. A strip wider than the extent is cut to it, so that its tiles fit in 32 bits.
    """
    size_here = build.umin(extent, size)
    tiles = build.mul(across, size_here)
    first = build.mul(build.udiv(index, tiles), size_here)
    return first, build.umin(build.sub(extent, first), size_here), build.urem(index, tiles)
