"""`GemmSpec`: the problem of a kernel, D = epilogue(A · B, operands…). The schedule says how it is computed."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, Final

from lowtide.compiler.block_scales import BlockScales
from lowtide.compiler.dtypes import choices
from lowtide.compiler.epilogue.graph import EpilogueGraph, trace
from lowtide.compiler.epilogue.operands import Operand, OperandKind, OperandType
from lowtide.compiler.epilogue.results import OneResult, Result, ResultKind, gives_d_alone
from lowtide.compiler.spec_fields import LARGEST_EXTENT, check_word, extent_of
from lowtide.decompositions import DECOMPOSITIONS, Decomposition, decompositions_of
from lowtide.elements import (
    ELEMENTS,
    EPILOGUE_TYPE,
    WEIGHT_BLOCK,
    WEIGHT_ROWS,
    element_type,
    multiplied_types,
    output_types,
    promotes,
    types_of_d,
    weight_types,
)
from lowtide.errors import SpecError
from lowtide.keywords import check_fields
from lowtide.reductions import REDUCED_TYPE
from lowtide.targets import accumulator_types, operand_types, partner_types

LAYOUTS = ("tn", "tt", "nn", "nt")
PAIRS = ("stacked", "interleaved")  # how the two columns of a pair lie in B
PAIRED_LAYOUTS = ("tn", "nn")  # those with K of B contiguous
D_ORDERS = ("row", "column")
FAST = "fast"  # in place of the type of the sums
SCALES, ZEROS = "scales", "zeros"  # names of operands of packed weights
ENDS, ENDS_TYPE = "ends", "s32"  # of the operand with the ends of groups of rows
SCALE_TYPES = ("f16", "bf16", "f32")
WEIGHT_LAYOUTS = ("tn", "nn")  # those with K of B contiguous
GROUPED_LAYOUTS = ("tn", "tt")  # with rows grouped: those with K of A contiguous
K_GROUPED_LAYOUT = "nt"  # with K grouped: that with M of A and N of B contiguous
GROUP_AXES = ("m", "k")
LARGEST_GROUPED_K = 2**30  # coordinates of tensor maps whose rows end with a group


WEIGHT_GROUPS = (32, 64, 128)


class Unbatched(Enum):
    """The value of `GemmSpec.batch` for one product; None is a batch known at run time."""

    UNBATCHED = "unbatched"

    def __repr__(self) -> str:
        return f"lowtide.{self.name}"


UNBATCHED: Final = Unbatched.UNBATCHED


class Ungrouped(Enum):
    """The value of `GemmSpec.groups` if rows are not grouped; None means a number of groups known at run time."""

    UNGROUPED = "ungrouped"

    def __repr__(self) -> str:
        return f"lowtide.{self.name}"


UNGROUPED: Final = Ungrouped.UNGROUPED


@dataclass(frozen=True)
class Groups:
    """The value of `GemmSpec.groups` for `count` groups (`None`: known at run time) of rows (`axis="m"`), as is an
    integer alone, or of K (`axis="k"`)."""

    count: int | None = None
    axis: str = "m"


# Advice for fields that other libraries have.
_INSTEAD = {
    "sparsity": "sparse operands (2:4) are not supported: multiply the dense matrix",
    "sparse": "sparse operands (2:4) are not supported: multiply the dense matrix",
    "experts": "groups= is the number of experts; each multiplies its own rows",
    "dtype": "give the types of a, b and d",
    "alpha": "scale the sums in the epilogue",
    "beta": "add a full operand, scaled, in the epilogue",
    "bias": "add it in the epilogue, as an operand",
    "activation": "apply it in the epilogue",
}


@check_fields(_INSTEAD)
@dataclass(frozen=True, kw_only=True)
class GemmSpec:
    """One GEMM problem, D (M, N) = epilogue(A · B, operands…), or a batch of them.

    - `m`, `n`, `k`: extents from 0 to 2³¹−1, or `None` for run-time arguments of the kernel. If M or N is 0, D is empty
      and nothing is launched. If K is 0, D = epilogue(0, operands…).
    - `batch`: the number of products, 1 to 2³¹−1, or `None` for a run-time argument; `UNBATCHED`, the default: one
      product. The batch is the first dimension of A, B and D, with any stride that the alignment allows. An A, a B or
      an epilogue operand without this dimension, or with stride 0 along it (`torch.expand`), is shared by all products.
    - `groups`: the number of groups of rows, 1 to 2³¹−1, or `None` for a run-time argument; `UNGROUPED`, the default:
      none. Each group of rows of A is multiplied by its own matrix of B, whose first dimension is the group. The kernel
      also takes `ends`, s32 (groups,): group g consists of the rows `ends[g − 1]` (0 for the first group) to
      `ends[g] − 1`. Only the device reads `ends`. An end that is less than the end before it, or greater than M, is
      clamped. Rows of D after the last end are not written. The layout must be tn or tt, and D by rows; a batch, packed
      weights, block scales and f32 by pieces are not supported. With `lt.Groups(groups, axis="k")`, K is grouped: D
      (groups, M, N) has a matrix for each group, the product over the K from `ends[g − 1]` to `ends[g] − 1`; 0 if the
      group is empty. The end before is clamped to 0 … K, and an end to the end before … K. The layout must be nt, and K
      at most 2³⁰. Full operands have the shape of D; the others are shared by all groups.
    - `pairs`: None, the default, or how pairs of columns lie in B, as in a gated MLP: B then has 2 · N columns, and the
      epilogue takes the accumulators of both columns, `def swiglu(gate, up)`, for the element of D, which has N. With
      "stacked", B's first N columns belong to `gate` and the others to `up`; with "interleaved" they alternate. The
      layout must be tn or nn, and D by rows; a batch, groups, packed weights, block scales and f32 by pieces are not
      supported.
    - `a`, `b`: the dtypes of the inputs: f16, bf16, f32 or f64, equal; e4m3 and e5m2 in any combination; or s8 and u8
      in any combination; or packed weights, below.
    - `d`: f16, bf16, f32, s8, u8, e4m3 or e5m2; values are clamped to the range of the latter four. f64 with f64
      inputs; also s32 with s8 and u8 inputs.
    - `acc`: f32, or f16 for f16 inputs; f64 for f64 inputs, s32 for s8 and u8 inputs. None, the default: f32, f64 or
      s32. "fast": f32 sums with the precision of the tensor cores, about 14 bits for 8-bit floats; with "f32", sums of
      at most 128 of their products are added in f32.
    - `precision`: how products of f32 inputs are computed. "f32", the default: in f32, without tensor cores. "tf32x3",
      "bf16x6": as three products of tf32, or six of bf16, on tensor cores (`lowtide.decompositions`). "tf32": as one
      product of tf32, like a = b = "tf32".
    - `layout`: the shapes of A and B in memory; the last dimension is contiguous, rows may be padded.
      tn: A (M, K), B (N, K); tt: A (M, K), B (K, N); nn: A (K, M), B (N, K); nt: A (K, M), B (K, N).
    - `d_order`: the shape of D and its full operands in memory: "row" for (M, N), "column" for (N, M), after the batch
      if there is one; the last dimension is contiguous.
    - `group`, `scales`, `zero_points`: for packed weights.
    - `block_scales`: None, or the block scales of A and B of 8-bit floats (`BlockScales`), which are the operands
      `scale_a` and `scale_b`.
    - `amax`: the kernel also takes `amax`, an array of one f32, and sets it to the largest absolute value of the
      epilogue's first full result, before clamping and rounding, over all products of a batch; NaN if any value is NaN.
    - `epilogue`: a function of the accumulator and named operands (`lowtide.compiler.epilogue`), traced immediately.
      It returns the value of D's element, or a dict or an instance of a dataclass. Then each entry is a full result,
      which has the shape of D, or a reduction (`lowtide.compiler.epilogue.reductions`), and calls take and return a
      dict of arrays.
    - `result_types`: a dict from the name of a full result to its dtype, for results whose dtype is not `d`.

    Packed weights: with an A of f16 or bf16, `b` may be s8, u8, s4, u4 or e4m3. B is then the result of
    `lt.pack_weights` for weights (N, K): bytes of shape `b_shape`, converted exactly to A's type in registers. Each sum
    over `group` elements of K, 32, 64 or 128, is scaled: the kernel takes `scales` (K / group, N), of type f16, bf16 or
    f32, by default A's. With `zero_points`, the zero point of a group is subtracted from its integer weights: the
    kernel takes `zeros` (K / group, N), s8 for s8 and s4, u8 for u8 and u4. K is a multiple of `group`, or of 32. 4-bit
    weights require groups, and an N that is a multiple of 16. The layout is tn or nn, D is by rows, and there is no
    batch.

    Raises `SpecError` for anything else.
    """

    m: int | None = None
    n: int | None = None
    k: int | None = None
    batch: int | Unbatched | None = UNBATCHED
    groups: int | Groups | Ungrouped | None = UNGROUPED
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

    def __post_init__(self) -> None:
        for name in ("m", "n", "k"):
            object.__setattr__(self, name, extent_of(name, getattr(self, name)))
        if self.batch is not UNBATCHED:
            object.__setattr__(self, "batch", extent_of("batch", self.batch, least=1))
        if self.groups is not UNGROUPED:
            object.__setattr__(self, "groups", _groups(self.groups))
        check_word("dtype", "a", self.a, operand_types())
        check_word("dtype", "b", self.b, tuple(dict.fromkeys((*operand_types(), *weight_types()))))
        check_word("dtype", "d", self.d, types_of_d())
        if self.acc is not None:
            check_word("accumulator", "acc", self.acc, (*accumulator_types(), FAST))
        check_word("layout", "layout", self.layout, LAYOUTS)
        check_word("d_order", "d_order", self.d_order, D_ORDERS)
        self._settle_precision()
        _check_weights(self)
        _check_groups(self)
        sums = accumulator_types(*self.multiplied)
        if not sums:
            raise SpecError(
                f"a is {self.a} but b is {self.b}: mma instructions multiply {self.a} by "
                f"{' or '.join(partner_types(self.a)) or 'none'}; convert one of the two [types-differ]"
            )
        if self.acc is None:
            object.__setattr__(self, "acc", sums[0])
        if self.sums not in sums:
            takers = dict.fromkeys(dtype for dtype in operand_types() if self.sums in accumulator_types(dtype, dtype))
            raise SpecError(
                f"acc={self.acc!r} with {self.a} inputs: {self.sums} accumulators take {' and '.join(takers)} inputs "
                f"only; use acc={sums[0]!r} [sums-of-type]"
            )
        of_sum = output_types(self.sums)
        self._settle_result_types()
        _check_pairs(self)
        for name, dtype in (("d", self.d), *self.result_types):
            if dtype not in of_sum:
                raise SpecError(f"{name}={dtype!r} with {self.sums} accumulators: {choices(dtype, of_sum)} [d-of-sums]")
        if not isinstance(self.amax, bool):
            raise SpecError(f"amax is {self.amax!r} ({type(self.amax).__name__}); it must be True or False [amax-word]")
        if self.amax and element_type(self.sums).computes_in != EPILOGUE_TYPE:
            raise SpecError(
                f"amax=True with {self.sums} accumulators: an amax is {EPILOGUE_TYPE}; take amax=False [amax-type]"
            )
        types = dict(self.result_types)
        accumulators = 1 if self.pairs is None else 2
        graph = trace(self.epilogue, self.sums, self.d, bool(self.amax), types, accumulators)
        object.__setattr__(self, "epilogue_graph", graph)
        self._check_results(types)
        names = [operand.name for operand in self.epilogue_graph.operands]
        for own in (SCALES, ZEROS) if self.group else ():
            if own in names:
                raise SpecError(
                    f"the epilogue's operand {own!r} has the name of the weights' {own}: rename it"
                    " [weights-operand-name]"
                )
        if self.is_grouped and ENDS in names:
            raise SpecError(
                f"the epilogue's operand {ENDS!r} has the name of the ends of groups: rename it [ends-operand-name]"
            )
        self._check_block_scales()  # first: the scales are operands
        for result in self.results:
            if result.name in (operand.name for operand in self.operands):
                raise SpecError(
                    f"the epilogue's operand {result.name!r} has the name of a result: rename it [result-name]"
                )

    def _settle_result_types(self) -> None:
        """Convert `result_types` to pairs, which are hashable. Raises SpecError for anything but names and dtypes."""
        try:
            types = dict(self.result_types)
        except (TypeError, ValueError):
            raise SpecError(
                f"result_types is {self.result_types!r}; it must be a dict from names of results to dtypes, such as "
                '{"pre": "f32"} [result-types-kind]'
            ) from None
        for name, dtype in types.items():
            check_word("dtype", str(name), dtype, types_of_d())
        object.__setattr__(self, "result_types", tuple(types.items()))

    def _check_results(self, types: Mapping[str, str]) -> None:
        """Raises SpecError if `types` has an unknown name, or if two results have the same name."""
        names = [result.name for result in self.results]
        if self.is_grouped and self.reductions:
            raise SpecError(
                f"the result {self.reductions[0].name!r} is a reduction, which groups of rows do not have: reduce D, "
                "or compute each group with a call [reduction-groups]"
            )
        if self.pairs is not None and self.reductions:
            raise SpecError(
                f"the result {self.reductions[0].name!r} is a reduction, which pairs of columns do not have: store D, "
                "and reduce it [reduction-pairs]"
            )
        narrow = [result.name for result in self.reductions if types.get(result.name, result.dtype) != result.dtype]
        if narrow:
            raise SpecError(
                f"result_types has {narrow[0]!r}, a reduction, which is always {REDUCED_TYPE}; leave it out"
                " [reduction-result-type]"
            )
        unknown = [name for name in types if name not in names]
        if unknown:
            raise SpecError(
                f"result_types has {unknown[0]!r}, which is not a result; the epilogue returns {', '.join(names)}"
                " [result-types-names]"
            )
        if len({*names}) < len(names):
            raise SpecError(
                "amax=True adds a result with the name amax; rename the epilogue's result amax [results-amax]"
            )

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

    def _settle_precision(self) -> None:
        """Set `precision` to None if A and B are multiplied directly, and their types if it names another type."""
        if self.precision is None:
            return
        narrower = tuple(row.name for row in ELEMENTS.values() if row.storage == self.a)
        valid = (self.a, *narrower, *decompositions_of(self.a))
        check_word("precision", "precision", self.precision, valid)
        if self.a != self.b:
            raise SpecError(
                f"precision={self.precision!r}: a is {self.a} but b is {self.b}; they must be equal [pieces-types]"
            )
        if self.precision in narrower:
            object.__setattr__(self, "a", self.precision)
            object.__setattr__(self, "b", self.precision)
        if self.precision not in DECOMPOSITIONS:
            object.__setattr__(self, "precision", None)
        elif self.k is not None and self.k > DECOMPOSITIONS[self.precision].longest:
            most = DECOMPOSITIONS[self.precision].longest
            raise SpecError(
                f"k is {self.k}; precision={self.precision!r} supports k up to {most}, since pieces are stored side "
                "by side: split the problem [pieces-k]"
            )

    @property
    def decomposition(self) -> Decomposition | None:
        """The sum of products of narrower pieces that computes each product; None if there is none."""
        return None if self.precision is None else DECOMPOSITIONS[self.precision]

    def _check_block_scales(self) -> None:
        if self.block_scales is None:
            return
        if not isinstance(self.block_scales, BlockScales):
            raise SpecError(
                f"block_scales is {self.block_scales!r}; it must be lt.BlockScales(a=(1, 128), b=(128, 128)), or None"
                " [scales-kind]"
            )
        if not promotes(self.a):
            takers = choices("", tuple(dtype for dtype in operand_types() if promotes(dtype)))
            raise SpecError(
                f"block scales with inputs of {self.a}: {takers}; scale others in the epilogue [scales-type]"
            )
        if self.is_fast:
            raise SpecError(
                "acc='fast' with block scales, which already limit sums to 128 products; use acc='f32' [scales-fast]"
            )
        if self.is_batched:
            raise SpecError("block scales are not supported in a batch; launch its products one by one [scales-batch]")
        taken = {operand.name for operand in self.epilogue_graph.operands}
        for operand in self.block_scales.operands:
            if operand.name in taken:
                raise SpecError(
                    f"the epilogue's operand {operand.name!r} has the name of a block scale; rename it"
                    " [scales-operand-name]"
                )

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
        """Whether the rows of A and D are in groups, each with its own matrix of B, or K is."""
        return self.groups is not UNGROUPED

    @property
    def k_is_grouped(self) -> bool:
        """Whether K is in groups, each with its own matrix of D."""
        return isinstance(self.groups, Groups)

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
        """A's shape in memory: (M, K), or (K, M) for nn and nt, after the batch if there is one."""
        return (*self.batch_shape, *((self.m, self.k) if self.layout in ("tn", "tt") else (self.k, self.m)))

    @property
    def b_shape(self) -> tuple[int | None, ...]:
        """B's shape in memory: (N, K), or (K, N) for tt and nt, after the batch or the groups, if any; (2 · N, K) for
        pairs. Packed weights of 4 bits are (N / 2, K)."""
        if self.is_mixed:
            return (None if self.n is None else self.n // self.rows_per_byte, self.k)
        groups = (self.group_count,) if self.is_grouped and not self.k_is_grouped else ()
        n = self.columns
        return (*self.batch_shape, *groups, *((n, self.k) if self.layout in ("tn", "nn") else (self.k, n)))

    @property
    def columns(self) -> int | None:
        """The number of columns of A · B: N, or 2 · N for pairs."""
        return self.n if self.pairs is None or self.n is None else 2 * self.n

    @property
    def d_shape(self) -> tuple[int | None, ...]:
        """The shape in memory of D and of full operands: (M, N), or (N, M) for `d_order="column"`, after the batch or
        the groups of K, if any."""
        groups = (self.group_count,) if self.k_is_grouped else ()
        return (*self.batch_shape, *groups, *((self.m, self.n) if self.d_order == "row" else (self.n, self.m)))

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

    def of_result(self, name: str) -> "GemmSpec":
        """The problem whose D is this full result, or the values that this reduction reduces, and which has no other.
        Unchanged if D is the only result."""
        (result,) = (each for each in self.returned_results if each.name == name)
        if self.epilogue is None or (gives_d_alone(self.results) and result.dtype == self.d):
            return self
        types = (_annotation(operand) for operand in self.epilogue_graph.operands)
        one = OneResult(self.epilogue, name, types)
        return replace(self, d=result.dtype, result_types=(), epilogue=one)

    @property
    def operands(self) -> tuple[Operand, ...]:
        """The epilogue's operands in the order of its parameters, then the scales and zero points of packed weights, or
        the block scales, or the ends of groups of rows."""
        scales = (Operand(SCALES, OperandKind.GROUP_SCALE, self.scales or self.a, self.group),) if self.group else ()
        zero_type = "s8" if element_type(self.b).lowest else "u8"
        zeros = (Operand(ZEROS, OperandKind.GROUP_ZERO, zero_type, self.group),) if self.zero_points else ()
        of_blocks = self.block_scales.operands if self.block_scales is not None else ()
        ends = (Operand(ENDS, OperandKind.ENDS, ENDS_TYPE, count=self.group_count),) if self.is_grouped else ()
        return (*self.epilogue_graph.operands, *scales, *zeros, *of_blocks, *ends)


def _annotation(operand: Operand) -> OperandType:
    """The annotation of an operand of an epilogue."""
    kind = OperandKind.PER_ROW if operand.kind is OperandKind.TARGET else operand.kind
    return OperandType(kind, operand.dtype)


def _check_weights(spec: GemmSpec) -> None:
    """Check the fields of packed weights. Raises SpecError."""
    if not spec.is_mixed:
        if spec.group is not None or spec.scales is not None or spec.zero_points:
            raise SpecError(
                f"group and scales need packed weights: b of {', '.join(weight_types())} with a of f16 or bf16; "
                "scale D in the epilogue [weights-beside]"
            )
        return
    row = element_type(spec.b)
    if spec.layout not in WEIGHT_LAYOUTS or spec.is_batched:
        raise SpecError(
            "packed weights are one matrix with K contiguous: use layout='tn' or 'nn', and no batch [weights-layout]"
        )
    if spec.d_order != "row":
        raise SpecError("packed weights require D by rows: d_order='row' [weights-by-rows]")
    if spec.group not in (None, *WEIGHT_GROUPS):
        raise SpecError(
            f"group is {spec.group!r}; it must be {', '.join(map(str, WEIGHT_GROUPS))} (elements of K), or None"
            " [group-size]"
        )
    if spec.zero_points and row.is_float:
        raise SpecError(
            f"weights of {spec.b} have no zero points, which need integers; use zero_points=False [zero-points-type]"
        )
    if spec.group is None and spec.zero_points:
        raise SpecError("zero points belong to groups; use group=128 [zero-points-group]")
    if spec.group is None and (spec.scales is not None or row.per_byte > 1):
        raise SpecError(
            f"weights of {spec.b} {'with scales ' if spec.scales else ''}need groups; use group=128"
            " [weights-need-group]"
        )
    check_word("dtype", SCALES, spec.scales or spec.a, SCALE_TYPES)
    unit = spec.group or WEIGHT_BLOCK
    if spec.k is not None and (spec.k % unit or not spec.k):
        raise SpecError(
            f"k is {spec.k}; packed weights need a positive multiple of {unit}: pad A and the weights with zeros to "
            f"{-(-max(spec.k, 1) // unit) * unit} [weights-k]"
        )
    if spec.n is not None and row.per_byte > 1 and spec.n % WEIGHT_ROWS:
        raise SpecError(
            f"n is {spec.n}; weights of {spec.b} are packed {WEIGHT_ROWS} rows at a time: pad them to "
            f"{-(-spec.n // WEIGHT_ROWS) * WEIGHT_ROWS} [weights-n]"
        )


def _check_groups(spec: GemmSpec) -> None:
    """Raises SpecError for fields that groups do not support."""
    if not spec.is_grouped:
        return
    beside = {
        "a batch": spec.is_batched,
        "packed weights": spec.is_mixed,
        "block scales": spec.block_scales is not None,
        f"precision={spec.precision!r}": spec.decomposition is not None,
        "d_order='column'": spec.d_order != "row",
    }
    for what, is_there in beside.items():
        if is_there:
            raise SpecError(f"groups with {what} are not supported; launch the groups one by one [groups-beside]")
    if spec.k_is_grouped:
        if spec.layout != K_GROUPED_LAYOUT:
            raise SpecError(
                f"groups of K with layout={spec.layout!r}: a group may begin at any row of A (K, M) and B (K, N); use "
                f"layout={K_GROUPED_LAYOUT!r} [k-groups-layout]"
            )
        if spec.k is not None and spec.k > LARGEST_GROUPED_K:
            raise SpecError(f"k is {spec.k}; with groups of K it is at most 2**30: split the problem [k-groups-k]")
        return
    if spec.layout not in GROUPED_LAYOUTS:
        raise SpecError(
            f"groups with layout={spec.layout!r}, whose A is (K, M): a group may begin at any row; use layout='tn' or "
            "'tt', whose A is (M, K) [groups-layout]"
        )


def _groups(value: object) -> int | Groups | None:
    """The number of groups of rows, or groups of K."""
    if not isinstance(value, Groups):
        return extent_of("groups", value, least=1)
    check_word("axis", "groups", value.axis, GROUP_AXES)
    count = extent_of("groups", value.count, least=1)
    return replace(value, count=count) if value.axis == "k" else count


def _check_pairs(spec: GemmSpec) -> None:
    """Raises SpecError for an unknown word, and for fields that pairs of columns do not support."""
    if spec.pairs is None:
        return
    check_word("pairs", "pairs", spec.pairs, PAIRS)
    beside = {
        "a batch": spec.is_batched,
        "groups": spec.groups is not UNGROUPED,
        "packed weights": spec.is_mixed,
        "block scales": spec.block_scales is not None,
        f"precision={spec.precision!r}": spec.decomposition is not None,
        "d_order='column'": spec.d_order != "row",
    }
    for what, is_there in beside.items():
        if is_there:
            raise SpecError(
                f"pairs of columns with {what} are not supported; store both columns, and combine them in another "
                "kernel [pairs-beside]"
            )
    if spec.layout not in PAIRED_LAYOUTS:
        raise SpecError(
            f"pairs of columns with layout={spec.layout!r}, whose B is (K, 2·N): pass B as (2·N, K), with layout='tn' "
            "or 'nn' [pairs-layout]"
        )
    stored = next((x for x in (spec.d, *dict(spec.result_types).values()) if element_type(x).is_converted_to), None)
    if stored is not None:
        raise SpecError(
            f"a result of {stored} with pairs of columns: it is converted in whole rows, and pairs are combined in "
            "registers; store bf16 or f16 [pairs-result]"
        )
    if spec.n is not None and 2 * spec.n > LARGEST_EXTENT:
        raise SpecError(
            f"n is {spec.n}, so that B has {2 * spec.n} columns, but extents are at most {LARGEST_EXTENT}: split the "
            "problem [pairs-n]"
        )
