"""The functions of an epilogue: lt.relu, lt.exp, lt.gelu, lt.where, …

Each takes traced values, and numpy arrays or numbers as well, so that the same epilogue can be run in numpy.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from lowtide.compiler.dtypes import choices, numpy_dtype
from lowtide.compiler.epilogue.trace import Predicate, Traced, Tracer, refuse
from lowtide.elements import kernel_types
from lowtide.errors import SpecError

# Taylor coefficients of erf at every 1/128 of [0, 6], one row a power; erf(6) is 1 in float64.
_ERF_STEPS = 128
_ERF_POINTS = np.arange(6 * _ERF_STEPS + 1) / _ERF_STEPS


def _erf_coefficients() -> np.ndarray:
    """cₙ = erf⁽ⁿ⁾(x)/n! at every point: n(n−1)cₙ = −2((n−1)x cₙ₋₁ + (n−2)cₙ₋₂), from erf″ = −2x erf′."""
    x = _ERF_POINTS
    rows = [np.array([math.erf(point) for point in x]), 2.0 / math.sqrt(math.pi) * np.exp(-x * x)]
    for n in range(2, 8):
        before = (n - 2) * rows[n - 2]
        rows.append(-2.0 * (x * (n - 1) * rows[n - 1] + before) / (n * (n - 1)))
    return np.stack(rows)


_ERF_COEFFICIENTS = _erf_coefficients()


def _erf_numpy(x: Any) -> Any:
    """erf in float64, to some 1e-15, by the Taylor polynomial at the nearest point of the table."""
    magnitude = np.fmin(np.abs(np.asarray(x, dtype=np.float64)), 6.0)
    index = np.rint(magnitude * _ERF_STEPS).astype(np.int64)
    distance = magnitude - _ERF_POINTS[index]
    value = _ERF_COEFFICIENTS[-1][index]
    for row in _ERF_COEFFICIENTS[-2::-1]:
        value = value * distance + row[index]
    return np.where(np.isnan(x), np.nan, np.copysign(value, x))


def maximum(x: Any, y: Any) -> Any:
    """The larger of x and y; NaN if either is."""
    return _call("max", np.maximum, x, y)


def minimum(x: Any, y: Any) -> Any:
    """The smaller of x and y; NaN if either is."""
    return _call("min", np.minimum, x, y)


def relu(x: Any) -> Any:
    """max(x, 0). NaN stays NaN."""
    return maximum(x, 0.0)


def clamp(x: Any, low: Any, high: Any) -> Any:
    """min(max(x, low), high). NaN stays NaN."""
    return minimum(maximum(x, low), high)


def exp(x: Any) -> Any:
    """eˣ, to `lowtide.passes.support.math_formulas.EXP`."""
    return _call("exp", np.exp, x)


def log(x: Any) -> Any:
    """The natural logarithm, to `lowtide.passes.support.math_formulas.LOG`: −∞ at 0, NaN below."""
    return _call("log", np.log, x)


def tanh(x: Any) -> Any:
    """The hyperbolic tangent, to `lowtide.passes.support.math_formulas.TANH`."""
    return _call("tanh", np.tanh, x)


def erf(x: Any) -> Any:
    """The error function 2/√π ∫₀ˣ e^{−t²} dt, to `lowtide.passes.support.math_formulas.ERF`."""
    return _call("erf", _erf_numpy, x)


def sqrt(x: Any) -> Any:
    """The square root, correctly rounded; NaN below 0."""
    return _call("sqrt", np.sqrt, x)


def rsqrt(x: Any) -> Any:
    """1/√x, to `lowtide.passes.support.math_formulas.RSQRT_APPROX`: ∞ at 0, NaN below."""
    return _call("rsqrt", lambda y: 1.0 / np.sqrt(y), x)


def sigmoid(x: Any) -> Any:
    """1 / (1 + e⁻ˣ)."""
    return _call("div_approx", np.divide, 1.0, 1.0 + exp(-x))


def silu(x: Any) -> Any:
    """x · sigmoid(x), as x / (1 + e⁻ˣ)."""
    return _call("div_approx", np.divide, x, 1.0 + exp(-x))


def gelu(x: Any, approximate: str = "none") -> Any:
    """x · Φ(x): with "none" by erf, with "tanh" by ½(1 + tanh u), u = √(2/π)(x + 0.044715 x³) (Hendrycks, Gimpel 2016).

    The latter is computed as x / (1 + e^{−2u}), which is the same and does not cancel.
    Raises `SpecError` for another `approximate`.
    """
    if approximate == "none":
        return 0.5 * x * (1.0 + erf(x * math.sqrt(0.5)))
    if approximate != "tanh":
        raise SpecError(f"gelu(approximate={approximate!r}): {choices(approximate, ('none', 'tanh'))}")
    doubled = 2.0 * math.sqrt(2.0 / math.pi) * (x + 0.044715 * (x * x * x))
    return _call("div_approx", np.divide, x, 1.0 + exp(-doubled))


def where(condition: Any, x: Any, y: Any) -> Any:
    """x where the condition (a comparison of traced values) holds, else y. Both are computed."""
    tracer = _tracer_of(condition, x, y)
    if tracer is None:
        return np.where(condition, x, y)
    inputs = [tracer.lift_predicate(condition), tracer.lift(x), tracer.lift(y)]
    return Traced(tracer, tracer.node("where", inputs))


def cast(x: Any, dtype: str) -> Any:
    """x rounded to the nearest value of `dtype` (f16, bf16, f32); computing goes on in f32."""
    if dtype not in kernel_types():
        raise SpecError(f"cast to unknown dtype {dtype!r}: {choices(dtype, kernel_types())}")
    tracer = _tracer_of(x)
    if tracer is None:
        with np.errstate(over="ignore"):
            rounded = np.asarray(x).astype(numpy_dtype(dtype))
            return rounded.astype(np.result_type(x, np.float32))
    return x if dtype == "f32" else tracer.apply("cast", x, attribute=dtype)


def _tracer_of(*values: object) -> Tracer | None:
    for value in values:
        if isinstance(value, Traced | Predicate):
            return value._tracer
    return None


def _call(op: str, in_numpy: Callable[..., Any], *values: Any) -> Any:
    """Record `op` if any value is traced, else compute it by numpy."""
    tracer = _tracer_of(*values)
    if tracer is not None:
        return tracer.apply(op, *values)
    if any(isinstance(value, str | None) for value in values):
        return refuse(f"{op} of {values}", "give it a traced value, a number or an array")
    with np.errstate(all="ignore"):
        return in_numpy(*values)
