"""Loads of runs that lie anywhere: aligned vectors around each, from which registers are shifted into place.

A run of `run` elements begins `shift` elements past a multiple of its size. The two aligned vectors that it lies in are
loaded, and the elements from `shift` on selected, in steps of powers of two: of 16-bit elements, 11 selections of
words, 4 permutations of bytes and 4 selections for 16 bytes. Where a vector reaches past the edges of the matrix,
elements are loaded instead, one after the other: no access is outside of it.
"""

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, llvm, scf, vector

from lowtide.passes.nvvm.context import Context
from lowtide.passes.nvvm.control import LOOP_ANNOTATION, ROLLED
from lowtide.passes.nvvm.memory import both, element_pointer, global_pointer, is_before_edge
from lowtide.passes.nvvm.values import Window, vector_type
from lowtide.passes.support.problem import element_bits
from lowtide.targets import SplitCoordinates


@dataclass(frozen=True)
class _Place:
    """Where the runs of a row begin: elements past a multiple of a run's size, and whether that is 0."""

    shift: ir.Value
    is_aligned: ir.Value


class RealignedLoads:
    """Loads of the runs of a thread's values; rows of which multiples of a run lie between share their shift."""

    def __init__(
        self, context: Context, window: Window, split: SplitCoordinates, origin: tuple[ir.Value, ir.Value], run: int
    ) -> None:
        self.context = context
        self.window = window
        self.split = split
        self.origin = origin
        self.run = run
        self.element_bytes = element_bits(window.matrix.element) // 8
        self.type = vector_type(run, window.matrix.element)
        self._places: dict[int, _Place] = {}

    def load(self, value: int) -> ir.Value:
        """The run whose first element is the thread's value of this number."""
        rows, columns = self.split.row_values[value], self.split.col_values[value]
        build = self.context.build
        place = self._place(rows % self.run)
        row, column = build.add(self.origin[0], rows), build.add(self.origin[1], columns)
        low, high = self._around(place, row, column)
        return self._shifted(low, high, place.shift)

    def _place(self, rows: int) -> _Place:
        """For all rows that lie `rows` past the thread's first, and multiples of a run further."""
        if rows not in self._places:
            build, matrix = self.context.build, self.window.matrix
            assert matrix.row_stride is not None
            base = build.trunc(llvm.PtrToIntOp(build.i64, matrix.pointer).result, build.i32)
            before = build.mul(build.add(self.origin[0], rows), build.trunc(matrix.row_stride, build.i32))
            if self.window.offsets[1].multiple % self.run or self.window.offsets[1].shift % self.run:
                before = build.add(before, self.origin[1])
            address = build.add(base, build.mul(before, self.element_bytes))
            past = build.and_(address, self.run * self.element_bytes - 1)
            shift = build.lshr(past, self.element_bytes.bit_length() - 1)
            self._places[rows] = _Place(shift, build.eq(shift, 0))
        return self._places[rows]

    def _around(self, place: _Place, row: ir.Value, column: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The two aligned vectors in which a run lies, zero outside of the matrix."""
        build, run, extent = self.context.build, self.run, self.window.matrix.extents[1]
        row_exists = is_before_edge(self.context, self.window, 0, row)
        some = both(self.context, row_exists, build.ult(column, extent))
        assert some is not None
        end = build.add(column, build.select(place.is_aligned, run, build.sub(2 * run, place.shift)))
        whole = build.and_(build.ule(place.shift, column), build.ule(end, extent))
        back = build.sub(0, place.shift)
        start = element_pointer(
            global_pointer(self.context, self.window, row, column),
            build.sext(back, build.i64),
            self.window.matrix.element,
        )
        inside = scf.IfOp(some, [self.type, self.type], has_else=True)
        with ir.InsertionPoint(inside.then_block):
            at_once = scf.IfOp(whole, [self.type, self.type], has_else=True)
            with ir.InsertionPoint(at_once.then_block):
                # A run that is aligned is loaded twice, from L1, and its second copy is not used.
                further = build.select(place.is_aligned, 0, run)
                second = element_pointer(start, build.zext(further, build.i64), self.window.matrix.element)
                size = run * self.element_bytes
                scf.YieldOp([llvm.LoadOp(self.type, pointer, alignment=size).result for pointer in (start, second)])
            with ir.InsertionPoint(at_once.else_block):
                scf.YieldOp(self._by_elements(start, row_exists, build.add(column, back)))
            scf.YieldOp(list(at_once.results))
        with ir.InsertionPoint(inside.else_block):
            zero = vector.BroadcastOp(self.type, arith.constant(self.window.matrix.element, 0.0)).result
            scf.YieldOp([zero, zero])
        return inside.results[0], inside.results[1]

    def _by_elements(self, start: ir.Value, row_exists: ir.Value | None, first: ir.Value) -> list[ir.Value]:
        """Both vectors, those of their elements that exist loaded one after the other.

        What the vector begins with is shifted out of it. It is no 0, which LLVM would keep in one register with that of
        the count: then branches would seem to depend on what is loaded.
        """
        build, run, element = self.context.build, self.run, self.window.matrix.element
        wide = vector_type(2 * run, element)
        zero = arith.constant(element, 0.0)
        bounds = (build.constant(value, build.i32) for value in (0, 2 * run, 1))
        loop = scf.ForOp(*bounds, [vector.BroadcastOp(wide, arith.constant(element, 1.0)).result])
        loop.operation.attributes[LOOP_ANNOTATION] = ir.Attribute.parse(ROLLED)
        with ir.InsertionPoint(loop.body):
            index = loop.induction_variable
            before = build.ult(build.add(first, index), self.window.matrix.extents[1])
            exists = both(self.context, row_exists, before)
            loaded = scf.IfOp(exists, [element], has_else=True)
            with ir.InsertionPoint(loaded.then_block):
                pointer = element_pointer(start, build.zext(index, build.i64), element)
                scf.YieldOp([llvm.LoadOp(element, pointer, alignment=self.element_bytes).result])
            with ir.InsertionPoint(loaded.else_block):
                scf.YieldOp([zero])
            last = vector.FromElementsOp(vector_type(1, element), [loaded.results[0]]).result
            scf.YieldOp([vector.ShuffleOp(loop.inner_iter_args[0], last, list(range(1, 2 * run + 1))).result])
        both_parts = loop.results[0]
        return [vector.ShuffleOp(both_parts, both_parts, list(range(at, at + run))).result for at in (0, run)]

    def _shifted(self, low: ir.Value, high: ir.Value, shift: ir.Value) -> ir.Value:
        """The `run` elements from the `shift`-th on, of those of both vectors."""
        build, run = self.context.build, self.run
        held = vector.ShuffleOp(low, high, list(range(2 * run))).result
        power = run // 2
        while power:
            kept = run + power if power > 1 else run
            near, far = (vector.ShuffleOp(held, held, list(range(at, at + kept))).result for at in (0, power))
            held = arith.select(build.ne(build.and_(shift, power), 0), far, near)
            power //= 2
        return held
