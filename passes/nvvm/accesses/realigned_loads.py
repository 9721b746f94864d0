"""Loads of runs that lie anywhere: aligned vectors around each, from which registers are shifted into place.

A run of `run` elements begins `shift` elements past a multiple of its size. The two aligned vectors that it lies in are
loaded, and the elements from `shift` on selected, in steps of powers of two: of 16-bit elements, 11 selections of
words, 4 permutations of bytes and 4 selections for 16 bytes. A thread's loads stand together, without a branch between
them, so that all are in flight at once. Only where vectors reach past the ends of rows, elements are loaded instead,
one after the other. No access is outside of the matrix.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, llvm, scf, vector

from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.nvvm.thread.memory import (
    both,
    element_pointer,
    global_pointer,
    is_before_edge,
    load_element,
    where,
)
from lowtide.passes.nvvm.thread.unrolling import keep_rolled
from lowtide.passes.nvvm.thread.values import Window, elements_from, shuffle, vector_type
from lowtide.passes.support.ir.arithmetic import number
from lowtide.passes.support.problem.element_types import element_bits
from lowtide.targets import SplitCoordinates


@dataclass(frozen=True)
class _Run:
    """A run: its place in the matrix, whether its row exists (None: it does), and how far it begins past a multiple of
    its size."""

    row: ir.Value
    column: ir.Value
    row_exists: ir.Value | None
    shift: ir.Value


class RealignedLoads:
    """Loads of a thread's runs; rows that are a multiple of a run apart share their shift."""

    def __init__(
        self, context: Context, window: Window, split: SplitCoordinates, origin: tuple[ir.Value, ir.Value], run: int
    ) -> None:
        self.context = context
        self.window = window
        self.split = split
        self.origin = origin
        self.run = run
        self.element = window.matrix.element
        self.element_bytes = element_bits(self.element) // 8
        self.type = vector_type(run, self.element)
        self._shifts: dict[int, ir.Value] = {}

    def load(self, values: Sequence[int]) -> list[ir.Value]:
        """The runs whose first elements are the thread's values of these numbers."""
        runs = [self._run(value) for value in values]
        reach: dict[tuple[ir.Value, ir.Value], ir.Value] = {}
        for run in runs:
            if (run.column, run.shift) not in reach:
                reach[run.column, run.shift] = self._is_whole(run)
        whole = self._has_rows()
        for condition in reach.values():
            whole = both(self.context, whole, condition)
        assert whole is not None
        branch = scf.IfOp(whole, [self.type] * (2 * len(runs)), has_else=True)
        with ir.InsertionPoint(branch.then_block):
            scf.YieldOp([part for run in runs for part in self._vectors(run)])
        with ir.InsertionPoint(branch.else_block):
            scf.YieldOp([part for run in runs for part in self._elements(run)])
        parts = list(branch.results)
        return [
            self._if_exists(run, elements_from(self.context.build, low, high, run.shift))
            for run, low, high in zip(runs, parts[::2], parts[1::2], strict=True)
        ]

    def _run(self, value: int) -> _Run:
        rows, columns = self.split.row_values[value], self.split.col_values[value]
        build = self.context.build
        row, column = build.add(self.origin[0], rows), build.add(self.origin[1], columns)
        return _Run(row, column, is_before_edge(self.context, self.window, 0, row), self._shift(rows % self.run))

    def _shift(self, rows: int) -> ir.Value:
        """Of all rows that lie `rows` past the thread's first, and multiples of a run further."""
        if rows not in self._shifts:
            build, matrix, columns = self.context.build, self.window.matrix, self.window.offsets[1]
            base = build.trunc(llvm.PtrToIntOp(build.i64, matrix.pointer).result, build.i32)
            before = build.mul(build.add(self.origin[0], rows), build.trunc(matrix.row_stride, build.i32))
            if columns.multiple % self.run or columns.shift % self.run:
                before = build.add(before, self.origin[1])
            address = build.add(base, build.mul(before, self.element_bytes))
            past = build.and_(address, self.run * self.element_bytes - 1)
            self._shifts[rows] = build.lshr(past, self.element_bytes.bit_length() - 1)
        return self._shifts[rows]

    def _is_whole(self, run: _Run) -> ir.Value:
        """Whether the vectors around a run lie within its row."""
        build = self.context.build
        length = build.select(build.eq(run.shift, 0), self.run, build.sub(2 * self.run, run.shift))
        ends_inside = build.ule(build.add(run.column, length), self.window.matrix.extents[1])
        return build.and_(build.ule(run.shift, run.column), ends_inside)

    def _has_rows(self) -> ir.Value | None:
        """Whether the matrix has a row of every shift; None where it is known to."""
        rows = self.window.matrix.extents[0]
        known = rows if isinstance(rows, int) else None
        return None if known is not None and known >= self.run else self.context.build.ule(self.run, rows)

    def _start(self, run: _Run, row: ir.Value) -> ir.Value:
        """The address of the first of the vectors around a run, in this row."""
        build = self.context.build
        back = build.sext(build.sub(0, run.shift), build.i64)
        return element_pointer(global_pointer(self.context, self.window, row, run.column), back, self.element)

    def _vectors(self, run: _Run) -> list[ir.Value]:
        """Both vectors, loaded at once; of a last row with the same shift where the run's does not exist."""
        build = self.context.build
        row = run.row
        if run.row_exists is not None:
            last = build.sub(self.window.matrix.extents[0], 1)
            before = build.and_(build.sub(last, row), self.run - 1)
            row = build.select(run.row_exists, row, build.sub(last, before))
        start = self._start(run, row)
        # A run that is aligned is loaded twice, from L1, and its second copy is not used.
        further = build.select(build.eq(run.shift, 0), 0, self.run)
        second = element_pointer(start, build.zext(further, build.i64), self.element)
        size = self.run * self.element_bytes
        return [llvm.LoadOp(self.type, pointer, alignment=size).result for pointer in (start, second)]

    def _elements(self, run: _Run) -> list[ir.Value]:
        """Both vectors, those of their elements that exist loaded one after the other; zeros past the matrix."""
        some = both(self.context, run.row_exists, self.context.build.ult(run.column, self.window.matrix.extents[1]))
        branch = scf.IfOp(some, [self.type, self.type], has_else=True)
        with ir.InsertionPoint(branch.then_block):
            scf.YieldOp(self._one_by_one(run))
        with ir.InsertionPoint(branch.else_block):
            zero = vector.BroadcastOp(self.type, number(self.element, 0)).result
            scf.YieldOp([zero, zero])
        return list(branch.results)

    def _one_by_one(self, run: _Run) -> list[ir.Value]:
        """A loop over the elements of both vectors.

        What the vector begins with is shifted out of it. It is no 0, which LLVM would keep in one register with that of
        the count: then branches would seem to depend on what is loaded.
        """
        build, wide = self.context.build, vector_type(2 * self.run, self.element)
        start, first = self._start(run, run.row), build.sub(run.column, run.shift)
        bounds = (build.constant(value, build.i32) for value in (0, 2 * self.run, 1))
        loop = scf.ForOp(*bounds, [vector.BroadcastOp(wide, number(self.element, 1)).result])
        keep_rolled(loop)
        with ir.InsertionPoint(loop.body):
            index = loop.induction_variable
            before = build.ult(build.add(first, index), self.window.matrix.extents[1])
            exists = both(self.context, run.row_exists, before)
            loaded = where(exists, self.element, lambda: self._element_at(start, index))
            last = vector.FromElementsOp(vector_type(1, self.element), [loaded]).result
            scf.YieldOp([shuffle(loop.inner_iter_args[0], last, range(1, 1 + 2 * self.run))])
        return [shuffle(loop.results[0], loop.results[0], range(at, at + self.run)) for at in (0, self.run)]

    def _element_at(self, start: ir.Value, index: ir.Value) -> ir.Value:
        place = self.context.build.zext(index, self.context.build.i64)
        return load_element(self.element, element_pointer(start, place, self.element))

    def _if_exists(self, run: _Run, held: ir.Value) -> ir.Value:
        if run.row_exists is None:
            return held
        zero = vector.BroadcastOp(self.type, number(self.element, 0)).result
        return arith.select(run.row_exists, held, zero)
