"""`GemmSpec`: the problem of a kernel, D = epilogue(A · B, operands…). The schedule says how it is computed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from lowtide.compiler.dtypes import choices
from lowtide.compiler.epilogue.graph import trace
from lowtide.compiler.epilogue.operands import Operand, OperandKind, OperandType
from lowtide.compiler.epilogue.results import OneResult, gives_d_alone
from lowtide.compiler.gemm_fields import GemmFields
from lowtide.compiler.spec_fields import (
    A_ROWS,
    D_ORDERS,
    D_ROWS,
    FAST,
    LAYOUTS,
    SCALES,
    UNBATCHED,
    UNGROUPED,
    ZEROS,
    check_word,
    extent_of,
    groups_of,
)
from lowtide.compiler.spec_rules import (
    check_a_rows,
    check_arrival_results,
    check_arrivals,
    check_block_scales,
    check_counts,
    check_d_rows,
    check_groups,
    check_lists,
    check_pairs,
    check_peers,
    check_weights,
)
from lowtide.decompositions import DECOMPOSITIONS, decompositions_of
from lowtide.elements import ELEMENTS, EPILOGUE_TYPE, element_type, output_types, types_of_d, weight_types
from lowtide.errors import SpecError
from lowtide.keywords import check_fields
from lowtide.reductions import REDUCED_TYPE
from lowtide.targets import accumulator_types, operand_types, partner_types
from lowtide.words import ARRIVALS, SENDS

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
class GemmSpec(GemmFields):
    """One GEMM problem, D (M, N) = epilogue(A · B, operands…), or a batch of them.

    - `m`, `n`, `k`: extents from 0 to 2³¹−1, or `None` for run-time arguments of the kernel. If M or N is 0, D is empty
      and nothing is launched. If K is 0, D = epilogue(0, operands…).
    - `batch`: the number of products, 1 to 2³¹−1, or `None` for a run-time argument; `UNBATCHED`, the default: one
      product. The batch is the first dimension of A, B and D, with any stride that the alignment allows. An A, a B or
      an epilogue operand without this dimension, or with stride 0 along it (`torch.expand`), is shared by all products.
    - `counts`: whether each product of a batch has its own number of rows, at most M, as in padded groups of rows;
      False, the default. If True, the kernel also takes `counts`, s32 (batch,), which only the device reads. A count is
      clamped to 0 … M. Product i has the first `counts[i]` rows of its A; the other rows are not computed, and those of
      D are not written. Packed weights, f32 by pieces, reductions and indices of rows are not supported.
    - `arrivals`: whether the matrices of A are shards that other GPUs fill while the kernel runs, as in an all-gather;
      False, the default. If True, the kernel also takes three operands, which only the device reads. `arrived`, s32
      (batch,): shard r of A is complete once `arrived[r]` − epoch, in 32 bits, is not negative. `turn`, s32 (3,): the
      rank of this GPU, from 0 to batch − 1, the epoch, and the longest wait for a shard in ms. `status`, s32 (4,), must
      be zero before the launch. If a wait takes longer than the limit, `status` becomes [1, shard, the number in
      `arrived`, epoch], no further elements of D are stored, and the kernel ends. Shards are multiplied in the order
      rank, rank + 1, …, and after the last rank from 0 on (docs/ranks.md). The layout must be tn or tt, and D by rows.
      Packed weights, block scales, f32 by pieces, lists of A or B, indices of rows, and results other than full ones
      are not supported.
    - `peers`: whether the kernel can also send the shard of this GPU to the others, before it multiplies; False, the
      default. It needs `arrivals`. The field `grid.sender` of the schedule says who sends the shard: the kernel, or the
      caller (`copy_engine`). By default the kernel sends a shard of at most 1 MiB whose size is known. If True, the
      kernel takes two more operands, which only the device reads. `peers`, s32 (batch, 4): row q has two addresses on
      rank q, each as its lower and then its higher 32 bits. The first is the place of this rank's shard there, with the
      strides and the alignment of A; the second is this rank's flag there. Nothing is sent to a rank whose place is 0.
      The row of this rank is not read. `sent`, s32 (batch,), must be zero before the first launch; each launch leaves
      zeros. All rows of the shard are sent, also with `counts`. Then one thread writes the epoch of `turn` to the flag,
      by a release at the scope .sys. If K is known only at run time, single elements are copied. Lists and a K of 0 are
      not supported (docs/ranks.md).
    - `groups`: the number of groups of rows, 1 to 2³¹−1, or `None` for a run-time argument; `UNGROUPED`, the default:
      none. Each group of rows of A is multiplied by its own matrix of B, whose first dimension is the group. The kernel
      also takes `ends`, s32 (groups,): group g consists of the rows `ends[g − 1]` (0 for the first group) to
      `ends[g] − 1`. Only the device reads `ends`. An end that is less than the end before it, or greater than M, is
      clamped. Rows of D after the last end are not written. A per-column operand is (groups, N), or (N,) if all groups
      share it. So are the scales of columns and the zero points below: they have a part for each group, or are shared.
      Block scales of A must be of one row. A batch is not supported; reductions are those over N, beside a full result.
      With `lt.Groups(groups, axis="k")`, K is grouped: D (groups, M, N) has a matrix for each group: the product over
      the K from `ends[g − 1]` to `ends[g] − 1`, which is 0 for an empty group. `ends[g − 1]` is clamped to 0 … K, and
      then `ends[g]` to `ends[g − 1]` … K. With block scales, ends other than K should be multiples of 128; others are
      rounded down. The layout must be nt, D by rows, and K at most 2³⁰; packed weights, f32 by pieces and reductions
      are not supported. Full operands have the shape of D, or (M, N) if all groups share one. All groups share the
      other operands.
    - `a_rows`: whether the rows of A are taken at an index (a gather), as for tokens that are sent to experts; False,
      the default. If True, the kernel also takes `a_rows`, s32 (M,): row m of the product is computed from row
      `a_rows[m]` of A, or from zeros if A has no such row. A has any number of rows. Only the device reads `a_rows`.
      Rows may be grouped. The layout must be tn or tt, and D by rows; a batch, groups of K and f32 by pieces are not
      supported. Scales of rows have the product's rows.
    - `d_rows`: whether the product's rows are stored into the rows of D at an index (a scatter); False, the default. If
      True, the kernel also takes `d_rows`, s32 (M,): row m of the product is stored into row `d_rows[m]` of D, or
      nowhere if D has no such row. D has any number of rows, so calls must pass `out`; its other rows are not written.
      Elements that name rows of D must be different. Only the device reads `d_rows`. Per-row operands (M,), full
      operands (M, N) and scales of rows have the product's rows. Rows may be grouped, and `a_rows` may be given too.
      Reductions of rows beside D are (M,), in the order of the product's rows. D must be by rows; other reductions, a
      batch, groups of K and f32 by pieces are not supported.
    - `lists`: the operands that are lists of matrices, which may lie anywhere in memory; None, the default: no operand.
      The kernel takes `lt.matrix_list`s, whose addresses only the device reads. Rows of matrices may be padded
      differently. D must be by rows; packed weights, pairs of columns and f32 by pieces are not supported.
      "b", with groups of rows or a batch: B is a list of matrices of one shape, such as the weights of experts that are
      modules of their own. On sm_90a, TMA loads them if their rows can be aligned to 16 bytes; otherwise threads copy
      them.
      "d", with a batch: the full results are lists of matrices of one shape, which may lie in the memory of other GPUs.
      Calls must pass `out`.
      "abd", with `counts`: A, B and the full results are lists, and each product has its own extents. An extent that
      the spec gives is that of all products; otherwise, M, N or K is the largest of all products. Product i has the
      first `counts[i]` rows of its A. Full operands are (batch, M, N). Calls must pass `out`. Block scales are not
      supported.
    - `pairs`: None, the default, or how pairs of columns lie in B, as in a gated MLP. B then has 2 · N columns and D
      has N. For each element of D, the epilogue takes two accumulators: `def swiglu(gate, up)`. With "stacked", B's
      first N columns belong to `gate` and the others to `up`; with "interleaved" they alternate; with "apart" B is two
      matrices (2, N, K), with any distance between them. The layout must be tn or nn, and D by rows; a batch without
      `counts`, groups of K, groups or `counts` with "apart", packed weights, block scales and f32 by pieces are not
      supported.
    - `a`, `b`: the dtypes of the inputs: f16, bf16, f32 or f64, equal; e4m3 and e5m2 in any combination; or s8 and u8
      in any combination; or packed weights, below.
    - `d`: f16, bf16, f32, s8, u8, e4m3 or e5m2; values are clamped to the range of the latter four. f64 with f64
      inputs; also s32 with s8 and u8 inputs.
    - `acc`: f32, or f16 for f16 inputs; f64 for f64 inputs, s32 for s8 and u8 inputs. None, the default: f32, f64 or
      s32. "fast": f32, with the precision of the tensor cores. For 8-bit floats it keeps about 14 bits of each sum;
      "f32" adds sums of at most 128 of their products in f32.
    - `precision`: how products of f32 inputs are computed. "f32", the default: in f32, without tensor cores. "tf32x3",
      "bf16x6": as three products of tf32, or six of bf16, on tensor cores (`lowtide.decompositions`). "tf32": as one
      product of tf32, like a = b = "tf32".
    - `layout`: the shapes of A and B in memory; the last dimension is contiguous, rows may be padded.
      tn: A (M, K), B (N, K); tt: A (M, K), B (K, N); nn: A (K, M), B (N, K); nt: A (K, M), B (K, N).
    - `d_order`: the shape of D and its full operands in memory: "row" for (M, N), "column" for (N, M), after the batch
      if there is one; the last dimension is contiguous.
    - `group`, `scales`, `zero_points`: for packed weights.
    - `block_scales`: None, or the block scales of A and B of 8-bit floats (`BlockScales`), which are the operands
      `scale_a` and `scale_b`, with the dimension of a batch or without.
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
    batch. With groups of rows, the bytes, `scales` and `zeros` have the group as their first dimension.

    Raises `SpecError` for anything else.
    """

    def __post_init__(self) -> None:
        for name in ("m", "n", "k"):
            object.__setattr__(self, name, extent_of(name, getattr(self, name)))
        if self.batch is not UNBATCHED:
            object.__setattr__(self, "batch", extent_of("batch", self.batch, least=1))
        if self.groups is not UNGROUPED:
            object.__setattr__(self, "groups", groups_of(self.groups))
        check_word("dtype", "a", self.a, operand_types())
        check_word("dtype", "b", self.b, tuple(dict.fromkeys((*operand_types(), *weight_types()))))
        check_word("dtype", "d", self.d, types_of_d())
        if self.acc is not None:
            check_word("accumulator", "acc", self.acc, (*accumulator_types(), FAST))
        check_word("layout", "layout", self.layout, LAYOUTS)
        check_word("d_order", "d_order", self.d_order, D_ORDERS)
        self._settle_precision()
        check_weights(self)
        check_groups(self)
        check_counts(self)
        check_a_rows(self)
        check_lists(self)
        check_arrivals(self)
        check_peers(self)
        self._settle_sums()
        self._settle_result_types()
        check_pairs(self)
        self._check_types_of_results()
        types = dict(self.result_types)
        accumulators = 1 if self.pairs is None else 2
        graph = trace(self.epilogue, self.sums, self.d, bool(self.amax), types, accumulators)
        object.__setattr__(self, "epilogue_graph", graph)
        check_d_rows(self)
        check_arrival_results(self)
        self._check_results(types)
        self._check_names()

    def _settle_sums(self) -> None:
        """Raise SpecError if A and B have types that are not multiplied, or sums of another type; decide open ones."""
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

    def _check_types_of_results(self) -> None:
        """Raise SpecError if D, another full result or an amax has a type that the sums do not give."""
        of_sum = output_types(self.sums)
        for name, dtype in (("d", self.d), *self.result_types):
            if dtype not in of_sum:
                raise SpecError(f"{name}={dtype!r} with {self.sums} accumulators: {choices(dtype, of_sum)} [d-of-sums]")
        if not isinstance(self.amax, bool):
            raise SpecError(f"amax is {self.amax!r} ({type(self.amax).__name__}); it must be True or False [amax-word]")
        if self.amax and element_type(self.sums).computes_in != EPILOGUE_TYPE:
            raise SpecError(
                f"amax=True with {self.sums} accumulators: an amax is {EPILOGUE_TYPE}; take amax=False [amax-type]"
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
        of_rows = self.rows_are_grouped and bool(self.full_results)
        others = [each for each in self.reductions if not (of_rows and each.kind.value.startswith("row_"))]
        if self.ends is not None and others:
            raise SpecError(
                f"the result {others[0].name!r} is a reduction; groups of rows support reductions of rows beside a full"
                " result, and other groups none: reduce D in another kernel, or compute each group with a call"
                " [reduction-groups]"
            )
        if self.pairs is not None and self.reductions:
            raise SpecError(
                f"the result {self.reductions[0].name!r} is a reduction; pairs of columns do not support reductions: "
                "reduce D in another kernel [reduction-pairs]"
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

    def _check_names(self) -> None:
        """Raises SpecError if an operand of the epilogue has the name of another operand or of a result."""
        names = [operand.name for operand in self.epilogue_graph.operands]
        for own in (SCALES, ZEROS) if self.group else ():
            if own in names:
                raise SpecError(
                    f"the epilogue's operand {own!r} has the name of the weights' {own}: rename it"
                    " [weights-operand-name]"
                )
        if self.ends in names:
            raise SpecError(
                f"the epilogue's operand {self.ends!r} has the name of the ends of groups: rename it"
                " [ends-operand-name]"
            )
        if self.a_rows and A_ROWS in names:
            raise SpecError(
                f"the epilogue's operand {A_ROWS!r} has the name of the rows of A that are taken: rename it"
                " [a-rows-operand-name]"
            )
        if self.d_rows and D_ROWS in names:
            raise SpecError(
                f"the epilogue's operand {D_ROWS!r} has the name of the rows of D that are stored: rename it"
                " [d-rows-operand-name]"
            )
        for own in (*(ARRIVALS if self.arrivals else ()), *(SENDS if self.peers else ())):
            if own in names:
                raise SpecError(
                    f"the epilogue's operand {own!r} has the name of an operand for shards that arrive: rename it"
                    " [arrivals-operand-name]"
                )
        check_block_scales(self)  # first: the scales are operands
        for result in self.results:
            if result.name in (operand.name for operand in self.operands):
                raise SpecError(
                    f"the epilogue's operand {result.name!r} has the name of a result: rename it [result-name]"
                )

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

    def of_result(self, name: str) -> "GemmSpec":
        """A problem whose only result is D: this full result, or the values that this reduction reduces. The same
        problem if D is its only result."""
        (result,) = (each for each in self.returned_results if each.name == name)
        if self.epilogue is None or (gives_d_alone(self.results) and result.dtype == self.d):
            return self
        types = (_annotation(operand) for operand in self.epilogue_graph.operands)
        one = OneResult(self.epilogue, name, types)
        return replace(self, d=result.dtype, result_types=(), epilogue=one)


def _annotation(operand: Operand) -> OperandType:
    """The annotation of an operand of an epilogue."""
    kind = OperandKind.PER_ROW if operand.kind is OperandKind.TARGET else operand.kind
    return OperandType(kind, operand.dtype)
