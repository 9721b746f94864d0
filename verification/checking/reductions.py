"""The expected reductions of a kernel, in float64, and a derived error bound for each element.

The values that are reduced are x̂ = x + e, |e| ≤ b: the reference of the values and its bound, which includes the
rounding to f32. With u = 2⁻²⁴ and n values:

- A sum in any order of n − 1 additions in f32 has an error of at most ((1 + u)ⁿ⁻¹ − 1) · Σ|x̂| (Higham, Accuracy and
  Stability of Numerical Algorithms, 4.2), so the bound is Σb and that of Σ(|x| + b). Zeros in place of elements outside
  the matrix change nothing.
- A maximum or minimum adds no error: its bound is the largest b.
- For a logsumexp, errors of the values change the result by at most the largest b. The exponential of a value is
  multiplied by exponentials of differences of maxima, at most s of them, and added. A difference has a relative error
  of u, so its exponential has a relative error of u times the difference. The differences of a value add up to its
  distance r from the largest value. Each exponential also has the error of the formula, and each product and each
  addition has a relative error of u. So the sum of exponentials has a relative error of at most
  γ = Σ w · ((1 + u)^(n + s) · (1 + E)^(s + 1) · e^{ur} − 1), where w is the softmax and E the formula's relative error,
  and of n · e_min · (s + 1) where exponentials are smaller than every number. The logarithm adds −log(1 − γ), and the
  formula's error. The last sum rounds once.
"""

import math

import numpy as np

from lowtide.elements import element_type
from lowtide.passes.support.ir import math_formulas as formulas
from lowtide.reductions import OF_NOTHING, REDUCED_TYPE, Reduction

_ROW = element_type(REDUCED_TYPE)
_UNIT = _ROW.spacing / 2
_AXES = {"row": -1, "column": -2}


def reduced(reduction: Reduction, values: np.ndarray, target: np.ndarray | None = None) -> np.ndarray:
    """The reduction of values (…, M, N), in float64. `target`: the column of each row (…, M), for a `row_value`."""
    with np.errstate(all="ignore"):
        if reduction.operation == "value":
            return _at_target(values, target)
        lines = _lines(reduction, values)
        nothing = OF_NOTHING[reduction.operation]
        if reduction.operation == "logsumexp":
            return _logsumexp(lines)
        if reduction.operation == "sum":
            return np.asarray(np.sum(lines, axis=-1))
        most = np.max if reduction.operation == "max" else np.min
        return np.asarray(most(lines, axis=-1, initial=nothing))


def reduced_bound(
    reduction: Reduction, values: np.ndarray, bounds: np.ndarray, target: np.ndarray | None = None
) -> np.ndarray:
    """The error bound of each element of `reduced`. Infinite if a value has no bound or if the result may overflow; 0
    if the exact result is NaN or infinite."""
    if reduction.operation == "value":
        return _at_target(bounds, target)
    with np.errstate(all="ignore"):
        lines, errors = _lines(reduction, values), _lines(reduction, bounds)
        found = _BOUNDS[reduction.operation](lines, errors)
        unknown = np.isinf(errors).any(axis=-1)
        exact = ~np.isfinite(reduced(reduction, values))
    return np.where(unknown, np.inf, np.where(exact, 0.0, found))


def _lines(reduction: Reduction, values: np.ndarray) -> np.ndarray:
    """The values of each element of the result along the last axis."""
    return np.moveaxis(values, _AXES[reduction.axis], -1) if reduction.axis in _AXES else values.reshape(1, -1)


def _at_target(values: np.ndarray, target: np.ndarray | None) -> np.ndarray:
    assert target is not None
    columns = np.broadcast_to(np.asarray(target, np.int64), values.shape[:-1])
    exists = (columns >= 0) & (columns < values.shape[-1])
    if not values.shape[-1]:
        return np.zeros(values.shape[:-1])
    found = np.take_along_axis(values, np.where(exists, columns, 0)[..., None], axis=-1)[..., 0]
    return np.where(exists, found, 0.0)


def _logsumexp(lines: np.ndarray) -> np.ndarray:
    most = np.max(lines, axis=-1, initial=-np.inf)
    start = np.where(np.isfinite(most), most, 0.0)
    return np.asarray(start + np.log(np.sum(np.exp(lines - start[..., None]), axis=-1)))


def _bound_of_sum(lines: np.ndarray, errors: np.ndarray) -> np.ndarray:
    count = lines.shape[-1]
    size = np.sum(np.abs(lines) + errors, axis=-1)
    growth = math.expm1(max(count - 1, 0) * math.log1p(_UNIT))
    return np.where(size * (1.0 + growth) > _ROW.largest, np.inf, np.sum(errors, axis=-1) + growth * size)


def _largest_error(lines: np.ndarray, errors: np.ndarray) -> np.ndarray:
    return np.max(errors, axis=-1, initial=0.0)


def _bound_of_logsumexp(lines: np.ndarray, errors: np.ndarray) -> np.ndarray:
    count, result = lines.shape[-1], _logsumexp(lines)
    most = np.max(lines, axis=-1, initial=-np.inf)
    below = np.where(np.isfinite(lines), most[..., None] - lines, 0.0)
    weights = np.exp(lines - result[..., None])
    # A maximum replaces another at most once for each value, each of 5 shuffles and each partial result.
    steps = count + 8
    growth = math.expm1((count + steps) * math.log1p(_UNIT) + (steps + 1) * math.log1p(formulas.EXP.relative))
    relative = np.sum(weights * ((1.0 + growth) * np.exp((_UNIT + formulas.EXP.argument) * below) - 1.0), axis=-1)
    relative = relative + count * (steps + 1) * formulas.EXP.absolute
    logarithm = result - np.where(np.isfinite(most), most, 0.0)
    log = -np.log1p(-np.minimum(relative, 1.0)) + formulas.LOG.relative * np.abs(logarithm) + formulas.LOG.absolute
    moved = _largest_error(lines, errors)
    found = moved + log + _UNIT * (np.abs(result) + moved + log)
    return np.where(np.abs(result) + found > _ROW.largest, np.inf, found)


_BOUNDS = {
    "sum": _bound_of_sum,
    "max": _largest_error,
    "min": _largest_error,
    "logsumexp": _bound_of_logsumexp,
}
