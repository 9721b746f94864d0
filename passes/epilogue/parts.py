"""One tile.store as lower-epilogue splits it: its parts, and the epilogue region on a part."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import memref

from lowtide.dialects import sm, tile
from lowtide.dialects.enums import operand_kinds, result_kinds, results_of, whole_results
from lowtide.dialects.tile import CacheHint, EpilogueMath, OperandKind, ResultKind, StorePath
from lowtide.dialects.tile.layouts import tv_of
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import ScheduleError
from lowtide.passes.base import Refusal
from lowtide.passes.epilogue.largest import Largest
from lowtide.passes.epilogue.reduced import Reducing
from lowtide.passes.schedules.facts.resources import multiplying_threads
from lowtide.passes.support.agents.atoms import (
    STMATRIX_BITS,
    EpilogueAccess,
    fragment_run,
    fragment_type,
    matrices_of_stmatrix,
    part_of,
    rows_of_part,
    stacked_tv,
    stored_at_once,
)
from lowtide.passes.support.agents.reductions import joins_columns, reduction_of, slots_of
from lowtide.passes.support.ir.arithmetic import add
from lowtide.passes.support.ir.builder import Builder
from lowtide.passes.support.ir.rewriting import copy_region, defining_op, size_of_view
from lowtide.passes.support.problem.element_types import element_bits, element_name
from lowtide.passes.support.problem.kernels import problem_of
from lowtide.passes.support.problem.matrix_layouts import is_column_major
from lowtide.passes.support.problem.operand_kinds import operand_is_batched
from lowtide.passes.support.streams.cache_hints import written
from lowtide.reductions import VALUE
from lowtide.targets import TiledMma

Origin = tuple[ir.Value, ir.Value]


@dataclass(frozen=True)
class Part:
    """A part of the tile: its accumulators (two fragments for pairs of columns), its first row and column in the
    results and in the tile, and whether it is the last part of its rows, of its columns, or of the tile."""

    sums: tuple[ir.Value, ...]
    origin: Origin
    place: tuple[int, int]
    ends: tuple[bool, bool]
    is_last: bool

    @property
    def value(self) -> ir.Value:
        """The accumulators; for pairs of columns, the first ones."""
        return self.sums[0]


@dataclass(frozen=True)
class Epilogue:
    """One tile.store, its part of the schedule, and the layout of its fragment in the tiled mma."""

    kernel: tile.KernelOp
    store: tile.StoreOp
    schedule: Schedule
    mma: TiledMma
    maxima: tuple[Largest, ...] = field(init=False)
    reductions: tuple[Reducing, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "maxima", tuple(map(Largest, results_of(self.store, ResultKind.amax))))
        object.__setattr__(self, "reductions", tuple(self._reductions()))

    def _reductions(self) -> Iterator[Reducing]:
        """The results that are reductions, in order."""
        operands = zip(self.store.epilogue_operands, operand_kinds(self.store), strict=True)
        target = next((operand for operand, kind in operands if kind is OperandKind.target), None)
        for result, kind in zip(self.store.outs, result_kinds(self.store), strict=True):
            if (reduction := reduction_of(kind)) is not None:
                problem, threads = problem_of(self.kernel), multiplying_threads(self.schedule)
                slots = slots_of(self.schedule, problem, reduction, threads)
                target_of = target if reduction.operation == VALUE else None
                yield Reducing(kind, result, self.store, slots, target_of, joins_columns(self.schedule))

    @property
    def full(self) -> list[ir.Value]:
        """The full results, such as D. They have the same layout."""
        return results_of(self.store, ResultKind.full)

    @property
    def extents_of(self) -> ir.Value:
        """A result with the extents of A · B: the first full one, or the absent one."""
        return whole_results(self.store)[0]

    @property
    def matrices(self) -> list[ir.Value]:
        """The kernel's arguments for the full results. With groups of rows, a full result is a view of an argument."""
        parts = [(matrix, defining_op(matrix)) for matrix in self.full]
        return [part.source if isinstance(part, memref.SubViewOp) else matrix for matrix, part in parts]

    @property
    def rows_end(self) -> ir.Value | None:
        """The end of the rows of the tile's group, from which on no rows are stored; None without groups."""
        part = defining_op(self.extents_of)
        return size_of_view(part, -2) if isinstance(part, memref.SubViewOp) else None

    @property
    def by_columns(self) -> bool:
        """Whether the full results lie by columns."""
        return is_column_major(self.extents_of.type)

    @property
    def partial(self) -> sm.SumOverKOp | None:
        """The sum over the warps along K that the store takes; None if one warp holds each element."""
        op = defining_op(self.store.value)
        return op if isinstance(op, sm.SumOverKOp) else None

    @property
    def accumulators(self) -> ir.Value:
        """The accumulators as the tiled mma leaves them."""
        return self.store.value if self.partial is None else self.partial.partial

    @property
    def tile_shape(self) -> tuple[int, int]:
        """Rows and columns of the results that the store writes. Pairs take two columns of accumulators for each."""
        rows, columns = self.store.value.type.shape
        return rows, columns // (2 if self.store.pairs else 1)

    @property
    def d_elements(self) -> list[ir.Type]:
        """Elements of each full result."""
        return [element_of(matrix) for matrix in self.full]

    @property
    def acc_element(self) -> ir.Type:
        return self.store.value.type.element_type

    @property
    def cache(self) -> CacheHint | None:
        """`cache(…)` of the stores to full results."""
        return written(self.schedule.epilogue.cache)

    @property
    def scratch_element(self) -> ir.Type:
        """Elements of the scratch buffer, if all results share one. The region runs before it or after it."""
        return self.d_elements[0] if self.schedule.epilogue.math is EpilogueMath.registers else self.acc_element

    @property
    def part_shape(self) -> tuple[int, int]:
        """Rows and columns of a part; by TMA the last of a row may be narrower. A lower tile has lower parts.

        Raises ScheduleError for parts that do not fit, and unknown elements.
        """
        rows, columns = self.tile_shape
        for element in (self.acc_element, *self.d_elements):
            element_bits(element)
        part = self.schedule.epilogue.tile
        whole = part is None or (self.schedule.epilogue.path is StorePath.direct and not self.reductions)
        part_rows, part_columns = (rows, columns) if whole or part is None else (min(part[0], rows), part[1])
        may_be_narrow = self.schedule.epilogue.path is StorePath.tma and part_columns <= columns
        if rows % part_rows or (columns % part_columns and not may_be_narrow):
            raise ScheduleError(
                f"epilogue.tile = [{part_rows}, {part_columns}] does not divide the tile {rows}×{columns}"
                " [parts-divide]"
            )
        return part_rows, part_columns

    def parts(self) -> Iterator[Part]:
        """The tile's parts, each extracted at the insertion point as it is reached."""
        build = Builder.index()
        rows, columns = self.tile_shape
        part_rows, part_columns = self.part_shape
        halves = (0, columns) if self.store.pairs else (0,)
        places = [(row, column) for row in range(0, rows, part_rows) for column in range(0, columns, part_columns)]
        for row, column in places:
            shape = part_rows, min(part_columns, columns - column)
            sums = tuple(self._extract(row, half + column, shape) for half in halves)
            origin = (build.add(self.store.row, row), build.add(self.store.column, column))
            ends = column + part_columns >= columns, row + part_rows >= rows
            yield Part(sums, origin, (row, column), ends, (row, column) == places[-1])

    def _extract(self, row: int, column: int, shape: tuple[int, int]) -> ir.Value:
        accumulators = self.accumulators
        if shape == tuple(accumulators.type.shape):
            return accumulators
        result = fragment_type(part_of(self.mma, shape).tv("c", shape), shape, self.acc_element)
        return sm.ExtractOp(result, accumulators, [row, column]).result

    def stacked(self, part: ir.Value) -> ir.Value:
        """The partial sums of a part, those of each place along K below those of the one before."""
        rows, columns = part.type.shape
        count = self.mma.atom_layout[2]
        tv = stacked_tv(self.mma, (rows, columns))
        return sm.StackOp(fragment_type(tv, (count * rows, columns), self.acc_element), part).result

    def added(self, sums: list[ir.Value]) -> ir.Value:
        """The partial sums of a part, added in order."""
        total, element = sums[0], self.acc_element
        for other in sums[1:]:
            mapped = sm.MapOp([total.type], [total, other])
            block = mapped.body.blocks.append(element, element)
            with ir.InsertionPoint(block):
                tile.YieldOp([add(*block.arguments)])
            total = mapped.result
        return total

    def rows_access(self, shape: tuple[int, int]) -> EpilogueAccess:
        """How rows of a part of this shape are read back and stored."""
        scratch, widest = element_name(self.scratch_element), element_name(max(self.d_elements, key=element_bits))
        threads, most = multiplying_threads(self.schedule), self.schedule.epilogue.store
        return rows_of_part(shape, scratch, widest, threads, most, self.by_columns)

    def scratch_store(self, fragment: sm.FragmentType, most: int = 16) -> str:
        """The atom that writes a fragment to the scratch. `most`: the most bytes that a thread stores at once.

        For elements of 16 bits it is stmatrix, if TMA stores the scratch or if results lie by columns.
        """
        bits, by_tma = element_bits(fragment.element_type), self.schedule.epilogue.path is StorePath.tma
        if bits == STMATRIX_BITS and (by_tma or self.by_columns):
            return f"stmatrix.x{matrices_of_stmatrix(fragment.shape[1])}"
        return f"st.shared.{min(most, held_run(fragment, self.by_columns) * bits // 8)}"

    def window(self, matrix: ir.Value, shape: Sequence[int], origin: Origin) -> ir.Value:
        """The window of a full result."""
        return tile.ViewOp(tile.ViewType.get(shape, element_of(matrix)), matrix, [*self._matrix, *origin]).result

    def store_fragment(self, value: ir.Value, matrix: ir.Value, origin: Origin) -> None:
        """Stores a fragment to a full result from the registers of its threads, in the widest runs that a thread holds.
        With `epilogue.store`, a run has at most the elements that so many bytes of the widest result hold. Rows and
        columns past the end of the result are not stored."""
        bytes_of, *others = (element_bits(element) // 8 for element in (element_of(matrix), *self.d_elements))
        held, most = held_run(value.type, self.by_columns), self.schedule.epilogue.store
        run = stored_at_once(held, max(bytes_of, *others), most)
        window = self.window(matrix, value.type.shape, origin)
        hint = self.cache if self.schedule.epilogue.path is StorePath.direct else None
        sm.StoreGlobalOp(value, window, f"st.global.{run * bytes_of}", cache=hint)

    @property
    def _matrix(self) -> list[ir.Value]:
        """The number of the matrix in a batch; nothing without one."""
        return [] if self.store.batch is None else [self.store.batch]

    def map(self, sums: Sequence[ir.Value], part: Part, loaded: Sequence[ir.Value] = ()) -> list[ir.Value]:
        """Applies the epilogue region to the fragment of a part (with pairs of columns, to both); returns a fragment
        for each full result. Operands have the layout of the fragment: they are `loaded`, from `full_operands`, or
        loaded here. Each amax and each reduction takes its values."""
        inputs, full, value, origin = list(sums), iter(loaded), sums[0], part.origin
        for operand, kind in zip(self.store.epilogue_operands, operand_kinds(self.store), strict=True):
            if kind is OperandKind.target:
                continue
            if kind is OperandKind.scalar:
                inputs.append(operand)
            elif kind is OperandKind.full and loaded:
                inputs.append(next(full))
            else:
                inputs.append(self._load(operand, kind, origin, value.type))
        region = self.store.epilogue.blocks[0]
        computed = [
            pair for pair in zip(self.store.outs, result_kinds(self.store), strict=True) if is_computed(pair[1])
        ]
        kinds, elements = [kind for _, kind in computed], [element_of(result) for result, _ in computed]
        mapped = sm.MapOp([sm.FragmentType.get(value.type.shape, x, value.type.tv) for x in elements], inputs)
        copy_region(region, mapped.body)
        full_results: list[ir.Value] = []
        maxima, reductions, shape = iter(self.maxima), iter(self.reductions), value.type.shape
        for values, own in zip(mapped.mapped, kinds, strict=True):
            if own is ResultKind.full:
                full_results.append(values)
            elif own is ResultKind.amax:
                next(maxima).add(values, self.window(self.extents_of, shape, origin))
            else:
                next(reductions).add(values, self.window(self.extents_of, shape, origin), origin, part.place, part.ends)
        return full_results

    def full_operands(self, part: Part) -> list[ir.Value]:
        """The elements of a part of all full operands, in the rows in which the part is read back."""
        shape = tuple(part.value.type.shape)
        rows = fragment_type(self.rows_access(shape).rows.tv, shape, self.scratch_element)
        operands = zip(self.store.epilogue_operands, operand_kinds(self.store), strict=True)
        return [self._load(operand, kind, part.origin, rows) for operand, kind in operands if kind is OperandKind.full]

    def _load(self, operand: ir.Value, kind: OperandKind, origin: Origin, like: ir.Type) -> ir.Value:
        element = element_of(operand)
        row, column = origin
        offsets = {OperandKind.full: [row, column], OperandKind.per_row: [row], OperandKind.per_column: [column]}
        if kind not in offsets:
            raise Refusal(
                self.store,
                f"has an operand of kind {kind}, whose parts cannot be loaded; take another kind [part-operand]",
            )
        window = tile.ViewType.get(like.shape, element)
        said = None if kind is OperandKind.full else kind
        matrix = self._matrix if operand_is_batched(operand, kind) else []
        view = tile.ViewOp(window, operand, [*matrix, *offsets[kind]], kind=said).result
        result = sm.FragmentType.get(like.shape, element, like.tv)
        # The values of a thread that are neighbours in memory, at most 16 bytes.
        in_registers = self.schedule.epilogue.math is EpilogueMath.registers
        by_columns = is_column_major(operand.type)
        run = held_run(like, by_columns) if in_registers else self.rows_access(tuple(like.shape)).rows.vector
        bytes_per_load = min(16, run * element_bits(element) // 8)
        return sm.LoadGlobalOp(result, view, f"ld.global.{bytes_per_load}").result


def is_computed(kind: ResultKind) -> bool:
    """Whether the region yields a value for a result of this kind."""
    return kind is not ResultKind.absent


def element_of(matrix: ir.Value) -> ir.Type:
    """The element type of a memref."""
    return ir.MemRefType(matrix.type).element_type


def held_run(fragment: sm.FragmentType, by_columns: bool) -> int:
    """`fragment_run` of a fragment: along columns if the matrix lies by columns, else along rows."""
    return fragment_run(tv_of(fragment.tv), tuple(fragment.shape), element_bits(fragment.element_type), by_columns)
