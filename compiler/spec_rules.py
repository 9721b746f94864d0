"""Which fields packed weights, groups, rows at an index, pairs of columns and block scales support."""

from collections.abc import Mapping

from lowtide.compiler.block_scales import BlockScales
from lowtide.compiler.dtypes import choices
from lowtide.compiler.epilogue.results import Result
from lowtide.compiler.gemm_fields import GemmFields
from lowtide.compiler.spec_fields import (
    GROUPED_LAYOUTS,
    K_GROUPED_LAYOUT,
    LARGEST_EXTENT,
    LARGEST_GROUPED_K,
    PAIRED_LAYOUTS,
    SCALE_TYPES,
    SCALES,
    WEIGHT_GROUPS,
    WEIGHT_LAYOUTS,
    check_word,
)
from lowtide.elements import WEIGHT_BLOCK, WEIGHT_ROWS, element_type, promotes, weight_types
from lowtide.errors import SpecError
from lowtide.targets import operand_types
from lowtide.words import ALL_LISTS, APART, LIST_OF_D, LISTS, PAIRS


def check_block_scales(spec: GemmFields) -> None:
    """Raises SpecError for block scales with fields that do not support them."""
    if spec.block_scales is None:
        return
    if not isinstance(spec.block_scales, BlockScales):
        raise SpecError(
            f"block_scales is {spec.block_scales!r}; it must be lt.BlockScales(a=(1, 128), b=(128, 128)), or None"
            " [scales-kind]"
        )
    if not promotes(spec.a):
        takers = choices("", tuple(dtype for dtype in operand_types() if promotes(dtype)))
        raise SpecError(f"block scales with inputs of {spec.a}: {takers}; scale others in the epilogue [scales-type]")
    if spec.is_fast:
        raise SpecError(
            "acc='fast' with block scales, which already limit sums to 128 products; use acc='f32' [scales-fast]"
        )
    taken = {operand.name for operand in spec.epilogue_graph.operands}
    for operand in spec.block_scales.operands:
        if operand.name in taken:
            raise SpecError(
                f"the epilogue's operand {operand.name!r} has the name of a block scale; rename it"
                " [scales-operand-name]"
            )

    if spec.rows_are_grouped and spec.block_scales.a[0] > 1:
        raise SpecError(
            f"scales of blocks {spec.block_scales.a} of A in groups, which may begin at any row of a block; use "
            "a=(1, 128) [scales-groups]"
        )


def check_weights(spec: GemmFields) -> None:
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
            "packed weights have K contiguous, and are one matrix, or one for each group: use layout='tn' or 'nn', and "
            "no batch [weights-layout]"
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


def _features(spec: GemmFields) -> dict[str, bool]:
    """Features that rows at an index and pairs of columns do not support, and whether the spec has each."""
    return _matrices(spec) | _pieces(spec)


def _matrices(spec: GemmFields) -> dict[str, bool]:
    """As `_features`, of matrices: those that groups do not support either."""
    return {"a batch": spec.is_batched, "d_order='column'": spec.d_order != "row"}


def _pieces(spec: GemmFields) -> dict[str, bool]:
    """As `_features`, of products that are computed as several products of pieces."""
    return {f"precision={spec.precision!r}": spec.decomposition is not None}


def _beside_batch(spec: GemmFields) -> dict[str, bool]:
    """These features without the batch."""
    return {what: is_there for what, is_there in _features(spec).items() if what != "a batch"}


def _sums_of_parts(spec: GemmFields) -> dict[str, bool]:
    """As `_features`, of products whose sums over parts of K are scaled."""
    return {"packed weights": spec.is_mixed, "block scales": spec.block_scales is not None}


def _refuse(products: str, beside: Mapping[str, bool], way_out: str) -> None:
    """Raises SpecError if the spec has one of the features `beside`, with a `way_out`."""
    for what, is_there in beside.items():
        if is_there:
            raise SpecError(f"{products} with {what} are not supported; {way_out}")


def check_groups(spec: GemmFields) -> None:
    """Raises SpecError for fields that groups do not support."""
    if not spec.is_grouped:
        return
    of_k = _matrices(spec) | _pieces(spec) | {"packed weights": spec.is_mixed}
    beside = of_k if spec.k_is_grouped else {"a batch": spec.is_batched}
    _refuse("groups", beside, "launch the groups one by one [groups-beside]")
    _check_columns(spec)
    if spec.k_is_grouped:
        if spec.layout != K_GROUPED_LAYOUT:
            raise SpecError(
                f"groups of K with layout={spec.layout!r}: a group may begin at any row of A (K, M) and B (K, N); use "
                f"layout={K_GROUPED_LAYOUT!r} [k-groups-layout]"
            )
        if spec.k is not None and spec.k > LARGEST_GROUPED_K:
            raise SpecError(f"k is {spec.k}; with groups of K, it is at most 2**30: split the problem [k-groups-k]")


def check_counts(spec: GemmFields) -> None:
    """Raises SpecError for fields that products with numbers of rows of their own do not support."""
    _check_flag("counts", spec.counts)
    if not spec.counts:
        return
    if not spec.is_batched:
        raise SpecError(
            "counts=True without a batch: each product of a batch has its own number of rows; give batch=, the number "
            "of groups [counts-batch]"
        )
    beside = _pieces(spec) | {"packed weights": spec.is_mixed}
    _refuse("counts of rows", beside, "launch the products one by one [counts-beside]")
    _check_columns(spec)


def _check_columns(spec: GemmFields) -> None:
    """Raises SpecError for a result by columns that is converted in whole rows, for groups of rows: they may end at any
    element of a column, so elements are stored one by one."""
    stored = _converted(spec)
    if spec.d_order != "row" and stored is not None:
        raise SpecError(
            f"a result of {stored} by columns with groups of rows: {stored} is converted in whole rows, but elements "
            "of a column are stored one by one; use d_order='row', or store bf16 or f16 [groups-columns-result]"
        )


def _converted(spec: GemmFields) -> str | None:
    """The type of a result that is converted when it is stored, so that no thread holds its elements."""
    types = (spec.d, *dict(spec.result_types).values())
    return next((x for x in types if element_type(x).is_converted_to), None)


def check_arrivals(spec: GemmFields) -> None:
    """Raises SpecError for fields that shards of A that arrive do not support."""
    _check_flag("arrivals", spec.arrivals)
    if not spec.arrivals:
        return
    if not spec.is_batched:
        raise SpecError(
            "arrivals=True without a batch: the matrices of A are the shards that arrive; give batch=, their number"
            " [arrivals-batch]"
        )
    beside = _beside_batch(spec) | _sums_of_parts(spec)
    beside |= {
        f"layout={spec.layout!r}": spec.layout not in GROUPED_LAYOUTS,
        f"lists={spec.lists!r}": spec.lists not in (None, LIST_OF_D),
        "rows of A at an index": spec.a_rows,
        "rows of D at an index": spec.d_rows,
    }
    _refuse("shards that arrive", beside, "gather A before the product, without arrivals [arrivals-beside]")


def check_peers(spec: GemmFields) -> None:
    """Raises SpecError for fields that do not go with a shard of A that the kernel can send."""
    _check_flag("peers", spec.peers)
    if not spec.peers:
        return
    if not spec.arrivals:
        raise SpecError(
            "peers=True without arrivals=True: the kernel sends one of the shards of A that arrive; give "
            "arrivals=True, and batch=, the number of shards [peers-arrivals]"
        )
    beside = {f"lists={spec.lists!r}": spec.lists is not None, "a K of 0": spec.k == 0}
    _refuse("shards that kernels send", beside, "leave peers=False, and send them by the copy engine [peers-beside]")


def check_arrival_results(spec: GemmFields) -> None:
    """Raises SpecError for results that shards of A that arrive do not support."""
    others = [each.name for each in spec.results if each not in spec.full_results] if spec.arrivals else []
    if others:
        raise SpecError(
            f"the result {others[0]!r} with shards that arrive: if a shard is late, a kernel can leave out only results"
            " of D's shape; reduce D in another kernel [arrivals-results]"
        )


def check_lists(spec: GemmFields) -> None:
    """Raises SpecError for an unknown word, and for fields that lists of matrices do not support."""
    if spec.lists is None:
        return
    check_word("lists", "lists", spec.lists, LISTS)
    if not spec.rows_are_grouped and not spec.is_batched:
        raise SpecError(
            f"lists={spec.lists!r} without groups of rows and without a batch: a list has a matrix for each group, or "
            "for each product; give groups= or batch=, their number [lists-groups]"
        )
    if spec.lists == LIST_OF_D and not spec.is_batched:
        raise SpecError(
            f"lists={spec.lists!r} without a batch: only the products of a batch have a D each; give batch=, their "
            "number [lists-d]"
        )
    if spec.lists == ALL_LISTS and not spec.counts:
        raise SpecError(
            f"lists={spec.lists!r} without counts of rows: each matrix of A and D has its own number of rows; give "
            "batch=, their number, and counts=True [lists-counts]"
        )
    beside = _beside_batch(spec) | {"packed weights": spec.is_mixed, "pairs of columns": spec.pairs is not None}
    beside |= {"block scales": spec.lists == ALL_LISTS and spec.block_scales is not None}
    _refuse("lists of matrices", beside, "stack them to one array (groups, N, K) [lists-beside]")


def check_a_rows(spec: GemmFields) -> None:
    """Raises SpecError for fields that rows of A at an index do not support."""
    _check_flag("a_rows", spec.a_rows)
    if not spec.a_rows:
        return
    beside = {
        "groups of K": spec.k_is_grouped,
        f"layout={spec.layout!r}": spec.layout not in GROUPED_LAYOUTS,
    }
    _refuse("rows of A at an index", _features(spec) | beside, "gather them before the product [a-rows-beside]")


def check_d_rows(spec: GemmFields) -> None:
    """Raises SpecError for fields, operands and results that rows of D at an index do not support."""
    _check_flag("d_rows", spec.d_rows)
    if not spec.d_rows:
        return
    others = [x.name for x in spec.results if x not in spec.full_results and not _is_of_rows(x)]
    beside = {
        "groups of K": spec.k_is_grouped,
        f"the result {', '.join(others)}": bool(others),
        "reductions alone": not spec.full_results,
    }
    _refuse("rows of D at an index", _features(spec) | beside, "store D in order, and scatter its rows [d-rows-beside]")


def _is_of_rows(result: Result) -> bool:
    """Whether a result is a reduction of rows."""
    return result.kind.reduction is not None and result.kind.reduction.axis == "row"


def _check_flag(name: str, value: object) -> None:
    """Raises SpecError unless the value of a field is a bool."""
    if not isinstance(value, bool):
        raise SpecError(f"{name} is {value!r} ({type(value).__name__}); it must be True or False [rows-word]")


def check_pairs(spec: GemmFields) -> None:
    """Raises SpecError for an unknown word, and for fields that pairs of columns do not support."""
    if spec.pairs is None:
        return
    check_word("pairs", "pairs", spec.pairs, PAIRS)
    _refuse(
        "pairs of columns",
        (_beside_batch(spec) if spec.counts else _features(spec))
        | _sums_of_parts(spec)
        | {"groups of K": spec.k_is_grouped}
        | {"groups or a batch, if B is apart": spec.pairs == APART and (spec.is_grouped or spec.is_batched)},
        "store both columns, and combine them in another kernel [pairs-beside]",
    )
    if spec.layout not in PAIRED_LAYOUTS:
        raise SpecError(
            f"pairs of columns with layout={spec.layout!r}, whose B is (K, 2·N): pass B as (2·N, K), with layout='tn' "
            "or 'nn' [pairs-layout]"
        )
    stored = _converted(spec)
    if stored is not None:
        raise SpecError(
            f"a result of {stored} with pairs of columns: {stored} is converted in whole rows, but pairs are combined "
            "in registers; store bf16 or f16 [pairs-result]"
        )
    if spec.n is not None and 2 * spec.n > LARGEST_EXTENT:
        raise SpecError(
            f"n is {spec.n}, and B has {2 * spec.n} columns; extents are at most {LARGEST_EXTENT}: split the "
            "problem [pairs-n]"
        )
