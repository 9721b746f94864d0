"""The transpose of a matrix in one thread's program: a CTA's tile goes through shared memory.

Rows of a tile are 128 bytes in both matrices. Threads read units of 16 aligned bytes of the source, eight neighbours a
row, and store them to shared memory as they lie: where a row of the source begins within a unit, it does so there too.
Each thread then gathers the elements of a unit of the target, which are a column of the tile, one by one, and stores
it; eight neighbours fill 128 bytes of a row. So the source may lie anywhere, and nothing is shifted in registers.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial

from mlir import ir
from mlir.dialects import llvm, nvvm, scf, vector

from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.nvvm.thread.memory import copy_elements, element_pointer, load_element, where
from lowtide.passes.nvvm.thread.unrolling import keep_rolled
from lowtide.passes.nvvm.thread.values import GlobalMatrix, vector_type
from lowtide.passes.support.ir.builder import Builder, Scalar
from lowtide.passes.support.problem.element_types import element_bits
from lowtide.passes.support.streams.copy_units import (
    STAGED_ROW_BYTES,
    TILE_BYTES,
    TRANSPOSING_THREADS,
    UNIT_BYTES,
    side_of_tile,
    staged_offset,
)

_UNITS = TILE_BYTES // UNIT_BYTES  # of a row
_ROWS_AT_ONCE = TRANSPOSING_THREADS // _UNITS


def transpose_matrix(context: Context, source: GlobalMatrix, target: GlobalMatrix) -> None:
    """Tile i of the source by CTA i of the launch: row by row of tiles, and in a batch matrix by matrix."""
    own = _Tile.of(context, source, target)
    branch = scf.IfOp(own.is_whole, has_else=True)
    with ir.InsertionPoint(branch.then_block):
        own.stage_whole()
        scf.YieldOp([])
    with ir.InsertionPoint(branch.else_block):
        own.stage_parts()
        scf.YieldOp([])
    nvvm.Barrier0Op()
    own.store()


@dataclass(frozen=True)
class _Tile:
    """A tile: where it begins in both matrices, and how many rows and columns of the source are left from there on."""

    build: Builder
    tid: ir.Value
    smem: ir.Value
    element: ir.Type
    source: ir.Value
    target: ir.Value
    source_stride: ir.Value
    target_stride: ir.Value
    rows: ir.Value
    columns: ir.Value
    row: ir.Value
    column: ir.Value
    """`row`, `column`: where the tile begins in the source."""

    @classmethod
    def of(cls, context: Context, source: GlobalMatrix, target: GlobalMatrix) -> "_Tile":
        build, element = context.build, source.element
        side = side_of_tile(element_bits(element) // 8)
        *batch, rows, columns = source.extents
        across, down = build.ceil_udiv(columns, side), build.ceil_udiv(rows, side)
        number = nvvm.BlockIdXOp(build.i32).result
        line = build.udiv(number, across)
        column = build.mul(build.sub(number, build.mul(line, across)), side)
        matrix = build.udiv(line, down) if batch else None
        row = build.mul(line if matrix is None else build.sub(line, build.mul(matrix, down)), side)
        pointers = []
        for lies, place in ((source, (row, column)), (target, (column, row))):
            coordinates = (*(() if matrix is None else (matrix,)), *place)
            pointer = lies.pointer
            for coordinate, stride in zip(coordinates, (*lies.strides, 1), strict=True):
                pointer = element_pointer(pointer, build.mul(build.zext(coordinate, build.i64), stride), element)
            pointers.append(pointer)
        return cls(
            build,
            context.tid,
            context.smem,
            element,
            pointers[0],
            pointers[1],
            source.strides[-1],
            target.strides[-1],
            build.sub(rows, row),
            build.sub(columns, column),
            row,
            column,
        )

    @property
    def element_bytes(self) -> int:
        return element_bits(self.element) // 8

    @property
    def count(self) -> int:
        """Elements of a unit."""
        return UNIT_BYTES // self.element_bytes

    @property
    def side(self) -> int:
        return side_of_tile(self.element_bytes)

    @property
    def is_whole(self) -> ir.Value:
        """Whether the tile does not reach past the edges, and all its rows begin with a unit."""
        build = self.build
        stride = build.mul(build.trunc(self.source_stride, build.i32), self.element_bytes)
        lowest = build.urem(build.or_(_address(build, self.source), stride), UNIT_BYTES)
        fits = build.and_(build.ule(self.side, self.rows), build.ule(self.side, self.columns))
        return build.and_(build.eq(lowest, 0), fits)

    @cached_property
    def place(self) -> ir.Value:
        """The number of elements of the source before the tile, if rows lie without gaps."""
        build = self.build
        return build.add(
            build.mul(build.zext(self.row, build.i64), self.source_stride), build.zext(self.column, build.i64)
        )

    @cached_property
    def left(self) -> ir.Value:
        """The number of elements of the source from the start of the tile on, if rows lie without gaps."""
        build = self.build
        last = build.mul(build.zext(build.sub(self.rows, 1), build.i64), self.source_stride)
        return build.add(last, build.zext(self.columns, build.i64))

    @cached_property
    def is_dense(self) -> ir.Value:
        """Whether the rows of the source lie without gaps."""
        build = self.build
        return build.eq(self.source_stride, build.zext(build.add(self.column, self.columns), build.i64))

    def stage_whole(self) -> None:
        """All loads stand before the first store, so that they are in flight at once."""
        build, type_ = self.build, vector_type(self.count, self.element)
        row, unit = build.udiv(self.tid, _UNITS), build.urem(self.tid, _UNITS)
        first = element_pointer(self._in_source(row), build.zext(build.mul(unit, self.count), build.i64), self.element)
        step = build.mul(self.source_stride, _ROWS_AT_ONCE)
        pointers = [first]
        while len(pointers) * _ROWS_AT_ONCE < self.side:
            pointers.append(element_pointer(pointers[-1], step, self.element))
        loaded = [llvm.LoadOp(type_, pointer, alignment=UNIT_BYTES).result for pointer in pointers]
        to = self._staged(row, build.mul(unit, UNIT_BYTES))
        for number, value in enumerate(loaded):
            offset = staged_offset(number * _ROWS_AT_ONCE, self.element_bytes)
            llvm.StoreOp(value, element_pointer(to, offset, build.i8), alignment=UNIT_BYTES)

    def stage_parts(self) -> None:
        """Stage the units that hold the rows of the tile. Units that lie in the matrix are loaded whole, all before the
        first store. There are few others; of these, single elements are copied, if they exist."""
        build, type_ = self.build, vector_type(self.count, self.element)
        units = self.side * (_UNITS + 1)
        starts = range(0, units, TRANSPOSING_THREADS)
        found = [self._unit(build.add(start, self.tid)) for start in starts]
        loaded = [
            where(each.is_inside, type_, partial(self._load, each), lambda: llvm.UndefOp(type_).res) for each in found
        ]
        for each, value in zip(found, loaded, strict=True):
            branch = scf.IfOp(each.is_inside)
            with ir.InsertionPoint(branch.then_block):
                llvm.StoreOp(value, each.target, alignment=UNIT_BYTES)
                scf.YieldOp([])
        with _loop(build, units, TRANSPOSING_THREADS) as start:
            unit = self._unit(build.add(start, self.tid))
            branch = scf.IfOp(build.and_(unit.exists, build.eq(unit.is_inside, 0)))
            with ir.InsertionPoint(branch.then_block):
                places = [build.add(unit.column, index) for index in range(self.count)]
                copy_elements(build, self.element, self._in_source(unit.row), unit.target, places, self.columns)
                scf.YieldOp([])

    def _load(self, unit: "_Unit") -> ir.Value:
        return llvm.LoadOp(vector_type(self.count, self.element), unit.source, alignment=UNIT_BYTES).result

    def _unit(self, number: ir.Value) -> "_Unit":
        """The unit with this number. Each row of the tile has one unit more than a row of the target, because it may
        begin within a unit. If rows lie without gaps, a unit may reach into the row before or after."""
        build = self.build
        row = build.udiv(number, _UNITS + 1)
        unit = build.sub(number, build.mul(row, _UNITS + 1))
        # Both may be negative: a row begins before the tile, and a unit before a row.
        column = build.sub(build.mul(unit, self.count), build.udiv(self._shift(row), self.element_bytes))
        exists = build.and_(build.ult(row, build.umin(self.rows, self.side)), build.slt(column, self.columns))
        in_row = build.and_(
            build.sle(0, build.add(self.column, column)), build.sle(build.add(column, self.count), self.columns)
        )
        place = build.add(build.mul(build.zext(row, build.i64), self.source_stride), build.sext(column, build.i64))
        in_matrix = build.and_(
            build.sle(0, build.add(self.place, place)), build.sle(build.add(place, self.count), self.left)
        )
        is_inside = build.and_(exists, build.or_(in_row, build.and_(self.is_dense, in_matrix)))
        source = element_pointer(self.source, place, self.element)
        return _Unit(row, column, exists, is_inside, source, self._staged(row, build.mul(unit, UNIT_BYTES)))

    def store(self) -> None:
        """Threads take the units of a row of the target in turn: each is a run of rows of the tile, in one column."""
        build = self.build
        unit, first_column = build.urem(self.tid, _UNITS), build.udiv(self.tid, _UNITS)
        row = build.mul(unit, self.count)
        begins = self._staged(row, 0)
        offsets = [
            build.add(self._shift(build.add(row, i)), i * STAGED_ROW_BYTES) for i in range(self.count)
        ]  # a unit's rows are so far apart
        is_whole = build.sle(build.add(row, self.count), self.rows)
        for start in range(0, self.side, _ROWS_AT_ONCE):
            column = build.add(first_column, start)
            exists = scf.IfOp(build.slt(column, self.columns))
            with ir.InsertionPoint(exists.then_block):
                of_column = build.mul(column, self.element_bytes)
                from_ = [element_pointer(begins, build.add(offset, of_column), build.i8) for offset in offsets]
                step = build.mul(build.zext(column, build.i64), self.target_stride)
                to = element_pointer(self.target, build.add(step, build.zext(row, build.i64)), self.element)
                self._store_unit(from_, to, row, is_whole)
                scf.YieldOp([])

    def _store_unit(self, from_: list[ir.Value], to: ir.Value, row: ir.Value, is_whole: ir.Value) -> None:
        branch = scf.IfOp(is_whole, has_else=True)
        with ir.InsertionPoint(branch.then_block):
            values = [load_element(self.element, x) for x in from_]
            unit = vector.FromElementsOp(vector_type(self.count, self.element), values).result
            llvm.StoreOp(unit, to, alignment=UNIT_BYTES)
            scf.YieldOp([])
        with ir.InsertionPoint(branch.else_block):
            for index, pointer in enumerate(from_):
                single = scf.IfOp(self.build.slt(self.build.add(row, index), self.rows))
                with ir.InsertionPoint(single.then_block):
                    place = element_pointer(to, index, self.element)
                    llvm.StoreOp(load_element(self.element, pointer), place, alignment=self.element_bytes)
                    scf.YieldOp([])
            scf.YieldOp([])

    def _in_source(self, row: ir.Value) -> ir.Value:
        build = self.build
        return element_pointer(self.source, build.mul(build.zext(row, build.i64), self.source_stride), self.element)

    def _shift(self, row: ir.Value) -> ir.Value:
        """How many bytes a row of the tile lies behind the start of its unit."""
        build = self.build
        stride = build.mul(build.trunc(self.source_stride, build.i32), self.element_bytes)
        return build.urem(build.add(_address(build, self.source), build.mul(row, stride)), UNIT_BYTES)

    def _staged(self, row: ir.Value, offset: Scalar) -> ir.Value:
        """The address in shared memory of a byte of a row (`staged_offset`)."""
        build = self.build
        run = build.mul(build.udiv(row, self.count), UNIT_BYTES)
        begin = build.add(build.mul(row, STAGED_ROW_BYTES), run)
        return element_pointer(self.smem, build.add(begin, offset), build.i8)


@dataclass(frozen=True)
class _Unit:
    """A unit of a row of the tile. `column`: the column of the tile at which the unit begins. `exists`: whether the row
    is in the tile and the matrix, and the unit begins before the row's end. `is_inside`: whether, in addition, the
    whole unit is in the matrix."""

    row: ir.Value
    column: ir.Value
    exists: ir.Value
    is_inside: ir.Value
    source: ir.Value
    target: ir.Value


def _address(build: Builder, pointer: ir.Value) -> ir.Value:
    """The low bits of an address."""
    return build.trunc(llvm.PtrToIntOp(build.i64, pointer).result, build.i32)


@contextmanager
def _loop(build: Builder, end: int, step: int) -> Iterator[ir.Value]:
    """A loop that stays one, and its count."""
    loop = scf.ForOp(*(build.constant(value, build.i32) for value in (0, end, step)), [])
    keep_rolled(loop)
    with ir.InsertionPoint(loop.body):
        yield loop.induction_variable
        scf.YieldOp([])
