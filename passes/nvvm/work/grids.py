"""Grids of tiles in one thread's program: of a matrix, of the matrices of a batch, or of groups of rows, which may be
matrices of a batch as well.

Tiles are numbered from 0 through all grids. In clusters they are super-tiles.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from mlir import ir
from mlir.dialects import llvm, scf

from lowtide.dialects import tile
from lowtide.dialects.tile import Coordinate
from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.nvvm.thread.lanes import of_first_lane
from lowtide.passes.nvvm.thread.listed import uniform_extent
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


Cursor: TypeAlias = list[ir.Value]  # what a loop over work tiles carries to find the next one


@dataclass(frozen=True)
class Grids:
    """The tiles of all grids. The functions make code at the insertion point.

    `total`: the number of tiles. `most`: an upper bound of it that needs no read of memory. `seek`: moves a cursor
    forward to the grid of a tile; numbers of tiles must not decrease. Returns the cursor, and whether there is such a
    tile: None if `most` is the number of tiles. `spot`: the place of a tile in the cursor's grid. `start`: the first
    cursor. `by_warps`: whether whole warps move cursors together.
    """

    total: Callable[[], ir.Value]
    most: Callable[[], ir.Value]
    spot: Callable[[ir.Value, Cursor], Spot]
    seek: Callable[[ir.Value, Cursor], tuple[Cursor, ir.Value | None]] = lambda number, cursor: (cursor, None)
    start: Callable[[], Cursor] = list
    by_warps: bool = False


def grids_of(context: Context, op: tile.WorkTilesOp, sides: tuple[int, int]) -> Grids:
    """The grids of work tiles whose tiles have these sides."""
    build = context.build
    rows, columns = context.scalar(op.rows), context.scalar(op.columns)
    if op.ends is not None:
        return _Groups.of(context, op, sides).grids
    tiles = _count(build, rows, sides[0]), _count(build, columns, sides[1])
    if op.batches is None:

        def count() -> ir.Value:
            return build.mul(*tiles)

        return Grids(count, count, lambda number, cursor: Spot(number, tiles))

    def count_of_batch() -> ir.Value:
        return build.mul(context.scalar(op.batches), build.mul(*tiles))

    def spot(number: ir.Value, cursor: Cursor) -> Spot:
        each = build.mul(*tiles)
        matrix = build.udiv(number, each)
        index = build.sub(number, build.mul(matrix, each))
        return Spot(index, tiles, 0, {Coordinate.batch: _matrix(context, op, matrix)})

    return Grids(count_of_batch, count_of_batch, spot)


def _matrix(context: Context, op: tile.WorkTilesOp, number: ir.Value) -> ir.Value:
    """The matrix of a batch whose tiles come after those of `number` other matrices."""
    if op.first is None:
        return number
    build, count = context.build, context.scalar(op.batches)
    matrix = build.add(context.scalar(op.first), number)
    return build.select(build.ult(matrix, count), matrix, build.sub(matrix, count))


def _count(build: Builder, size: ir.Value, side: int) -> ir.Value:
    return build.udiv(build.add(size, side - 1), side)


class _Group(NamedTuple):
    """A group of rows, as a cursor: its number, first row and end, the number of tiles before it, and the number of
    tiles along N, which is not carried if all groups have as many."""

    number: ir.Value
    first: ir.Value
    end: ir.Value
    before: ir.Value
    across: ir.Value


@dataclass(frozen=True)
class _Groups:
    """The groups of rows of work tiles. Each agent walks them from the first to the last, once. `padded`: whether each
    group has the first rows of its own matrices, at most `rows`. `across`: the tiles along N of a group, or the most.
    `matrices`: None, or a list with the matrix whose columns a group has."""

    context: Context
    op: tile.WorkTilesOp
    ends: GlobalMatrix
    rows: ir.Value
    sides: tuple[int, int]
    across: ir.Value
    padded: bool
    matrices: GlobalMatrix | None

    @classmethod
    def of(cls, context: Context, op: tile.WorkTilesOp, sides: tuple[int, int]) -> "_Groups":
        ends, matrices = context.get(op.ends), None if op.matrices is None else context.get(op.matrices)
        assert isinstance(ends, GlobalMatrix) and isinstance(matrices, GlobalMatrix | None)
        across = _count(context.build, context.scalar(op.columns), sides[1])
        return cls(context, op, ends, context.scalar(op.rows), sides, across, op.batches is not None, matrices)

    @property
    def build(self) -> Builder:
        return self.context.build

    @property
    def by_warps(self) -> bool:
        """Whether whole warps run this code."""
        return not self.context.elected

    @property
    def grids(self) -> Grids:
        return Grids(self._total, self._most, self._spot, self._seek, self._start, self.by_warps)

    def _high(self, group: _Group) -> ir.Value:
        return _count(self.build, self.build.sub(group.end, group.first), self.sides[0])

    def _tiles(self, group: _Group) -> ir.Value:
        return self.build.mul(self._high(group), group.across)

    def _matrix_of(self, number: ir.Value) -> ir.Value:
        """The matrix of the group with this place in the order, which may begin with any group."""
        return _matrix(self.context, self.op, number) if self.padded else number

    def _extent(self) -> ir.Value:
        (count,) = self.ends.extents
        return self.build.constant(count) if isinstance(count, int) else count

    def _start(self) -> Cursor:
        """Before the first group."""
        zero = self.build.constant(0)
        return self._carried(_Group(self.build.constant(-1), zero, zero, zero, zero))

    def _group(self, cursor: Sequence[ir.Value]) -> _Group:
        values = [*cursor, *([] if self.matrices is not None else [self.across])]
        return _Group(*values)

    def _carried(self, group: _Group) -> Cursor:
        return [*group] if self.matrices is not None else [*group[:-1]]

    def _next(self, group: _Group) -> _Group:
        """The group after a group; its end is clamped to the rows that are left, or to those of its own matrices."""
        build = self.build
        number = build.add(group.number, 1)
        place = element_pointer(self.ends.pointer, build.zext(self._matrix_of(number), build.i64), build.i32)
        given = llvm.LoadOp(build.i32, place, alignment=4).result
        given = of_first_lane(build, given) if self.by_warps else given
        first = build.constant(0) if self.padded else group.end
        end = build.smin(build.smax(given, first), self.rows)
        across = self.across
        if self.matrices is not None:
            across = _count(build, uniform_extent(self.context, self.matrices, number, 1), self.sides[1])
        return _Group(number, first, end, build.add(group.before, self._tiles(group)), across)

    def _walk(self, cursor: Cursor, goes_on: Callable[[_Group], ir.Value]) -> _Group:
        """The first group, from the cursor on, for which `goes_on` is false; or the last group."""
        build, types = self.build, [self.build.i32] * len(cursor)
        loop = scf.WhileOp(types, cursor)
        before, after = (region.blocks.append(*types) for region in (loop.before, loop.after))
        with ir.InsertionPoint(before):
            group = self._group(before.arguments)
            has_next = build.slt(build.add(group.number, 1), self._extent())
            scf.ConditionOp(build.and_(has_next, goes_on(group)), self._carried(group))
        with ir.InsertionPoint(after):
            scf.YieldOp(self._carried(self._next(self._group(after.arguments))))
        return self._group(loop.results)

    def _has(self, group: _Group, number: ir.Value) -> ir.Value:
        """Whether a tile belongs to the group. The tile must not lie before the group."""
        return self.build.ult(self.build.sub(number, group.before), self._tiles(group))

    def _seek(self, number: ir.Value, cursor: Cursor) -> tuple[Cursor, ir.Value]:
        build = self.build
        group = self._walk(cursor, lambda group: build.xor(self._has(group, number), build.constant(1, build.i1)))
        return self._carried(group), self._has(group, number)

    def _spot(self, number: ir.Value, cursor: Cursor) -> Spot:
        group = self._group(cursor)
        # An order divides by the extents, also those of a group without tiles.
        high, across = self.build.umax(self._high(group), 1), group.across
        across = across if self.matrices is None else self.build.umax(across, 1)
        matrix = self._matrix_of(group.number)
        coordinates = {Coordinate.group: matrix, Coordinate.rows_end: group.end}
        coordinates |= {Coordinate.batch: matrix} if self.padded else {}
        return Spot(self.build.sub(number, group.before), (high, across), group.first, coordinates)

    def _total(self) -> ir.Value:
        last = self._walk(self._start(), lambda group: self.build.constant(1, self.build.i1))
        return self.build.add(last.before, self._tiles(last))

    def _most(self) -> ir.Value:
        """An upper bound of the number of tiles: each group may add one row of tiles that are not full, or, if groups
        are padded, have all rows."""
        build = self.build
        if self.padded:
            return build.mul(build.mul(self._extent(), _count(build, self.rows, self.sides[0])), self.across)
        high = build.add(_count(build, self.rows, self.sides[0]), build.umin(self._extent(), self.rows))
        return build.mul(high, self.across)
