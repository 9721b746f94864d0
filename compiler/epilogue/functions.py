"""The functions of an epilogue: lt.relu, lt.exp, lt.gelu, lt.where, …

Each takes traced values, possibly mixed with numbers. If all arguments are numbers, it returns the number that a kernel
would compute, as np.float32, with every operation rounded to f32. Arrays are passed to numpy, so that the same epilogue
runs on them.
"""

import functools
import math
from collections.abc import Callable
from typing import Any, ParamSpec

import numpy as np

from lowtide.compiler.dtypes import choices, numpy_dtype
from lowtide.compiler.epilogue.erf import erf as erf_of_arrays
from lowtide.compiler.epilogue.erf import erfc as erfc_of_arrays
from lowtide.compiler.epilogue.evaluate import folded
from lowtide.compiler.epilogue.trace import Predicate, Traced, Tracer, number_of, refuse, truth_of, type_name
from lowtide.elements import EPILOGUE_TYPE, element_type, kernel_types
from lowtide.errors import SpecError

Parameters = ParamSpec("Parameters")


def _folds(function: Callable[Parameters, Any]) -> Callable[Parameters, Any]:
    """Make a function of numbers alone trace itself on constants and evaluate the trace."""

    @functools.wraps(function)
    def folding(*arguments: Parameters.args, **keywords: Parameters.kwargs) -> Any:
        values: list[Any] = [x for x in (*arguments, *keywords.values()) if not isinstance(x, str)]
        for value in values:
            if not isinstance(value, Traced | Predicate) and number_of(value) is None and np.ndim(value) == 0:
                return refuse(
                    f"{function.__name__} of {type_name(value)}", "give it traced values, real numbers or arrays"
                )
        if not values or any(number_of(value) is None for value in values):
            return function(*arguments, **keywords)
        tracer = Tracer()

        def constant(value: Any) -> Any:
            return value if isinstance(value, str) else Traced(tracer, tracer.lift(value))

        result = function(*map(constant, arguments), **{name: constant(value) for name, value in keywords.items()})
        return folded(result._node)

    return folding


@_folds
def maximum(x: Any, y: Any) -> Any:
    """The larger of x and y; NaN if either is."""
    return _call("max", np.maximum, x, y)


@_folds
def minimum(x: Any, y: Any) -> Any:
    """The smaller of x and y; NaN if either is."""
    return _call("min", np.minimum, x, y)


@_folds
def relu(x: Any) -> Any:
    """max(x, 0). NaN stays NaN."""
    return maximum(x, 0)


@_folds
def clamp(x: Any, low: Any, high: Any) -> Any:
    """min(max(x, low), high). NaN stays NaN."""
    return minimum(maximum(x, low), high)


@_folds
def exp(x: Any) -> Any:
    """eˣ, with the error of `lowtide.passes.support.ir.math_formulas.EXP`."""
    return _call("exp", np.exp, x)


@_folds
def log(x: Any) -> Any:
    """The natural logarithm: −∞ at 0, NaN below; the error is that of `lowtide.passes.support.ir.math_formulas.LOG`."""
    return _call("log", np.log, x)


@_folds
def tanh(x: Any) -> Any:
    """The hyperbolic tangent, with the error of `lowtide.passes.support.ir.math_formulas.TANH`."""
    return _call("tanh", np.tanh, x)


@_folds
def erf(x: Any) -> Any:
    """The error function 2/√π ∫₀ˣ e^{−t²} dt, with the error of `lowtide.passes.support.ir.math_formulas.ERF`."""
    return _call("erf", erf_of_arrays, x)


@_folds
def erfc(x: Any) -> Any:
    """1 − erf(x), which does not cancel, with the error of `lowtide.passes.support.ir.math_formulas.ERFC`."""
    return _call("erfc", erfc_of_arrays, x)


@_folds
def sqrt(x: Any) -> Any:
    """The square root, correctly rounded; NaN below 0."""
    return _call("sqrt", np.sqrt, x)


@_folds
def rsqrt(x: Any) -> Any:
    """1/√x: ∞ at 0, NaN below; the error is that of `lowtide.passes.support.ir.math_formulas.RSQRT_APPROX`."""
    return _call("rsqrt", lambda y: 1.0 / np.sqrt(y), x)


@_folds
def sigmoid(x: Any) -> Any:
    """1 / (1 + e⁻ˣ). It is 0 if the power is above 2¹²⁶ (`lowtide.passes.support.ir.math_formulas.DIVIDE_APPROX`)."""
    return _call("div_approx", np.divide, 1.0, 1.0 + exp(-_real(x)))


@_folds
def silu(x: Any) -> Any:
    """x · sigmoid(x); NaN at −∞, as in torch."""
    return x * sigmoid(x)


@_folds
def gelu(x: Any, approximate: str = "none") -> Any:
    """x · Φ(x): by erfc for "none", by ½(1 + tanh u) with u = √(2/π)(x + 0.044715 x³) for "tanh".

    The tanh form (Hendrycks, Gimpel 2016) is computed as x · sigmoid(2u), which is equal and does not cancel. The erfc
    form has torch's error, about |x| · 2⁻²³. Both are NaN at −∞, as in torch. Raises `SpecError` for another
    `approximate`.
    """
    real = _real(x)
    if approximate == "none":
        return 0.5 * real * erfc(-(real * math.sqrt(0.5)))
    if approximate != "tanh":
        raise SpecError(f"gelu(approximate={approximate!r}): {choices(approximate, ('none', 'tanh'))} [gelu-kind]")
    return real * sigmoid(2.0 * math.sqrt(2.0 / math.pi) * (real + 0.044715 * (real * real * real)))


def where(condition: Any, x: Any, y: Any) -> Any:
    """x if the condition (a comparison of traced values) holds, else y. Both are computed.

    If the condition is a known True or False, that value is returned directly.
    """
    tracer, known = _tracer_of(condition, x, y), truth_of(condition)
    if tracer is None and known is not None and number_of(x) is not None and number_of(y) is not None:
        return cast(x if known else y, EPILOGUE_TYPE)
    if tracer is None:
        return np.where(condition, x, y)
    if known is not None:
        return Traced(tracer, tracer.alike(y, x)[known])
    choices_ = tracer.alike(x, y)
    inputs = [tracer.lift_predicate(condition), *choices_]
    return Traced(tracer, tracer.node("where", inputs, None, choices_[0].is_integer))


@_folds
def cast(x: Any, dtype: str) -> Any:
    """x rounded to the nearest value of `dtype` (f16, bf16, f32; f64 in f64). The computation continues in the type
    that it had, and for integers in f32."""
    tracer = _tracer_of(x)
    valid = _floats(None if tracer is None else tracer.dtype)
    if dtype not in valid:
        unknown = "" if dtype in kernel_types() else "unknown dtype "
        raise SpecError(f"cast to {unknown}{dtype!r}: {choices(dtype, valid)} [cast-type]")
    if tracer is None:
        with np.errstate(over="ignore"):
            rounded = np.asarray(x).astype(numpy_dtype(dtype))
            return rounded.astype(np.result_type(x, np.float32))
    real = _real(x)
    return real if dtype == tracer.dtype else tracer.apply("cast", real, attribute=dtype)


def _real(x: Any) -> Any:
    """Convert an integer to the tracer's type, in which products do not wrap around."""
    tracer = _tracer_of(x)
    return x if tracer is None else Traced(tracer, tracer.real(x))


def _floats(computes_in: str | None = None) -> tuple[str, ...]:
    return tuple(name for name in kernel_types(computes_in) if element_type(name).is_float)


def _tracer_of(*values: object) -> Tracer | None:
    for value in values:
        if isinstance(value, Traced | Predicate):
            return value._tracer
    return None


def _call(op: str, in_numpy: Callable[..., Any], *values: Any) -> Any:
    """Record `op` if any value is traced; otherwise compute it with numpy."""
    tracer = _tracer_of(*values)
    if tracer is not None:
        return tracer.apply(op, *values)
    if any(isinstance(value, str) for value in values):
        return refuse(f"{op} of text", "it takes traced values, numbers and arrays")
    with np.errstate(all="ignore"):
        return in_numpy(*values)
