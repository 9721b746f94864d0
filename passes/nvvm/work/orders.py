"""Rasterization orders in one thread's program: the place of a tile in a grid of tiles, by its number.

All arithmetic is unsigned 32-bit: a launch has fewer than 2³¹ tiles, and no value here exceeds their number.
"""

from collections.abc import Callable
from typing import TypeAlias

from mlir import ir

from lowtide.dialects import tile
from lowtide.dialects.tile import RasterKind
from lowtide.passes.nvvm.work.hilbert import place_on_hilbert_curve
from lowtide.passes.support.ir.builder import Builder, constant_of

Pair: TypeAlias = tuple[ir.Value, ir.Value]  # along M, along N
Order: TypeAlias = Callable[[Builder, tile.RasterAttr, ir.Value, Pair], Pair]


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

    The last strip may be narrower. A strip wider than the extent is cut to it, so that its tiles fit in 32 bits; if
    they are known to fit, it is not cut, so that the divisor is a constant.
    """
    known = constant_of(across)
    fits = known is not None and known * size < 2**31 and constant_of(extent) is None
    size_here = build.constant(size) if fits else build.umin(extent, size)
    tiles = build.mul(across, size_here)
    first = build.mul(build.udiv(index, tiles), size_here)
    return first, build.umin(build.sub(extent, first), size_here), build.urem(index, tiles)


ORDERS: dict[RasterKind, Order] = {
    RasterKind.row: _by_rows,
    RasterKind.column: _by_columns,
    RasterKind.grouped: _in_bands,
    RasterKind.groups: _in_groups,
    RasterKind.hilbert: _on_curve,
}
