"""The fields of a GEMM problem, and what follows from them: types, shapes, results and operands."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from lowtide.compiler.block_scales import BlockScales
from lowtide.compiler.epilogue.graph import EpilogueGraph
from lowtide.compiler.epilogue.operands import Operand, OperandKind
from lowtide.compiler.epilogue.results import Result, ResultKind
from lowtide.compiler.spec_fields import (
    A_ROWS,
    COUNTS,
    D_ROWS,
    ENDS,
    ENDS_TYPE,
    FAST,
    SCALES,
    UNBATCHED,
    UNGROUPED,
    ZEROS,
    Groups,
    Unbatched,
    Ungrouped,
)
from lowtide.decompositions import DECOMPOSITIONS, Decomposition
from lowtide.elements import EPILOGUE_TYPE, element_type, multiplied_types, weight_types
from lowtide.words import APART, ARRIVALS, SENDS


@dataclass(frozen=True, kw_only=True)
class GemmFields:
    """The fields of `GemmSpec`, which describes and checks them."""

    m: int | None = None
    n: int | None = None
    k: int | None = None
    batch: int | Unbatched | None = UNBATCHED
    counts: bool = False
    arrivals: bool = False
    peers: bool = False
    groups: int | Groups | Ungrouped | None = UNGROUPED
    a_rows: bool = False
    d_rows: bool = False
    lists: str | None = None
    pairs: str | None = None
    a: str
    b: str
    d: str
    acc: str | None = None
    precision: str | None = None
    layout: str = "tn"
    d_order: str = "row"
    group: int | None = None
    scales: str | None = None
    zero_points: bool = False
    block_scales: BlockScales | None = None
    amax: bool = False
    result_types: Mapping[str, str] | tuple[tuple[str, str], ...] = ()
    epilogue: Callable[..., Any] | None = None
    epilogue_graph: EpilogueGraph = field(init=False, repr=False, compare=False)

    @property
    def is_mixed(self) -> bool:
        """Whether B is packed weights, which are converted to A's type."""
        return self.b in weight_types(self.a)

    @property
    def multiplied(self) -> tuple[str, str]:
        """The types that A and B are multiplied in."""
        return multiplied_types(self.a, self.b)

    @property
    def rows_per_byte(self) -> int:
        """The number of rows of weights in one row of B: two for packed weights of 4 bits."""
        return element_type(self.b).per_byte if self.is_mixed else 1

    @property
    def stored_b(self) -> str:
        """The type of B's array: bytes for packed weights."""
        return "u8" if self.is_mixed else self.b

    @property
    def decomposition(self) -> Decomposition | None:
        """The sum of products of narrower pieces that computes each product; None if there is none."""
        return None if self.precision is None else DECOMPOSITIONS[self.precision]

    @property
    def sums(self) -> str:
        """The element type of the accumulators."""
        assert self.acc is not None
        return EPILOGUE_TYPE if self.acc == FAST else self.acc

    @property
    def is_fast(self) -> bool:
        """Whether sums may be less precise than their type, with the precision of the tensor cores."""
        return self.acc == FAST

    @property
    def is_batched(self) -> bool:
        """Whether A, B and D have a batch dimension."""
        return self.batch is not UNBATCHED

    @property
    def is_grouped(self) -> bool:
        """Whether there are groups: of rows, each with its own matrix of B, or of K, each with its own matrix of D."""
        return self.groups is not UNGROUPED

    @property
    def rows_are_grouped(self) -> bool:
        """Whether rows are in groups, each with its own matrix of B."""
        return self.is_grouped and not self.k_is_grouped

    @property
    def k_is_grouped(self) -> bool:
        """Whether K is in groups, each with its own matrix of D."""
        return isinstance(self.groups, Groups)

    @property
    def ends(self) -> str | None:
        """The name of the operand with the ends of groups, or of the rows of each product of a batch that count; None
        without both."""
        return ENDS if self.is_grouped else COUNTS if self.counts else None

    @property
    def group_count(self) -> int | None:
        """The number of groups; None if it is known only at run time."""
        assert not isinstance(self.groups, Ungrouped)
        return self.groups.count if isinstance(self.groups, Groups) else self.groups

    @property
    def batch_shape(self) -> tuple[int | None, ...]:
        """The batch dimension as a tuple; () for one product."""
        return () if isinstance(self.batch, Unbatched) else (self.batch,)

    @property
    def a_shape(self) -> tuple[int | None, ...]:
        """A's shape in memory: (M, K), or (K, M) for nn and nt, after the batch if there is one. With `a_rows`, A has
        any number of rows."""
        if self.a_rows:
            return (None, self.k)
        return (*self.batch_shape, *((self.m, self.k) if self.layout in ("tn", "tt") else (self.k, self.m)))

    @property
    def b_shape(self) -> tuple[int | None, ...]:
        """B's shape in memory: (N, K), or (K, N) for tt and nt, after the batch or the groups, if any; (2 · N, K) for
        pairs, or (2, N, K) if they are apart. Packed weights of 4 bits are (N / 2, K)."""
        if self.pairs == APART:
            return (2, self.n, self.k)
        groups = (self.group_count,) if self.rows_are_grouped else ()
        n = self.columns
        if self.is_mixed:
            return (*groups, None if n is None else n // self.rows_per_byte, self.k)
        return (*self.batch_shape, *groups, *((n, self.k) if self.layout in ("tn", "nn") else (self.k, n)))

    @property
    def columns(self) -> int | None:
        """The number of columns of A · B: N, or 2 · N for pairs."""
        return self.n if self.pairs is None or self.n is None else 2 * self.n

    @property
    def d_shape(self) -> tuple[int | None, ...]:
        """The shape in memory of D: that of full operands. With `d_rows`, D has any number of rows."""
        return (None, self.n) if self.d_rows else self.full_shape

    @property
    def full_shape(self) -> tuple[int | None, ...]:
        """The shape in memory of full operands: (M, N), or (N, M) for `d_order="column"`, after the batch or the groups
        of K, if any."""
        groups = (self.group_count,) if self.k_is_grouped else ()
        return (*self.batch_shape, *groups, *((self.m, self.n) if self.d_order == "row" else (self.n, self.m)))

    @property
    def row_axis(self) -> int:
        """Which of the two dimensions of a matrix of D, or of a full operand, is that of its rows."""
        return 0 if self.d_order == "row" else 1

    def in_rows(self, matrix: Any) -> Any:
        """D or a full operand as an array of (…, M, N), from its array in memory; and back."""
        return matrix if self.d_order == "row" else matrix.swapaxes(-1, -2)

    @property
    def results(self) -> tuple[Result, ...]:
        """The full results, such as D, and then amax if `amax` is True."""
        return tuple(result for result, _ in self.epilogue_graph.results)

    @property
    def full_results(self) -> tuple[Result, ...]:
        """The results of D's shape: D, or the results that the epilogue returns by name."""
        return tuple(result for result in self.results if result.kind is ResultKind.FULL)

    @property
    def reductions(self) -> tuple[Result, ...]:
        """The results that are reductions."""
        return tuple(result for result in self.results if result.kind.reduction is not None)

    @property
    def returned_results(self) -> tuple[Result, ...]:
        """The results that calls return: all but amax."""
        return tuple(result for result in self.results if result.is_returned)

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The epilogue's operands in the order of its parameters, then the scales and zero points of packed weights,
        the ends of groups (or the counts of a batch), the indices of rows of A and D, those for shards that arrive,
        those for a shard that is sent, and the block scales."""
        scales = (Operand(SCALES, OperandKind.GROUP_SCALE, self.scales or self.a, self.group),) if self.group else ()
        zero_type = "s8" if element_type(self.b).lowest else "u8"
        zeros = (Operand(ZEROS, OperandKind.GROUP_ZERO, zero_type, self.group),) if self.zero_points else ()
        of_blocks = self.block_scales.operands if self.block_scales is not None else ()
        count = self.group_count if self.is_grouped else next(iter(self.batch_shape), None)
        name = self.ends
        ends = () if name is None else (Operand(name, OperandKind.ENDS, ENDS_TYPE, count=count),)
        taken = (Operand(A_ROWS, OperandKind.A_ROWS, ENDS_TYPE),) if self.a_rows else ()
        placed = (Operand(D_ROWS, OperandKind.D_ROWS, ENDS_TYPE),) if self.d_rows else ()
        shards = next(iter(self.batch_shape), None)
        arriving = tuple(
            Operand(name, OperandKind(name), ENDS_TYPE, count=size or shards)
            for name, size in (ARRIVALS.items() if self.arrivals else ())
        )
        sending = SENDS if self.peers else ()
        sent = tuple(Operand(name, OperandKind(name), ENDS_TYPE, count=shards) for name in sending)
        of_shards = (*arriving, *sent)
        return (*self.epilogue_graph.operands, *scales, *zeros, *ends, *taken, *placed, *of_shards, *of_blocks)
