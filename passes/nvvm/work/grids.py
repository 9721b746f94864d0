"""Grids of tiles in one thread's program: of a matrix, of the matrices of a batch, or of groups of rows.

Tiles are numbered from 0 through all grids. In clusters they are super-tiles.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from mlir import ir
from mlir.dialects import llvm, scf

from lowtide.dialects import tile
from lowtide.dialects.tile import Coordinate
from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.nvvm.thread.memory import element_pointer
from lowtide.passes.nvvm.thread.values import GlobalMatrix
from lowtide.passes.nvvm.work.orders import Pair
from lowtide.passes.support.ir.builder import Builder, Scalar


class Spot(NamedTuple):
    """A tile in its grid: its number there, the tiles of the grid, its first row, and the coordinates of the grid, such
    as the number of the matrix."""

    index: ir.Value
    tiles: Pair
    first_row: Scalar = 0
    coordinates: Mapping[Coordinate, ir.Value] = {}


@dataclass(frozen=True)
class Grids:
    """The number of tiles of all grids, counted at the insertion point; and the spot of each tile by its number."""

    total: Callable[[], ir.Value]
    find: Callable[[ir.Value], Spot]


def grids_of(context: Context, op: tile.WorkTilesOp, sides: tuple[int, int]) -> Grids:
    """The grids of work tiles whose tiles have these sides."""
    build = context.build
    rows, columns = context.scalar(op.rows), context.scalar(op.columns)
    if op.ends is not None:
        return _groups(context, op, sides)
    tiles = _count(build, rows, sides[0]), _count(build, columns, sides[1])
    if op.batches is None:
        return Grids(lambda: build.mul(*tiles), lambda number: Spot(number, tiles))

    def find(number: ir.Value) -> Spot:
        each = build.mul(*tiles)
        matrix = build.udiv(number, each)
        return Spot(build.sub(number, build.mul(matrix, each)), tiles, 0, {Coordinate.batch: matrix})

    return Grids(lambda: build.mul(context.scalar(op.batches), build.mul(*tiles)), find)


def _count(build: Builder, size: ir.Value, side: int) -> ir.Value:
    return build.udiv(build.add(size, side - 1), side)


def _groups(context: Context, op: tile.WorkTilesOp, sides: tuple[int, int]) -> Grids:
    """Each tile walks the groups from the first one: there are few groups, with a few instructions for each."""
    build, ends = context.build, context.get(op.ends)
    assert isinstance(ends, GlobalMatrix)
    rows, across = context.scalar(op.rows), _count(build, context.scalar(op.columns), sides[1])

    def walk(carried: list[ir.Value], visit: Callable[["_Group", list[ir.Value]], list[ir.Value]]) -> list[ir.Value]:
        """Visits each group; returns the values carried after the last one."""
        zero = build.constant(0)
        (count,) = (build.constant(each) if isinstance(each, int) else each for each in ends.extents)
        loop = scf.ForOp(zero, count, build.constant(1), [zero, zero, *carried])
        with ir.InsertionPoint(loop.body):
            number, (first, before, *inner) = loop.induction_variable, loop.inner_iter_args
            place = element_pointer(ends.pointer, build.zext(number, build.i64), build.i32)
            given = llvm.LoadOp(build.i32, place, alignment=4).result
            end = build.smin(build.smax(given, first), rows)  # clamped to the rows that are left
            high = _count(build, build.sub(end, first), sides[0])
            group = _Group(number, first, end, before, (high, across))
            scf.YieldOp([end, build.add(before, build.mul(high, across)), *visit(group, inner)])
        return list(loop.results)[1:]

    def find(number: ir.Value) -> Spot:
        def visit(group: _Group, found: list[ir.Value]) -> list[ir.Value]:
            index = build.sub(number, group.before)
            is_here = build.ult(index, build.mul(*group.tiles))  # false where it wraps around
            here = [index, group.tiles[0], group.first, group.end, group.number]
            return [build.select(is_here, x, y) for x, y in zip(here, found, strict=True)]

        zero, one = build.constant(0), build.constant(1)  # an order divides by the height of a grid
        _, index, high, first, end, group = walk([zero, one, zero, zero, zero], visit)
        return Spot(index, (high, across), first, {Coordinate.group: group, Coordinate.rows_end: end})

    return Grids(lambda: walk([], lambda group, inner: [])[0], find)


@dataclass(frozen=True)
class _Group:
    """A group of rows: its number, first row and end, the number of tiles before it, and its own tiles."""

    number: ir.Value
    first: ir.Value
    end: ir.Value
    before: ir.Value
    tiles: Pair
