"""The expected D of a kernel: the float64 reference, and a derived error bound for each element.

For f64 accumulators A · B is computed to more than float64 (`lowtide.runtime.wide_products`), and its own error added.

The accumulator is Σ a·b with n = K + ⌈K/16⌉ + 2 roundings of u = 2⁻²³ (tensor cores truncate; 2⁻¹⁰ for f16
accumulators; 2⁻²⁴ for f32 inputs, because fma rounds to nearest). So its error is at most ((1+u)ⁿ − 1)·|A||B|, which is
below γₙ = nu/(1 − nu) (Higham, Accuracy and Stability of Numerical Algorithms, 3.1) and also holds for nu ≥ 1, although
it says little there. `bound` carries that interval through the epilogue, and half an ulp of D's type is added.

Packed weights are converted exactly, and the sum of a group is scaled as it is added, in one rounding: no product takes
part in more roundings than in one sum over all of K. So the bound is that of Σ a·(s·w).
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from lowtide.compiler.epilogue.evaluate import evaluate
from lowtide.compiler.epilogue.operands import OperandKind
from lowtide.compiler.epilogue.results import Result
from lowtide.compiler.spec import GemmSpec
from lowtide.compiler.spec_fields import D_ROWS
from lowtide.elements import element_type, stages_of_sum
from lowtide.errors import SpecError
from lowtide.runtime.dtypes import half_unit, left_out, round_to, wrapped
from lowtide.runtime.results import outputs_by_name, returned
from lowtide.runtime.wide_products import exact_product
from lowtide.verification.checking.bound import Interval, propagate
from lowtide.verification.checking.operand_values import magnitudes, matrices_of, operands_of, scaled
from lowtide.verification.checking.parts import (
    at_places,
    columns_of_pairs,
    grouped_products,
    in_order,
    products,
    products_of_groups_of_k,
    products_or_zeros,
    row_blocks,
    rows_of,
)
from lowtide.verification.checking.reductions import reduced, reduced_bound

_OUT = "out"  # the argument with results before a call


def reference(spec: GemmSpec, a: np.ndarray, b: np.ndarray, **operands: Any) -> Any:
    """D (M, N) in float64, as stored; in a batch (batch, M, N). It is not rounded to D's type, but saturated for
    integers. If the epilogue returns results by name, a dict of such arrays, and of vectors for reductions of rows and
    columns. Rows that belong to no group are 0.

    `a`, `b`: in the spec's layout, with values of the spec's dtypes; `operands`: by name, those of the epilogue and the
    other operands of a call. Operands without a batch dimension are shared by all products of a batch. With rows of D
    at an index, `out` is D, or the results by name, before the call: their other rows do not change. Raises `SpecError`
    for shapes or names that do not fit the spec.
    """
    return returned(
        {result.name: _result(spec, result, a, b, operands, with_bound=False)[0] for result in spec.returned_results}
    )


def error_bound(spec: GemmSpec, a: np.ndarray, b: np.ndarray, **operands: Any) -> Any:
    """The largest error of each element of D, or of each result by name, against `reference`, in float64. The
    arguments, the shapes and the errors raised are those of `reference`.

    The bound is 0

    - if the reference is NaN or infinite: D must then be the same
    - for rows that are not written because the index of rows of D does not name them

    It is infinite, so that D is not judged,

    - if the row belongs to no group
    - if the result, or a value from which it is computed, may overflow
    - if the epilogue divides by a value that may be 0
    - if rounding decides whether the result is NaN
    """
    return reference_with_bound(spec, a, b, **operands)[1]


def reference_with_bound(spec: GemmSpec, a: np.ndarray, b: np.ndarray, **operands: Any) -> tuple[Any, Any]:
    """`reference` and `error_bound` together, with one product A · B for each result."""
    pairs = {result.name: _result(spec, result, a, b, operands, with_bound=True) for result in spec.returned_results}
    values, bounds = ({name: pair[which] for name, pair in pairs.items()} for which in (0, 1))
    return returned(values), returned(bounds)


def result_with_bound(spec: GemmSpec, result: Result, a: np.ndarray, b: np.ndarray, **operands: Any) -> Any:
    """The reference and the bound of one full result or reduction. Raises as `reference` does."""
    return _result(spec, result, a, b, operands, with_bound=True)


def _result(
    spec: GemmSpec, result: Result, a: np.ndarray, b: np.ndarray, operands: Mapping[str, Any], *, with_bound: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The reference of a full result or a reduction, and the bound if it is wanted; otherwise it is undefined."""
    before, operands = _before(spec, result, operands)
    values, bounds = _computed(spec.of_result(result.name), a, b, operands, with_bound=with_bound)
    if before is not None:
        return at_places(operands[D_ROWS], before, values, bounds)
    if (reduction := result.kind.reduction) is None:
        return values, bounds
    target = next((np.asarray(operands[x.name]) for x in spec.operands if x.kind is OperandKind.TARGET), None)
    values, bounds = spec.in_rows(values), spec.in_rows(bounds)
    found = reduced(reduction, values, target)
    return found, reduced_bound(reduction, values, bounds, target) if with_bound else found


def _before(spec: GemmSpec, result: Result, operands: Mapping[str, Any]) -> tuple[Any, Mapping[str, Any]]:
    """With rows of D at an index, the full result before the call; else None. And the operands without it."""
    if not spec.d_rows:
        return None, operands
    others = {name: value for name, value in operands.items() if name != _OUT}
    if result.kind.reduction is not None:  # its elements are those of the product's rows
        return None, others
    found = outputs_by_name(operands.get(_OUT), [each.name for each in spec.returned_results]).get(result.name)
    if found is None or D_ROWS not in operands:
        raise SpecError(
            f"rows are stored into rows of {result.name} at an index: give the index d_rows, and by out= {result.name} "
            "before the call [reference-out]"
        )
    return found, others


def _computed(
    spec: GemmSpec, a: np.ndarray, b: np.ndarray, operands: Mapping[str, Any], *, with_bound: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The reference, and the bound if it is wanted; otherwise the bound is undefined."""
    if spec.a_rows or spec.d_rows:
        one, own = in_order(spec, {"a": a, "b": b, **operands})
        return _computed(one, own.pop("a"), own.pop("b"), own, with_bound=with_bound)
    if spec.counts:
        return _of_counted(spec, {"a": a, "b": b, **operands}, with_bound=with_bound)
    if spec.is_batched or spec.k_is_grouped:
        inputs = {"a": a, "b": b, **operands}
        of_groups = products_of_groups_of_k(spec, inputs) if spec.k_is_grouped else []
        parts, matrices = (of_groups, len(of_groups)) if spec.k_is_grouped else products_or_zeros(spec, inputs)
        found = [_computed(one, own.pop("a"), own.pop("b"), own, with_bound=with_bound) for one, own in parts]
        values, bounds = (np.stack(arrays)[:matrices] for arrays in zip(*found, strict=True))
        return values, bounds
    if spec.is_grouped:
        columns = np.shape(b)[-2 if spec.layout[1] == "n" else -1] * spec.rows_per_byte
        columns //= 1 if spec.pairs is None else 2
        values = np.zeros((np.shape(a)[spec.layout[0] == "n"], columns))
        bounds = np.full(values.shape, np.inf)
        for rows, one, own in grouped_products(spec, {"a": a, "b": b, **operands}):
            of_group = _computed(one, own.pop("a"), own.pop("b"), own, with_bound=with_bound)
            values[rows], bounds[rows] = map(spec.in_rows, of_group)
        return spec.in_rows(values), spec.in_rows(bounds)
    left, right = matrices_of(spec, a, b, operands)
    left, right, lost = scaled(spec, operands, left, right)
    columns = right.shape[1] // (1 if spec.pairs is None else 2)
    given = operands_of(spec, operands, left.shape[0], columns)
    with np.errstate(all="ignore"):
        acc, own_error = exact_product(left, right, spec.sums)
        if with_bound:
            magnitude = magnitudes(left) @ magnitudes(right)
            if spec.decomposition is not None:
                own_error = own_error + left_out(spec.decomposition, magnitudes(left), magnitudes(right), magnitude)
            own_error = own_error + lost
    values, bounds = np.empty((len(acc), columns)), np.empty((len(acc), columns))
    for rows in row_blocks(acc.shape):
        block = [rows_of(value, rows) for value in given]
        sums = acc[rows] if spec.pairs is None else np.stack(columns_of_pairs(acc[rows], spec.pairs))
        values[rows] = _saturated(evaluate(spec.epilogue_graph, sums, block), spec.d)
        if with_bound:
            around = [
                _accumulator(sums_of, size, lost_of, left.shape[1], spec)
                for sums_of, size, lost_of in zip(
                    *(_of_pair(x[rows], spec) for x in (acc, magnitude, own_error)), strict=True
                )
            ]
            interval = propagate(spec.epilogue_graph, around, block)
            bounds[rows] = _distance(values[rows], interval, spec.d)
    return spec.in_rows(values), spec.in_rows(bounds)


def _of_counted(spec: GemmSpec, inputs: Mapping[str, Any], *, with_bound: bool) -> tuple[np.ndarray, np.ndarray]:
    """D of a batch whose products have numbers of rows of their own: 0, with an infinite bound, where rows do not
    count."""
    a, b, parts = np.asarray(inputs["a"]), np.asarray(inputs["b"]), list(products(spec, inputs))
    m, columns = a.shape[-2 if spec.layout[0] == "t" else -1], b.shape[-2 if spec.layout[1] == "n" else -1]
    values = np.zeros((len(parts), m, columns // (1 if spec.pairs is None else 2)))
    bounds = np.full(values.shape, np.inf)
    for number, (one, own) in enumerate(parts):
        rows = own["a"].shape[0 if spec.layout[0] == "t" else 1]
        if rows:
            found = _computed(one, own.pop("a"), own.pop("b"), own, with_bound=with_bound)
            values[number, :rows], bounds[number, :rows] = map(spec.in_rows, found)
    return spec.in_rows(values), spec.in_rows(bounds)


def _of_pair(array: np.ndarray, spec: GemmSpec) -> list[np.ndarray]:
    """The columns of each of the epilogue's accumulators."""
    return [array] if spec.pairs is None else columns_of_pairs(array, spec.pairs)


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
