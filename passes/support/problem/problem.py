"""The problem of a `tile.gemm`, a kernel or a host function: sizes, layout, element types, kinds of operands."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import ceil
from typing import TypeVar

from mlir import ir

from lowtide.decompositions import DECOMPOSITIONS, Decomposition
from lowtide.dialects import tile
from lowtide.dialects.enums import is_whole, whole_results
from lowtide.dialects.tile import GemmLayout, OperandKind, Precision, ResultKind
from lowtide.dialects.tile.lists import is_list
from lowtide.elements import element_type, multiplied_types, promotes
from lowtide.errors import ScheduleError
from lowtide.passes.support.problem.attributes import problem_attribute
from lowtide.passes.support.problem.element_types import element_name
from lowtide.passes.support.problem.matrix_layouts import (
    a_is_mk,
    b_is_nk,
    dims_of_a,
    dims_of_b,
    swapped_layout,
)
from lowtide.passes.support.problem.operand_kinds import (
    INTEGERS,
    SCALES,
    is_of_epilogue,
    swapped_kind,
    swapped_result,
)
from lowtide.passes.support.streams.streams import Stream
from lowtide.reductions import REDUCTIONS, Reduction
from lowtide.words import APART

T = TypeVar("T")

# The element type of packed weights in memory.
WEIGHT_BYTES = "u8"


def decomposition_of(precision: ir.Attribute) -> Decomposition:
    """The row of the table of decompositions for a `precision`."""
    return DECOMPOSITIONS[str(Precision(ir.IntegerAttr(precision).value))]


def is_batch(matrix: ir.Value) -> bool:
    """Whether a memref is a batch of matrices: of three dimensions, the batch first."""
    return ir.MemRefType(matrix.type).rank == 3


def static_extent(memref: ir.MemRefType, dim: int) -> int | None:
    """The extent along a dimension; None if it is 0, or known only at run time. Dimension -1 is the last one."""
    dim %= memref.rank
    return None if memref.is_dynamic_dim(dim) else memref.get_dim_size(dim) or None


# One instruction each, and no more registers than a sum needs.
_PLAIN_MATH = frozenset({"math.absf", "math.roundeven"})
_EXCHANGED = str.maketrans("mn", "nm")
_EXCHANGED_OPERANDS = str.maketrans("ab", "ba")


@dataclass(frozen=True)
class Problem:
    """Sizes (None: known at run time), layout and element types (names of rows of `lowtide.elements`) of a GEMM.

    A size of 0 counts as known only at run time: the kernel then takes any size. The caller sees that it need not run,
    or gives it zeros for A and B.
    """

    m: int | None
    n: int | None
    k: int | None
    a: str
    b: str
    acc: str
    d: str
    """The element type of D, the first full result."""
    layout: GemmLayout
    kinds: tuple[OperandKind, ...] = ()
    operands: tuple[str, ...] = ()
    """The element type of each epilogue operand."""
    functions: int = 0
    """The number of functions (erf, exp, …) that the epilogue calls for each element."""
    d_is_column_major: bool = False
    """Whether full results and full operands lie column by column, in a batch for each product."""
    swapped: bool = False
    """Whether this is Dᵀ = Bᵀ · Aᵀ of the problem that was asked for."""
    batch: int | None = 1
    """The number of products (None: known at run time); 1 without a batch."""
    is_batched: bool = False
    """Whether A, B and D have a dimension for the batch."""
    is_fast: bool = False
    """Whether sums may be less precise than the accumulators' type, as mma instructions leave them."""
    transposed: str | None = ""
    """The operands among "ab" whose transpose, in a workspace, is multiplied; `layout` is the one after that. None if
    the IR no longer has this information."""
    converted: tuple[str | None, str | None] = (None, None)
    """The types of A and B before they are converted, on their way to registers, to `a` and `b`; None for an operand
    that is not converted."""
    group: int = 0
    """Elements of K in a group whose sum has its own scale; 0 without such scales."""

    precision: str | None = None
    """The sum of products of narrower pieces that computes the product."""
    expected: frozenset[str] = frozenset()
    """The extents among "m", "n", "k" and "batch" that only the choice of the schedule knows; they are run-time
    ones."""
    results: tuple[ResultKind, ...] = (ResultKind.full,)
    beside: tuple[str, ...] = ()
    """The element types of the full results after D."""
    groups: int | None = None
    """The number of groups of rows, if rows are grouped and it is known at compile time. Groups of K are a batch."""
    pairs: str | None = None
    """How pairs of columns lie in B, "stacked" or "interleaved"; None without pairs. `n` counts the columns of B, two
    for each column of D."""
    is_padded: bool = False
    """Whether groups of rows are padded: a batch of products, each with its own number of rows, at most M."""
    lists: str = ""
    """The operands among "abd" that are lists of matrices, which lie anywhere in memory; "d" are the full results."""

    @property
    def has_math(self) -> bool:
        """Whether the epilogue calls functions, which need many registers."""
        return self.functions > 0

    @property
    def sums(self) -> int:
        """The number of accumulators for each element of D."""
        return 1 if self.pairs is None else 2

    @property
    def columns_of_d(self) -> int | None:
        """N of D, if it is known: with pairs of columns, half the number of B's columns."""
        return None if self.n is None else self.n // self.sums

    def tile_of_d(self, tile: Sequence[int]) -> tuple[int, int]:
        """The extents of the part of D that belongs to a tile of accumulators."""
        return tile[0], tile[1] // self.sums

    @property
    def stored(self) -> tuple[str, ...]:
        """The element types of the full results, D's first."""
        return (self.d, *self.beside)

    @property
    def widest(self) -> str:
        """The element type with the most bits among those of the full results."""
        return max(self.stored, key=lambda name: element_type(name).bits)

    @property
    def narrowest(self) -> str:
        """The element type with the fewest bits among those of the full results."""
        return min(self.stored, key=lambda name: element_type(name).bits)

    def of_result(self, dtype: str) -> "Problem":
        """The problem whose D has this element type."""
        return replace(self, d=dtype, beside=self.stored) if dtype != self.d else self

    @property
    def compiled(self) -> "Problem":
        """The problem of the kernel, whose expected extents are known only at run time. Rules check this one."""
        if not self.expected:
            return self
        return replace(self, **dict.fromkeys(self.expected, None), expected=frozenset())  # type: ignore[arg-type]

    def expecting(self, extents: Mapping[str, int]) -> "Problem":
        """The problem for which a schedule is chosen if the kernel also serves others. `extents`: by name, of the
        problem that was asked for."""
        own = dict(extents)
        if self.decomposition is not None and "k" in own:
            own["k"] = self.decomposition.depth(own["k"])
        return replace(self, **own, expected=frozenset(own))  # type: ignore[arg-type]

    @property
    def decomposition(self) -> Decomposition | None:
        """How A and B were split, if they are pieces."""
        row = DECOMPOSITIONS[self.precision] if self.precision else None
        return row if row is not None and self.a == row.piece else None

    @property
    def promotes(self) -> bool:
        """Whether each K step must be summed by itself: long sums are too imprecise, or each step has a scale."""
        is_imprecise = promotes(self.a) or self.decomposition is not None
        return self.group > 0 or self.is_scaled or (not self.is_fast and is_imprecise)

    @property
    def is_plain(self) -> bool:
        """Whether sums are converted and stored as D, and nothing else is read, computed or given."""
        is_bare = {*self.kinds} <= {*INTEGERS}
        return is_bare and not self.has_math and self.results == (ResultKind.full,) and self.pairs is None

    @property
    def is_grouped(self) -> bool:
        """Whether the rows of A and D are in groups, each with a matrix of B of its own."""
        return OperandKind.ends in self.kinds and not self.k_is_grouped

    @property
    def k_is_of_matrices(self) -> bool:
        """Whether each matrix of A, a list, has its own K, which only the device knows."""
        return "a" in self.lists and self.compiled.k is None

    @property
    def takes_rows(self) -> bool:
        """Whether the rows of A are taken at an index."""
        return OperandKind.a_rows in self.kinds

    @property
    def copied_by_threads(self) -> bool:
        """Whether threads must copy A or B: its rows are taken at an index, or its matrices are a list."""
        return self.takes_rows or bool(self.lists)

    @property
    def places_rows(self) -> bool:
        """Whether rows of the product are stored into the rows of D at an index."""
        return OperandKind.d_rows in self.kinds

    @property
    def has_arrivals(self) -> bool:
        """Whether the matrices of A are shards that arrive while the kernel runs."""
        return OperandKind.arrived in self.kinds

    @property
    def has_peers(self) -> bool:
        """Whether the kernel can send this GPU's shard of A to other GPUs (`Schedule.sends`)."""
        return OperandKind.peers in self.kinds

    @property
    def k_is_grouped(self) -> bool:
        """Whether K is in groups: a batch of products, each over its own range of the K of one A and one B."""
        return OperandKind.ends in self.kinds and self.is_batched and not self.is_padded

    @property
    def lacks_d(self) -> bool:
        """Whether no full result is stored: all results are reductions."""
        return ResultKind.absent in self.results

    @property
    def reductions(self) -> tuple[Reduction, ...]:
        """The results that are reductions."""
        found = (REDUCTIONS.get(str(kind)) for kind in self.results)
        return tuple(each for each in found if each is not None)

    @property
    def scales(self) -> tuple[Stream, ...]:
        """The scales of the sums of blocks of K: those of rows and those of columns, or none."""
        found = (SCALES[kind] for kind in self.kinds if kind in SCALES)
        return tuple(sorted(found, key=lambda scales: not scales.of_rows))

    @property
    def is_scaled(self) -> bool:
        """Whether the sums of blocks of K have scales."""
        return bool(self.scales)

    def stream(self, name: str) -> Stream:
        """The data of `a` or `b` that a K step reads. A byte of packed weights may hold the weights of two rows."""
        return self._streams[name]

    @cached_property
    def _streams(self) -> Mapping[str, Stream]:
        return {name: self._stream(name) for name in ("a", "b")}

    def _stream(self, name: str) -> Stream:
        k_is_last = a_is_mk(self.layout) if name == "a" else b_is_nk(self.layout)
        if self.weights is not None and name == self.packed:
            return Stream(name == "a", WEIGHT_BYTES, element_type(self.weights).per_byte, k_is_last=k_is_last)
        return Stream(name == "a", self.given_types["ab".index(name)], k_is_last=k_is_last)

    @property
    def region_kinds(self) -> tuple[OperandKind, ...]:
        """The kinds of the operands that the epilogue reads."""
        return tuple(filter(is_of_epilogue, self.kinds))

    @property
    def weights(self) -> str | None:
        """The type of packed weights, which are B, or A if operands are swapped."""
        return self.converted[0 if self.swapped else 1]

    @property
    def packed(self) -> str | None:
        """The name of the operand, `a` or `b`, that is packed weights."""
        return None if self.weights is None else "a" if self.swapped else "b"

    @property
    def given_types(self) -> tuple[str, str]:
        """The types of A and B as given. For packed weights: the type of a weight, not of its bytes."""
        return self.converted[0] or self.a, self.converted[1] or self.b

    @property
    def has_static_extents(self) -> bool:
        """Whether M, N, K and the batch are all known."""
        return None not in (self.m, self.n, self.k, self.batch)

    @property
    def row_of_d(self) -> int | None:
        """The elements of a row of D as it lies in memory; None if they are known only at run time."""
        return self.m if self.d_is_column_major else self.columns_of_d

    def tiles(self, tile: Sequence[int]) -> int | None:
        """The number of tiles of D, in all matrices of a batch; None if it is known only at run time."""
        if self.m is None or self.n is None or self.batch is None:
            return None
        return ceil(self.m / tile[0]) * ceil(self.n / tile[1]) * self.batch

    def swap(self) -> "Problem":
        """The problem Dᵀ = Bᵀ · Aᵀ. The matrices in memory do not change."""
        return replace(
            self,
            m=self.n,
            n=self.m,
            a=self.b,
            b=self.a,
            layout=swapped_layout(self.layout),
            kinds=tuple(map(swapped_kind, self.kinds)),
            converted=self.converted[::-1],
            results=tuple(map(swapped_result, self.results)),
            expected=frozenset(name.translate(_EXCHANGED) if name in "mn" else name for name in self.expected),
            d_is_column_major=not self.d_is_column_major,
            swapped=not self.swapped,
            transposed=None if self.transposed is None else self.transposed.translate(_EXCHANGED_OPERANDS),
        )

    def of_size(self, arguments: Sequence[ir.Type]) -> "Problem":
        """The problem with M, N and K from a kernel's arguments. Arguments that are no memrefs leave them open."""
        a, b, *_ = (*arguments, None, None)  # a part of a kernel, as a test of a pass writes it, may have fewer
        d = first_full(self.results, arguments)
        (m_in_a, k_in_a), (n_in_b, k_in_b) = dims_of_a(self.layout), dims_of_b(self.layout)

        def extent(matrix: ir.Type | None, dim: int, name: str = "") -> int | None:
            counts = isinstance(matrix, ir.MemRefType) and (not name or name != self.packed)  # two rows per byte or one
            return static_extent(matrix, dim) if counts else None

        of_d, of_b = extent(d, -1), extent(b, n_in_b, "b")
        if self.pairs is not None:
            is_in_halves = isinstance(b, ir.MemRefType) and b.rank > (3 if self.is_grouped else 2)
            of_d, of_b = _times(of_d, self.sums), _times(of_b, self.sums if is_in_halves else 1)
        return replace(
            self,
            m=_either(self._rows(arguments), None if self.takes_rows else extent(a, m_in_a, "a")),
            n=_either(of_d, of_b),
            k=_either(extent(a, k_in_a), extent(b, k_in_b)),
        )

    def _rows(self, arguments: Sequence[ir.Type]) -> int | None:
        """M, from D or from the index of its rows."""
        if not self.places_rows:
            d = first_full(self.results, arguments)
            return None if d is None else static_extent(d, -2)
        place = 2 + len(self.results) + self.kinds.index(OperandKind.d_rows)
        index = arguments[place] if place < len(arguments) else None
        return static_extent(index, 0) if isinstance(index, ir.MemRefType) else None

    @classmethod
    def of(cls, gemm: tile.GemmOp) -> "Problem":
        """The problem of a tile.gemm. Raises ScheduleError if it has no full result."""
        matrices = [value.type for value in (gemm.a, gemm.b, *gemm.outs, *gemm.epilogue_operands)]
        known = cls.of_attribute(problem_attribute(gemm), matrices).of_size(matrices)
        d, *_ = whole_results(gemm)
        of_batch = (d,) if known.k_is_grouped else (d, gemm.a, gemm.b)
        batches = [static_extent(ir.MemRefType(value.type), 0) for value in of_batch]
        return replace(
            known,
            functions=sum(each.is_pair for each in known.reductions)
            + sum(
                op.operation.name.startswith("math.") and op.operation.name not in _PLAIN_MATH
                for op in gemm.epilogue.blocks[0].operations
            ),
            batch=next((batch for batch in batches if batch is not None), None) if known.is_batched else 1,
            groups=static_extent(ir.MemRefType(gemm.b.type), 0) if known.is_grouped else None,
            transposed="".join(name for name, x in (("a", gemm.a), ("b", gemm.b)) if _is_transposed(x)),
        )

    @classmethod
    def of_attribute(cls, attribute: tile.ProblemAttr, arguments: Sequence[ir.Type]) -> "Problem":
        """The problem that a kernel or a host function with these arguments carries; M, N and K are left open. Raises
        ScheduleError if it has no full result."""
        a, b, acc = map(element_name, (attribute.a, attribute.b, attribute.acc))
        results = tuple(ResultKind[kind] for kind in attribute.result_kinds)
        d_type = first_full(results, arguments)
        kinds = tuple(OperandKind[kind] for kind in attribute.kinds)
        types = tuple(map(element_name, attribute.operands))
        layout = GemmLayout[attribute.layout]
        (a, b), converted = _multiplied(a, b, attribute.swapped)
        d, *beside = _stored(attribute)
        is_batched = d_type is not None and ir.MemRefType(d_type).rank == 3
        is_batch_of_a = isinstance(arguments[0], ir.MemRefType) and arguments[0].rank == 3 if arguments else False
        return cls(
            *(None, None, None, a, b, acc, d, layout, kinds, types),
            beside=tuple(beside),
            d_is_column_major=attribute.by_columns,
            swapped=attribute.swapped,
            batch=static_extent(ir.MemRefType(d_type), 0) if is_batched else 1,
            is_batched=is_batched,
            is_fast=attribute.fast,
            converted=converted,
            group=attribute.group,
            transposed=None,
            precision=attribute.precision,
            results=results,
            pairs=_word_of_pairs(attribute, arguments) if attribute.pairs else None,
            is_padded=OperandKind.ends in kinds and is_batched and is_batch_of_a,
            lists="".join(name for name, type_ in zip("abd", (*arguments[:2], d_type), strict=False) if is_list(type_)),
        )


def results_in(results: Sequence[object], arguments: Sequence[T]) -> Sequence[T]:
    """The results among the arguments of a kernel, a launch or a host function: they follow A and B."""
    return arguments[2 : 2 + len(results)]


def first_full(results: Sequence[ResultKind], arguments: Sequence[ir.Type]) -> ir.MemRefType | None:
    """The type of the first full result, or of the absent one, among the types of arguments; None if there is none."""
    for kind, type_ in zip(results, results_in(results, arguments), strict=False):
        if is_whole(kind) and isinstance(type_, ir.MemRefType):
            return type_
    return None


def _stored(attribute: tile.ProblemAttr) -> list[str]:
    """The element types of the full results. Raises ScheduleError if there are none."""
    pairs = zip(attribute.results, attribute.result_kinds, strict=True)
    found = [element_name(type_) for type_, kind in pairs if is_whole(ResultKind[kind])]
    if not found:
        raise ScheduleError("a kernel takes its elements from a full result; give the product one [no-full-result]")
    return found


def _is_transposed(matrix: ir.Value) -> bool:
    """Whether a matrix is the transpose of one that was passed."""
    owner = matrix.owner
    pack = None if isinstance(owner, ir.Block) else owner.opview
    return isinstance(pack, tile.PackOp) and bool(pack.transposed) and pack.precision is None


def _multiplied(a: str, b: str, swapped: bool) -> tuple[tuple[str, str], tuple[str | None, str | None]]:
    """The types in which an A and a B of these types are multiplied, and the types from which they are converted."""
    found = multiplied_types(b, a)[::-1] if swapped else multiplied_types(a, b)
    return found, (None if a == found[0] else a, None if b == found[1] else b)


def problem_in(module: ir.Module) -> Problem | None:
    """The problem that the kernel of a module computes, at any level: from the tile.gemm, or later from the kernel."""
    found: list[Problem] = []
    types: list[ir.Type] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == tile.GemmOp.OPERATION_NAME:
            found.append(Problem.of(op.opview))
        elif "tile.problem" in op.attributes:  # the kernel may know less about its arguments
            types.extend(argument.type for argument in op.regions[0].blocks[0].arguments)
        elif "problem" in op.attributes and isinstance(op.attributes["problem"], tile.ProblemAttr):
            found.append(Problem.of_attribute(op.attributes["problem"], types))
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found[0] if found else None


def _word_of_pairs(attribute: tile.ProblemAttr, arguments: Sequence[ir.Type]) -> str:
    """How pairs lie in B. A kernel takes any of them as two matrices."""
    if attribute.interleaved:
        return "interleaved"
    b = arguments[1] if len(arguments) > 1 else None
    is_apart = isinstance(b, ir.MemRefType) and b.rank > 2 and OperandKind.ends.name not in attribute.kinds
    return APART if is_apart else "stacked"


def _times(extent: int | None, count: int) -> int | None:
    return None if extent is None else extent * count


def _either(x: int | None, y: int | None) -> int | None:
    return y if x is None else x
