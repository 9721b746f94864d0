"""The expected D of a kernel: the float64 reference, a derived error bound for each element, and the comparison.

For f64 accumulators A · B is computed to more than float64 (`lowtide.runtime.wide_products`), and its own error added.

The accumulator is Σ a·b with n = K + ⌈K/16⌉ + 2 roundings of u = 2⁻²³ (tensor cores truncate; 2⁻¹⁰ for f16
accumulators; 2⁻²⁴ for f32 inputs, because fma rounds to nearest). So its error is at most ((1+u)ⁿ − 1)·|A||B|, which is
below γₙ = nu/(1 − nu) (Higham, Accuracy and Stability of Numerical Algorithms, 3.1) and also holds for nu ≥ 1, although
it says little there. `bound` carries that interval through the epilogue, and half an ulp of D's type is added.

Packed weights are converted exactly, and the sum of a group is scaled as it is added, in one rounding: no product takes
part in more roundings than in one sum over all of K. So the bound is that of Σ a·(s·w).
"""

import math
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from lowtide.compiler.dtypes import numpy_dtype
from lowtide.compiler.epilogue.evaluate import evaluate
from lowtide.compiler.epilogue.operands import Operand, OperandKind
from lowtide.compiler.epilogue.results import ResultKind
from lowtide.compiler.spec import ENDS, SCALES, UNBATCHED, UNGROUPED, ZEROS, GemmSpec
from lowtide.elements import element_type, stages_of_sum
from lowtide.errors import SpecError
from lowtide.keywords import check_keywords
from lowtide.runtime.dtypes import half_unit, left_out, multiplied, random_numbers, round_to, split, wrapped
from lowtide.runtime.manifest import STALE
from lowtide.runtime.results import returned
from lowtide.runtime.weights import unpack_weights, zero_points
from lowtide.runtime.wide_products import exact_product
from lowtide.verification.checking.bound import Interval, propagate

_WIDEST = 16  # bytes of an access
_SHARED = 0.25  # of the inputs of a batch
_MOST_GROUPS = 5  # that are drawn
_BLOCK = 1 << 16  # elements of D for which the epilogue is evaluated at once: the arrays stay in cache


@dataclass(frozen=True)
class Comparison:
    """The outcome of `compare`: the worst |d − reference| / bound, its place, and a sentence about it.

    In a batch, rows are numbered across matrices.

    `judged` counts the elements with a finite bound; without any there is no verdict, and `ok` is False. `failed`
    counts those out of their bounds.
    """

    max_ratio: float
    worst_index: tuple[int, int]
    ok: bool
    message: str
    judged: int
    failed: int = 0


def reference(spec: GemmSpec, a: np.ndarray, b: np.ndarray, **operands: Any) -> Any:
    """D in float64, as stored, not rounded to D's type, but saturated for integers; in a batch (batch, M, N). A dict of
    such arrays if the epilogue names its results. Rows that belong to no group are 0.

    `a`, `b`: in the spec's layout, as values of the spec's dtypes; `operands`: the epilogue's, by name. In a batch,
    operands without its dimension are shared. Raises `SpecError` for shapes or names that do not fit the spec.
    """
    return returned(
        {
            result.name: _computed(spec.of_result(result.name), a, b, operands, with_bound=False)[0]
            for result in spec.full_results
        }
    )


def error_bound(spec: GemmSpec, a: np.ndarray, b: np.ndarray, **operands: Any) -> Any:
    """The largest error of each element of D, or of each result, against `reference`, float64. Same arguments, shape
    and errors.

    Infinite if there is no bound: the row belongs to no group; the result, or a value that it is made from, may
    overflow; the epilogue divides by a value that may be 0; or rounding decides whether it is NaN. 0 if the reference
    is NaN, or infinite, and D must be the same.
    """
    return reference_with_bound(spec, a, b, **operands)[1]


def reference_with_bound(spec: GemmSpec, a: np.ndarray, b: np.ndarray, **operands: Any) -> tuple[Any, Any]:
    """`reference` and `error_bound` together, with one product A · B for each result."""
    pairs = {
        result.name: _computed(spec.of_result(result.name), a, b, operands, with_bound=True)
        for result in spec.full_results
    }
    values, bounds = ({name: pair[which] for name, pair in pairs.items()} for which in (0, 1))
    return returned(values), returned(bounds)


def _computed(
    spec: GemmSpec, a: np.ndarray, b: np.ndarray, operands: Mapping[str, Any], *, with_bound: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The reference, and the bound if it is wanted; otherwise the bound is undefined."""
    if spec.is_batched:
        parts, matrices = _parts(spec, {"a": a, "b": b, **operands})
        found = [_computed(one, own.pop("a"), own.pop("b"), own, with_bound=with_bound) for one, own in parts]
        values, bounds = (np.stack(arrays)[:matrices] for arrays in zip(*found, strict=True))
        return values, bounds
    if spec.is_grouped:
        values = np.zeros((np.shape(a)[0], np.shape(b)[-2 if spec.layout[1] == "n" else -1]))
        bounds = np.full(values.shape, np.inf)
        for rows, one, own in grouped_products(spec, {"a": a, "b": b, **operands}):
            values[rows], bounds[rows] = _computed(one, own.pop("a"), own.pop("b"), own, with_bound=with_bound)
        return values, bounds
    left, right = _matrices(spec, a, b, operands)
    left, right, lost = _scaled(spec, operands, left, right)
    given = _operands(spec, operands, left.shape[0], right.shape)
    with np.errstate(all="ignore"):
        acc, own_error = exact_product(left, right, spec.sums)
        if with_bound:
            magnitude = _finite(left) @ _finite(right)
            if spec.decomposition is not None:
                own_error = own_error + left_out(spec.decomposition, _finite(left), _finite(right), magnitude)
            own_error = own_error + lost
    values, bounds = np.empty_like(acc), np.empty_like(acc)
    for rows in _row_blocks(acc.shape):
        block = [_rows_of(value, rows) for value in given]
        values[rows] = _saturated(evaluate(spec.epilogue_graph, acc[rows], block), spec.d)
        if with_bound:
            around = _accumulator(acc[rows], magnitude[rows], own_error[rows], left.shape[1], spec)
            interval = propagate(spec.epilogue_graph, around, block)
            bounds[rows] = _distance(values[rows], interval, spec.d)
    return spec.in_rows(values), spec.in_rows(bounds)


@check_keywords
def compare(spec: GemmSpec, d: np.ndarray, ref: np.ndarray, bound: np.ndarray) -> Comparison:
    """Compare a kernel's D (as stored, of the spec's dtype) with `reference` and `error_bound`.

    An element with an infinite bound is not judged: a right kernel may give any number there, or NaN. Elsewhere NaN
    passes only if the reference is NaN, and is then required. `ok` if at least one element is judged, and all judged
    elements are within their bounds; or if D has no elements. Raises `SpecError` if the shapes differ.
    """
    if not d.shape == ref.shape == bound.shape:
        shapes = f"d is {d.shape}, the reference {ref.shape}, the bound {bound.shape}"
        raise SpecError(f"{shapes}; all three must have D's shape [compared-shapes]")
    if not ref.size:
        return Comparison(0.0, (0, 0), True, "d has no elements", 0)
    shape = d.shape
    d, ref, bound = (array.reshape(-1, shape[-1]) for array in (np.asarray(d), ref, bound))
    got = d.astype(np.float64)
    ratio = np.empty_like(ref)
    for rows in _row_blocks(ref.shape):
        ratio[rows] = _ratio(got[rows], ref[rows], bound[rows])
    row, column = (int(index) for index in np.unravel_index(int(np.argmax(ratio)), ratio.shape))
    worst = float(ratio[row, column])
    values = f"{got[row, column]:.9g}, float64 says {ref[row, column]:.9g}, bound {bound[row, column]:.3g}"
    place = np.unravel_index(row * shape[-1] + column, shape)
    at = f"d[{', '.join(map(str, place))}] = {values}"
    failed, unjudged = int(np.count_nonzero(ratio > 1.0)), int(np.count_nonzero(np.isinf(bound)))
    why = f"no finite bound: possible overflow, division by 0, NaN, or too many roundings for {spec.sums}"
    why += "; or rows that belong to no group" if spec.is_grouped else ""
    if unjudged == ratio.size:
        message = f"none of the {ratio.size} elements can be judged ({why}); take smaller inputs, or a smaller K"
        return Comparison(math.nan, (row, column), False, message, 0)
    if failed:
        message = f"{failed} of {ratio.size} elements are out of bound; the worst, by {worst:.3g}: {at}"
    else:
        number = f"all {ratio.size}" if not unjudged else f"{ratio.size - unjudged} of {ratio.size}"
        message = f"{number} elements within bound; the worst error is {worst:.3g} of it: {at}"
    if unjudged:
        message += f"; {unjudged} of {ratio.size} elements cannot be judged ({why})"
    return Comparison(worst, (row, column), failed == 0, message, ratio.size - unjudged, failed)


def stale(spec: GemmSpec) -> dict[str, Any]:
    """Arrays for the results that a call takes among its operands, by name, with what a call before may have left."""
    return {each.name: np.full(1, STALE, np.float32) for each in spec.results if each.kind is ResultKind.AMAX}


@check_keywords
def random_inputs(
    spec: GemmSpec,
    m: int | None,
    n: int | None,
    k: int | None,
    rng: np.random.Generator,
    row_padding: int = 0,
    alignments: Mapping[str, int] = MappingProxyType({}),
    batch: int | None = None,
    shared: Collection[str] | None = None,
    batch_padding: int = 0,
    batches: Mapping[str, int] = MappingProxyType({}),
    groups: int | None = None,
) -> dict[str, Any]:
    """`a`, `b` and epilogue operands, normally distributed (any integers for integer types), by name, for extents `m`,
    `n`, `k` (`None`: the spec's).

    Rows of A and B start at multiples of 16 bytes from the first, as most kernels require, or at odd multiples of the
    smaller number of bytes in `alignments` for "a" and "b"; so do rows of scales of blocks. `row_padding` more
    elements, rounded up in the same way, follow each row; for a full operand exactly `row_padding`. Padding is NaN, so
    that reading it shows. Scalars are Python floats. In a `batch` (`None`: the spec's) the inputs named in `shared`
    have no batch dimension (`None`: some are drawn, but not A), and `batch_padding` rows of NaN follow each matrix of
    the others, in A and B also as many bytes as `batches` has below 16. The ends of `groups` (`None`: the spec's, or at
    most 5 if they are known only at run time) are drawn, not decreasing. Raises `SpecError` for extents that contradict
    the spec's or are unknown.
    """
    rows_of_d, columns_of_d = _settle(spec, "m", m), _settle(spec, "n", n)
    terms = _settle(spec, "k", k)
    of_a = (rows_of_d, terms) if spec.layout[0] == "t" else (terms, rows_of_d)
    of_b = (columns_of_d // spec.rows_per_byte, terms) if spec.layout[1] == "n" else (terms, columns_of_d)
    outer = (_settle(spec, "batch", batch),) if spec.is_batched else ()
    of_groups = _groups(spec, groups, rng)

    def count(name: str) -> tuple[int, ...]:
        if shared is not None:
            return () if name in shared else outer
        return () if outer and name != "a" and rng.random() < _SHARED else outer

    inputs = stale(spec)
    for name, dtype, (rows, columns) in (("a", spec.a, of_a), ("b", spec.stored_b, of_b)):
        stride = row_stride(columns + row_padding, alignments.get(name, _WIDEST), element_type(dtype).bytes)
        gap = elements_apart(batches.get(name, _WIDEST), element_type(dtype).bytes)
        own = of_groups if of_groups and name == "b" else count(name)
        values = random_numbers(rng, (*own, rows, columns), dtype)
        inputs[name] = padded_matrix(values, dtype, stride, batch_padding, gap)
    for operand in spec.operands:
        if operand.kind is OperandKind.SCALAR:
            inputs[operand.name] = float(np.float32(rng.standard_normal()))
            continue
        if operand.kind is OperandKind.ENDS:
            inputs[operand.name] = np.sort(rng.integers(0, rows_of_d + 1, of_groups)).astype(np.int32)
            continue
        extents = [extent for extent in operand.shape(rows_of_d, columns_of_d, terms) if extent is not None]
        if operand.kind is OperandKind.FULL and spec.d_order == "column":
            extents.reverse()
        values = random_numbers(rng, (*count(operand.name), *extents), operand.dtype)
        if operand.kind is OperandKind.FULL or operand.kind.is_block_scale:
            stride = values.shape[-1] + row_padding
            if operand.kind.is_block_scale:
                stride = row_stride(stride, alignments.get(operand.name, _WIDEST), element_type(operand.dtype).bytes)
            inputs[operand.name] = padded_matrix(values, operand.dtype, stride, batch_padding)
        else:
            inputs[operand.name] = values.astype(numpy_dtype(operand.dtype))
    return inputs


def _groups(spec: GemmSpec, groups: int | None, rng: np.random.Generator) -> tuple[int, ...]:
    """The number of groups of rows; () without groups."""
    if not spec.is_grouped:
        return ()
    return (
        (int(rng.integers(1, _MOST_GROUPS + 1)),)
        if groups is spec.groups is None
        else (_settle(spec, "groups", groups),)
    )


def row_stride(least: int, alignment: int, element_bytes: int) -> int:
    """The row stride in elements, at least `least`: a multiple of the alignment in bytes; below 16 bytes, an odd
    one."""
    unit = max(1, alignment // element_bytes)
    units = -(-least // unit)
    return unit * (units + (alignment < _WIDEST and units % 2 == 0))


def elements_apart(alignment: int, element_bytes: int) -> int:
    """Elements between the matrices of a batch with aligned rows, for a batch stride of a smaller alignment."""
    return alignment // element_bytes if alignment < _WIDEST else 0


def padded_matrix(
    values: np.ndarray, dtype: str, row_stride: int, rows_between: int = 0, elements_between: int = 0
) -> np.ndarray:
    """`values` (…, rows, columns) in `dtype`, with rows `row_stride` elements apart; NaN, or the least integer,
    between.

    `rows_between` such rows, and more elements, follow each matrix of a batch.
    """
    *outer, rows, columns = values.shape
    poison = np.nan if element_type(dtype).is_float else element_type(dtype).lowest
    whole = (rows + rows_between) * row_stride
    buffer = np.full((*outer, whole + elements_between), poison, dtype=numpy_dtype(dtype))
    each = buffer[..., :whole].reshape(*outer, rows + rows_between, row_stride)  # a view: an axis is split
    each[..., :rows, :columns] = values.astype(numpy_dtype(dtype))
    return each[..., :rows, :columns]


def products(spec: GemmSpec, inputs: Mapping[str, Any]) -> Iterator[tuple[GemmSpec, dict[str, Any]]]:
    """Each product of a batch as a separate problem, with its part of each input. Raises SpecError."""
    one = replace(spec, batch=UNBATCHED)
    ranks = {"a": 2, "b": 2} | {operand.name: len(operand.shape(None, None)) for operand in spec.operands}
    arrays = {name: np.asarray(value) for name, value in inputs.items()}
    owners = {name: array.shape[0] for name, array in arrays.items() if array.ndim > ranks.get(name, 0) > 0}
    batches = {batch for batch in (*owners.values(), spec.batch) if isinstance(batch, int)}
    if len(batches) != 1:
        found = ", ".join(f"{name} {batch}" for name, batch in owners.items()) or "no input has a batch"
        raise SpecError(
            f"the spec's batch is {spec.batch}, the inputs': {found}; they must agree on one [reference-batch]"
        )
    for number in range(batches.pop()):
        yield one, {name: value[number] if name in owners else value for name, value in inputs.items()}


def ends_of_groups(ends: Any, rows: int) -> np.ndarray:
    """The ends of groups as a kernel reads them: each clamped to [the end before, rows]."""
    found: np.ndarray = np.minimum(np.maximum.accumulate(np.maximum(np.asarray(ends, np.int64), 0)), rows)
    return found


def grouped_products(spec: GemmSpec, inputs: Mapping[str, Any]) -> Iterator[tuple[slice, GemmSpec, dict[str, Any]]]:
    """For each group that has rows: the rows, and its product as a separate problem, with its part of each input.
    Raises SpecError."""
    one, arrays = replace(spec, groups=UNGROUPED, m=None), {name: np.asarray(value) for name, value in inputs.items()}
    if ENDS not in arrays or arrays["b"].ndim != 3 or arrays[ENDS].shape != arrays["b"].shape[:1]:
        shapes = {name: array.shape for name, array in arrays.items() if name in ("b", ENDS)}
        raise SpecError(f"{shapes}: b has a matrix for each of the ends of groups [reference-groups]")
    of_rows = {x.name for x in spec.operands if x.kind in (OperandKind.FULL, OperandKind.PER_ROW)} | {"a"}
    first = 0
    for number, end in enumerate(ends_of_groups(arrays.pop(ENDS), arrays["a"].shape[0]).tolist()):
        rows, first = slice(first, end), end
        own = {name: value[rows] if name in of_rows else inputs[name] for name, value in arrays.items()}
        if rows.start < rows.stop:
            yield rows, one, own | {"b": arrays["b"][number]}


def _parts(spec: GemmSpec, inputs: Mapping[str, Any]) -> tuple[list[tuple[GemmSpec, dict[str, Any]]], int]:
    """The products of a batch, and their number; for an empty batch, a product of zeros with D's extents."""
    found = list(products(spec, inputs))
    if found:
        return found, len(found)
    arrays = {name: np.asarray(value) for name, value in inputs.items()}
    one = {
        name: np.zeros((1, *array.shape[1:]), array.dtype) if array.shape[:1] == (0,) else array
        for name, array in arrays.items()
    }
    return list(products(spec, one)), 0


def _matrices(
    spec: GemmSpec, a: np.ndarray, b: np.ndarray, operands: Mapping[str, Any]
) -> tuple[np.ndarray, np.ndarray]:
    """A as (M, K) and B as (K, N), float64, checked against the spec; packed weights as their scaled values."""
    for name, array, expected in (("a", a, spec.a_shape), ("b", b, spec.b_shape)):
        fits = array.ndim == 2 and all(want in (None, have) for want, have in zip(expected, array.shape, strict=True))
        if not fits:
            raise SpecError(
                f"{name} has shape {array.shape}; layout {spec.layout} wants {_shape_text(expected)} [reference-shape]"
            )
    left = multiplied(np.asarray(a).astype(numpy_dtype(spec.a)).astype(np.float64), spec.a)
    if spec.is_mixed:
        right = _weights(spec, b, operands)
    else:
        right = multiplied(np.asarray(b).astype(numpy_dtype(spec.b)).astype(np.float64), spec.b)
    if spec.decomposition is not None:
        left, right = split(left, spec.decomposition), split(right, spec.decomposition)
    left = left if spec.layout in ("tn", "tt") else left.T
    right = right.T if spec.layout in ("tn", "nn") else right
    if left.shape[1] != right.shape[0]:
        raise SpecError(
            f"a says K = {left.shape[1]}, b says {right.shape[0]} (layout {spec.layout}); they must agree [reference-k]"
        )
    return left, right


def _weights(spec: GemmSpec, packed: np.ndarray, operands: Mapping[str, Any]) -> np.ndarray:
    """Packed weights as float64 (N, K), minus their zero points, times their scales."""
    weights = unpack_weights(np.asarray(packed).astype(np.uint8), spec.b).astype(np.float64)
    if spec.group is None:
        return weights
    wanted = (weights.shape[1] // spec.group, weights.shape[0])
    for name in (SCALES, ZEROS):
        if name in operands and np.shape(operands[name]) != wanted:
            raise SpecError(
                f"{name} has shape {np.shape(operands[name])}; groups of {spec.group} of weights {weights.shape} want "
                f"{_shape_text(wanted)} [reference-weights]"
            )
    if ZEROS in operands:
        weights -= np.repeat(zero_points(operands[ZEROS], spec.b), spec.group, axis=0).T
    if SCALES not in operands:
        return weights
    scales = np.asarray(operands[SCALES]).astype(numpy_dtype(spec.scales or spec.a)).astype(np.float64)
    return weights * np.repeat(scales, spec.group, axis=0).T


def _operands(spec: GemmSpec, given: Mapping[str, Any], m: int, b_shape: tuple[int, ...]) -> list[np.ndarray]:
    """The epilogue's operands in order, float64, each broadcasting to (M, N); B is (K, N)."""
    names = [operand.name for operand in spec.operands]
    if {*given} - {result.name for result in spec.results} != {*names}:
        raise SpecError(
            f"epilogue operands given: {sorted(given)}; the epilogue takes {sorted(names)} [reference-operands]"
        )
    taken = spec.epilogue_graph.operands
    return [_operand(spec, operand, np.asarray(given[operand.name]), m, b_shape[1]) for operand in taken]


def _scaled(
    spec: GemmSpec, given: Mapping[str, Any], left: np.ndarray, right: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray | float]:
    """A (M, K) and B (K, N) multiplied by the scales of their blocks, and the possible loss of sums if the product of
    two scales is not a normal f32.

    The kernel rounds that product before the sum of a block is multiplied by it. If it overflows there is no bound; if
    it is below the normal numbers, half the smallest number may be lost.
    """
    if spec.block_scales is None:
        return left, right, 0.0
    (m, k), n = left.shape, right.shape[1]
    scales = []
    for operand in spec.block_scales.operands:
        value = np.asarray(given.get(operand.name))
        if value.shape != operand.shape(m, n, k):
            raise SpecError(
                f"operand {operand.name!r} has shape {value.shape}; {operand.kind.value} wants "
                f"{_shape_text(operand.shape(m, n, k))} [reference-scales]"
            )
        scales.append(value.astype(numpy_dtype(operand.dtype)).astype(np.float64))
    of_a = scales[0].T if spec.block_scales.a[0] == 1 else np.repeat(scales[0], spec.block_scales.a[0], axis=0)[:m]
    of_b = scales[1].T if spec.block_scales.b[0] == 1 else np.repeat(scales[1], spec.block_scales.b[0], axis=0)[:n]
    row, blocks = element_type(spec.sums), of_a.shape[1]
    lost = np.zeros((m, n))
    with np.errstate(all="ignore"):
        for block in range(blocks):
            inside = slice(block * spec.block_scales.a[1], (block + 1) * spec.block_scales.a[1])
            product = np.abs(of_a[:, block, None] * of_b[None, :, block])
            size = _finite(left[:, inside]) @ _finite(right[inside])
            lost += np.where(product > row.largest, np.inf, 0.0)
            lost += np.where((product > 0) & (product < row.smallest / row.spacing), row.smallest / 2 * size, 0.0)
        left = left * np.repeat(of_a, spec.block_scales.a[1], axis=1)[:, :k]
        right = right * np.repeat(of_b, spec.block_scales.b[1], axis=1)[:, :k].T
    return left, right, lost


def _operand(spec: GemmSpec, operand: Operand, value: np.ndarray, m: int, n: int) -> np.ndarray:
    is_turned = operand.kind is OperandKind.FULL and spec.d_order == "column"
    expected = operand.shape(m, n)[::-1] if is_turned else operand.shape(m, n)
    if value.shape != expected:
        raise SpecError(
            f"operand {operand.name!r} has shape {value.shape}; {operand.kind.value} wants {_shape_text(expected)}"
            " [reference-operand]"
        )
    exact = value.astype(numpy_dtype(operand.dtype)).astype(np.float64)
    if is_turned:
        return exact.T
    return exact[:, None] if operand.kind is OperandKind.PER_ROW else exact


def _shape_text(shape: tuple[int | None, ...]) -> str:
    words = ["any" if extent is None else str(extent) for extent in shape]
    return f"({words[0]},)" if len(words) == 1 else f"({', '.join(words)})"


def _settle(spec: GemmSpec, name: str, value: int | None) -> int:
    """The extent, from the argument or the spec."""
    fixed = getattr(spec, name)
    if value is None and fixed is None:
        raise SpecError(
            f"{name} is a run-time argument of this spec; say which value the inputs are for [reference-extent]"
        )
    if value is not None and fixed is not None and value != fixed:
        raise SpecError(f"{name} = {value} contradicts the spec's {fixed}; leave it None [reference-fixed]")
    settled = fixed if value is None else value
    assert isinstance(settled, int)
    return settled


def _finite(matrix: np.ndarray) -> np.ndarray:
    """The magnitudes, with 0 for infinities and NaN."""
    return np.where(np.isfinite(matrix), np.abs(matrix), 0.0)


def _accumulator(acc: np.ndarray, magnitude: np.ndarray, own_error: np.ndarray, k: int, spec: GemmSpec) -> Interval:
    """The interval of the accumulator; any number if a partial sum may overflow.

    `own_error` is the error of `acc` itself. `magnitude` is that of the finite products: infinite inputs give an
    infinite accumulator, or NaN, for any order of the sums, unless the others overflow.
    """
    row, stages = element_type(spec.sums), _stages(spec, k)
    if not row.is_float:
        return Interval.exact(wrapped(acc, spec.sums))
    roundings = sum(count for count, _ in stages)
    growth = math.expm1(min(sum(count * math.log1p(unit) for count, unit in stages), 700.0))
    with np.errstate(all="ignore"):
        # Without digits left, a rounding costs at most the smallest subnormal.
        error = growth * magnitude + roundings * (1.0 + growth) * row.smallest
        error += np.where(np.isfinite(own_error), own_error, 0.0)
        overflows = ~(magnitude + error <= row.largest)
        low, high = acc - error, acc + error
    is_nan = np.isnan(acc)  # float64 does not overflow: an input is NaN, or ∞ − ∞ or 0 · ∞ is summed
    anywhere = overflows | is_nan | (np.isinf(own_error) & np.isfinite(acc))
    return Interval(np.where(anywhere, -np.inf, low), np.where(anywhere, np.inf, high), anywhere, ~is_nan)


def _stages(spec: GemmSpec, k: int) -> tuple[tuple[int, float], ...]:
    """The roundings of a sum of K products."""
    if spec.decomposition is not None:
        return spec.decomposition.stages(spec.sums, k, spec.is_fast)
    return stages_of_sum(spec.multiplied[0], spec.sums, k, spec.is_fast, spec.block_scales is not None)


def _saturated(values: np.ndarray, dtype: str) -> np.ndarray:
    """The values saturated to an integer type, NaN as 0; for a float type unchanged."""
    row = element_type(dtype)
    return values if row.is_float else np.where(np.isnan(values), 0.0, np.clip(values, row.lowest, row.largest))


def _distance(value: np.ndarray, interval: Interval, dtype: str) -> np.ndarray:
    """The largest distance of D, rounded from anywhere in the interval, from the reference; infinite if D may overflow
    or be NaN. 0 if D must equal the reference, NaN or infinite."""
    low, high = (_saturated(end, dtype) for end in (interval.low, interval.high))
    with np.errstate(all="ignore"):
        distance = np.maximum(np.where(low == value, 0.0, value - low), np.where(high == value, 0.0, high - value))
        distance = np.maximum(distance, 0.0) + half_unit(np.maximum(np.abs(low), np.abs(high)), dtype)
    finite = np.isfinite(round_to(low, dtype)) & np.isfinite(round_to(high, dtype)) & np.isfinite(distance)
    distance = np.where(finite & ~interval.maybe_nan, distance, np.inf)
    same = np.where(np.isnan(value), ~interval.maybe_number, (low == value) & (high == value) & ~interval.maybe_nan)
    return np.where(same & ~np.isfinite(value), 0.0, distance)


def _ratio(got: np.ndarray, ref: np.ndarray, bound: np.ndarray) -> np.ndarray:
    """|got − ref| / bound: 0 if equal or both NaN, ∞ if one is NaN or the bound is 0; −1 if not judged."""
    with np.errstate(all="ignore"):
        ratio = np.abs(got - ref) / bound
    ratio = np.where(np.isnan(ratio), np.inf, ratio)
    same = (got == ref) | (np.isnan(got) & np.isnan(ref))
    return np.where(np.isinf(bound), -1.0, np.where(same, 0.0, ratio))


def _rows_of(value: np.ndarray, rows: slice) -> np.ndarray:
    """The part of a broadcastable operand for these rows of D."""
    return value[rows] if value.ndim == 2 and value.shape[0] > 1 else value


def _row_blocks(shape: tuple[int, ...]) -> Iterator[slice]:
    step = max(1, _BLOCK // max(1, shape[1]))
    return (slice(row, row + step) for row in range(0, shape[0], step))
