"""The tile at a place of the Hilbert curve through any grid of tiles, in one thread's program.

The curve is the generalized Hilbert curve for rectangles (J. Červený, https://github.com/jakubcerveny/gilbert): a
region is cut in two along a side that is over 1.5 times the other, else into three regions like the three parts of a U.
Consecutive tiles are neighbours; only where the longer side of the grid is odd and the shorter one even is one step a
diagonal one. The position is found from the outside in, one cut per iteration, until the region is one tile wide: about
log₂ of the longer side iterations, each of some 30 instructions. The loop stays rolled; no table is kept.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from mlir import ir
from mlir.dialects import scf

from lowtide.passes.support.ir.builder import Builder

Pair: TypeAlias = tuple[ir.Value, ir.Value]  # along M, along N


class _Region(NamedTuple):
    """A rectangle of tiles that the curve enters at one corner and leaves at the other end of its first side."""

    place: ir.Value
    """The position in the rectangle's part of the curve."""
    first: ir.Value
    second: ir.Value
    """Its sides in tiles. The curve leads from one end of the first side to the other."""
    m: ir.Value
    n: ir.Value
    """The tile at which it is entered."""
    along_m: ir.Value
    along_n: ir.Value
    """A step along the first side. One along the second side is the same with M and N exchanged."""


def place_on_hilbert_curve(build: Builder, index: ir.Value, tiles: Pair) -> Pair:
    """The tile (m, n) with a number, of `tiles` tiles along M and N; the curve leads along the longer of them."""
    rows, columns = tiles
    wide = build.ule(rows, columns)
    zero = build.constant(0)
    whole = _Region(
        place=index,
        first=build.umax(rows, columns),
        second=build.umin(rows, columns),
        m=zero,
        n=zero,
        along_m=build.select(wide, 0, 1),
        along_n=build.select(wide, 1, 0),
    )
    types = [value.type for value in whole]
    loop = scf.WhileOp(types, list(whole))
    before, after = (region.blocks.append(*types) for region in (loop.before, loop.after))
    with ir.InsertionPoint(before):
        region = _Region(*before.arguments)
        scf.ConditionOp(build.ult(1, build.umin(region.first, region.second)), list(region))
    with ir.InsertionPoint(after):
        scf.YieldOp(_part_with_place(build, _Region(*after.arguments)))
    line = _Region(*loop.results)
    # One side has one tile: the place counts along the other.
    is_first = build.eq(line.second, 1)
    tile = _moved(build, line, build.select(is_first, line.place, 0), build.select(is_first, 0, line.place))
    return tile.m, tile.n


def _part_with_place(build: Builder, region: _Region) -> list[ir.Value]:
    """The part of the region that holds its place."""
    is_long = build.ult(build.add(region.second, build.lshr(region.second, 1)), region.first)
    branch = scf.IfOp(is_long, [value.type for value in region], has_else=True)
    parts: tuple[tuple[ir.Block, Callable[[Builder, _Region], _Region]], ...] = (
        (branch.then_block, _half),
        (branch.else_block, _third),
    )
    for block, part in parts:
        with ir.InsertionPoint(block):
            scf.YieldOp(list(part(build, region)))
    return list(branch.results)


def _half(build: Builder, region: _Region) -> _Region:
    """One of the two parts of a long region, one behind the other. The first part is even along the cut side."""
    cut = _even(build, region.first)
    tiles = build.mul(cut, region.second)
    near = region._replace(first=cut)
    far = _moved(build, region, cut, 0)._replace(
        place=build.sub(region.place, tiles), first=build.sub(region.first, cut)
    )
    return _choose(build, build.ult(region.place, tiles), near, far)


def _third(build: Builder, region: _Region) -> _Region:
    """One of the three parts of a region: out along the second side, on along the first one, and back."""
    out = build.umin(_even(build, region.second), build.sub(region.second, 1))
    half, beyond = build.lshr(region.first, 1), build.sub(region.second, out)
    away = region._replace(first=out, second=half, along_m=region.along_n, along_n=region.along_m)
    across = _moved(build, region, 0, out)._replace(place=build.sub(region.place, build.mul(out, half)), second=beyond)
    back = _moved(build, region, build.sub(region.first, 1), build.sub(out, 1))._replace(
        place=build.sub(across.place, build.mul(region.first, beyond)),
        first=out,
        second=build.sub(region.first, half),
        along_m=build.sub(0, region.along_n),
        along_n=build.sub(0, region.along_m),
    )
    in_across = build.ult(across.place, build.mul(region.first, beyond))
    later = _choose(build, in_across, across, back)
    return _choose(build, build.ult(region.place, build.mul(out, half)), away, later)


def _even(build: Builder, extent: ir.Value) -> ir.Value:
    """Half of an extent, rounded up to an even number."""
    return build.and_(build.add(build.lshr(extent, 1), 1), -2)


def _moved(build: Builder, region: _Region, first: ir.Value | int, second: ir.Value | int) -> _Region:
    """The region entered some tiles further along its sides."""
    m = build.add(build.mul(first, region.along_m), build.mul(second, region.along_n))
    n = build.add(build.mul(first, region.along_n), build.mul(second, region.along_m))
    return region._replace(m=build.add(region.m, m), n=build.add(region.n, n))


def _choose(build: Builder, condition: ir.Value, region: _Region, other: _Region) -> _Region:
    return _Region(*(build.select(condition, x, y) for x, y in zip(region, other, strict=True)))
