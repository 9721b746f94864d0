"""Interval arithmetic on a traced epilogue: limits of the computed values.

Computed in float64. Each operation's exact image of the intervals is widened by the error of the kernel's operation:
half an ulp if it rounds correctly, the error in passes/support/ir/math_formulas.py if it approximates. A value that may
overflow has an infinite end.

An interval also says whether the value may be NaN (∞ − ∞, 0 · ∞, 0 / 0, ∞ / ∞, a root or logarithm of a value that may
be negative, any operation on NaN), and whether it may be a number: the root of a certainly negative value may not.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lowtide.compiler.epilogue.erf import erf, erfc
from lowtide.compiler.epilogue.evaluate import of_integers
from lowtide.compiler.epilogue.graph import EpilogueGraph
from lowtide.compiler.epilogue.trace import Node
from lowtide.elements import INTEGER_TYPE, element_type
from lowtide.passes.support.ir import math_formulas as formulas
from lowtide.runtime.dtypes import round_to


@dataclass(frozen=True)
class Arithmetic:
    """The type that an epilogue computes in: the error of a correctly rounded operation, and the largest number."""

    name: str
    rounded: formulas.Error
    largest: float

    @classmethod
    def of(cls, name: str) -> "Arithmetic":
        """The arithmetic of an element type. The limits are computed in float64, so for f64 both roundings count."""
        row = element_type(name)
        roundings = 2 if row.precision > np.finfo(np.float64).nmant else 1
        return cls(name, formulas.Error(roundings * row.spacing / 2, roundings * row.smallest / 2), row.largest)


@dataclass(frozen=True)
class Interval:
    """Arrays of one shape: lower and upper limits in float64, whether the value may be NaN, and whether a number.

    The limits hold only for numbers; if the value is certainly NaN they mean nothing.
    """

    low: np.ndarray
    high: np.ndarray
    maybe_nan: np.ndarray | np.bool_ = np.False_
    maybe_number: np.ndarray | np.bool_ = np.True_

    @classmethod
    def exact(cls, values: np.ndarray) -> "Interval":
        """Known values, possibly NaN."""
        is_nan = np.isnan(values)
        return cls(np.where(is_nan, -np.inf, values), np.where(is_nan, np.inf, values), is_nan, ~is_nan)

    def after(self, *inputs: "Interval", nan: np.ndarray | np.bool_ = np.False_) -> "Interval":
        """These limits, as the result of an operation that may give NaN by itself, and gives NaN for NaN."""
        number = self.maybe_number
        for x in inputs:
            nan, number = nan | x.maybe_nan, number & x.maybe_number
        return Interval(self.low, self.high, nan, number)

    @property
    def maybe_zero(self) -> np.ndarray:
        return np.asarray((self.low <= 0) & (self.high >= 0))

    @property
    def maybe_infinite(self) -> np.ndarray:
        return np.isinf(self.low) | np.isinf(self.high)


@dataclass(frozen=True)
class Truth:
    """A condition on intervals: where it may hold, and where it may not."""

    maybe: np.ndarray
    maybe_not: np.ndarray


def propagate(graph: EpilogueGraph, sums: Sequence[Interval], operands: Sequence[np.ndarray]) -> Interval:
    """The interval of the epilogue's result, before it is rounded to D's type.

    `sums`: the accumulator, or both of a pair, (M, N) each; `operands` are exact, float64, and broadcast to (M, N), as
    in `evaluate`.
    """
    values: dict[int, Interval] = {}
    truths: dict[int, Truth] = {}
    arithmetic = Arithmetic.of(graph.computes_in)
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            if node.op in _CONDITIONS:
                known = truths if node.op in ("and", "or", "not") else values
                truths[id(node)] = _CONDITIONS[node.op](*(known[id(other)] for other in node.inputs))
            elif node.op == "where":
                condition, x, y = node.inputs
                values[id(node)] = _where(truths[id(condition)], values[id(x)], values[id(y)])
            else:
                inputs = [values[id(other)] for other in node.inputs]
                values[id(node)] = _propagate(node, inputs, sums, operands, arithmetic)
    result = values[id(graph.result)]
    parts = (result.low, result.high, result.maybe_nan, result.maybe_number)
    return Interval(*(np.array(np.broadcast_to(part, sums[0].low.shape)) for part in parts))


def _propagate(
    node: Node,
    inputs: list[Interval],
    sums: Sequence[Interval],
    operands: Sequence[np.ndarray],
    arithmetic: Arithmetic,
) -> Interval:
    if node.op == "acc":
        return sums[int(node.attribute or 0)]
    if node.op == "operand":
        assert isinstance(node.attribute, int)
        return Interval.exact(operands[node.attribute])
    if node.op == "const":
        exact = np.asarray(node.attribute, dtype=np.float64)
        rounded = exact if node.is_integer else round_to(exact, arithmetic.name)
        if np.isnan(exact):
            return Interval.exact(exact)
        return Interval(np.minimum(exact, rounded), np.maximum(exact, rounded))
    if node.op == "real":
        (x,) = inputs
        return Interval(*(round_to(end, arithmetic.name) for end in (x.low, x.high))).after(x)
    if node.is_integer:
        return _of_integers(node.op, inputs)
    if node.op == "cast":
        (x,) = inputs
        return Interval(*(round_to(end, str(node.attribute)) for end in (x.low, x.high))).after(x)
    return _OPS[node.op](arithmetic, *inputs)


def _of_integers(op: str, inputs: list[Interval]) -> Interval:
    """Exact if the inputs are, in s32; else the integers between the ends, or all integers if they may wrap around."""
    low, high = (of_integers(op, *ends) for ends in ((x.low for x in inputs), (x.high for x in inputs)))
    if all(np.array_equal(x.low, x.high) for x in inputs):
        return Interval(low, high).after(*inputs)
    row = element_type(INTEGER_TYPE)
    shape = np.broadcast_shapes(*(x.low.shape for x in inputs))
    return Interval(np.full(shape, float(row.lowest)), np.full(shape, float(row.largest))).after(*inputs)


def _widen(arithmetic: Arithmetic, low: np.ndarray, high: np.ndarray, error: formulas.Error | None = None) -> Interval:
    """Widen both ends by the error, by default a rounding's; an end that is undefined or overflows is infinite."""
    error, largest = error or arithmetic.rounded, arithmetic.largest
    below, above = (np.where(np.isinf(x), 0.0, error.relative * np.abs(x) + error.absolute) for x in (low, high))
    low = np.where(np.isnan(low), -np.inf, low - below)
    high = np.where(np.isnan(high), np.inf, high + above)
    low = np.where(low < -largest, -np.inf, np.minimum(low, largest))
    high = np.where(high > largest, np.inf, np.maximum(high, -largest))
    return Interval(low, high)


def _corners(x: Interval, y: Interval, op: np.ufunc) -> tuple[np.ndarray, np.ndarray]:
    """Least and greatest of op over the four pairs of ends. 0·∞ counts as 0, a limit of products of numbers."""
    pairs = [op(a, b) for a in (x.low, x.high) for b in (y.low, y.high)]
    corners = np.stack(np.broadcast_arrays(*(np.where(np.isnan(corner), 0.0, corner) for corner in pairs)))
    return corners.min(axis=0), corners.max(axis=0)


def _add(arithmetic: Arithmetic, x: Interval, y: Interval) -> Interval:
    cancels = (np.isposinf(x.high) & np.isneginf(y.low)) | (np.isneginf(x.low) & np.isposinf(y.high))
    return _widen(arithmetic, x.low + y.low, x.high + y.high).after(x, y, nan=cancels)


def _neg(x: Interval) -> Interval:
    return Interval(-x.high, -x.low).after(x)


def _mul(arithmetic: Arithmetic, x: Interval, y: Interval) -> Interval:
    undefined = (x.maybe_zero & y.maybe_infinite) | (x.maybe_infinite & y.maybe_zero)
    return _widen(arithmetic, *_corners(x, y, np.multiply)).after(x, y, nan=undefined)


def _div(arithmetic: Arithmetic, x: Interval, y: Interval, error: formulas.Error | None = None) -> Interval:
    low, high = _corners(x, y, np.divide)
    pole = y.maybe_zero
    undefined = (x.maybe_zero & pole) | (x.maybe_infinite & y.maybe_infinite)
    low, high = np.where(pole, -np.inf, low), np.where(pole, np.inf, high)
    return _widen(arithmetic, low, high, error).after(x, y, nan=undefined)


def _div_approx(arithmetic: Arithmetic, x: Interval, y: Interval) -> Interval:
    """Divisors above 2¹²⁶ may give 0, and NaN for an infinite dividend."""
    quotient = _div(arithmetic, x, y, formulas.DIVIDE_APPROX)
    vanishes = np.maximum(np.abs(y.low), np.abs(y.high)) > formulas.DIVIDE_APPROX_LIMIT
    low = np.where(vanishes, np.minimum(quotient.low, 0.0), quotient.low)
    high = np.where(vanishes, np.maximum(quotient.high, 0.0), quotient.high)
    return Interval(low, high).after(quotient, nan=vanishes & x.maybe_infinite)


def _abs(x: Interval) -> Interval:
    low = np.where(x.maybe_zero, 0.0, np.minimum(np.abs(x.low), np.abs(x.high)))
    return Interval(low, np.maximum(np.abs(x.low), np.abs(x.high))).after(x)


def _max(x: Interval, y: Interval) -> Interval:
    return Interval(np.maximum(x.low, y.low), np.maximum(x.high, y.high)).after(x, y)


def _min(x: Interval, y: Interval) -> Interval:
    return Interval(np.minimum(x.low, y.low), np.minimum(x.high, y.high)).after(x, y)


def _rising(
    function: Callable, error: formulas.Error | None, least: float = -np.inf, greatest: float = np.inf
) -> Callable:
    """An increasing function, computed with the given error and never outside [least, greatest]."""

    def apply(arithmetic: Arithmetic, x: Interval) -> Interval:
        low, high = x.low, x.high
        if error is not None and error.argument:
            around = error.argument * np.abs(np.nan_to_num(np.stack([low, high]), posinf=0.0, neginf=0.0))
            low, high = low - around[0], high + around[1]
        wide = _widen(arithmetic, function(low), function(high), error)
        return Interval(np.clip(wide.low, least, greatest), np.clip(wide.high, least, greatest)).after(x)

    return apply


_erfc_of_negated = _rising(lambda x: erfc(-x), formulas.ERFC, 0.0, 2.0)


def _of_positive(function: Callable[[Arithmetic, Interval], Interval]) -> Callable[[Arithmetic, Interval], Interval]:
    """A function that is NaN below 0."""

    def apply(arithmetic: Arithmetic, x: Interval) -> Interval:
        result = function(arithmetic, Interval(np.maximum(x.low, 0.0), np.maximum(x.high, 0.0)))
        number = x.maybe_number & (x.high >= 0)
        return Interval(result.low, result.high, x.maybe_nan | (x.low < 0), number)

    return apply


def _rsqrt(arithmetic: Arithmetic, x: Interval) -> Interval:
    """The pole has the sign of the zero, which an interval does not know."""
    wide = _widen(arithmetic, 1.0 / np.sqrt(x.high), 1.0 / np.abs(np.sqrt(x.low)), formulas.RSQRT_APPROX)
    return Interval(np.where(x.low == 0, -np.inf, np.maximum(wide.low, 0.0)), wide.high)


def _where(condition: Truth, x: Interval, y: Interval) -> Interval:
    first, second = condition.maybe & x.maybe_number, condition.maybe_not & y.maybe_number
    low = np.minimum(np.where(first, x.low, np.inf), np.where(second, y.low, np.inf))
    high = np.maximum(np.where(first, x.high, -np.inf), np.where(second, y.high, -np.inf))
    nan = (condition.maybe & x.maybe_nan) | (condition.maybe_not & y.maybe_nan)
    number = first | second
    return Interval(np.where(number, low, -np.inf), np.where(number, high, np.inf), nan, number)


def _compared(x: Interval, y: Interval, holds: np.ndarray, fails: np.ndarray) -> Truth:
    """The result of a comparison of numbers; a comparison with NaN does not hold."""
    numbers = x.maybe_number & y.maybe_number
    return Truth(holds & numbers, (fails & numbers) | x.maybe_nan | y.maybe_nan)


def _less(x: Interval, y: Interval) -> Truth:
    return _compared(x, y, x.low < y.high, x.high >= y.low)


def _less_equal(x: Interval, y: Interval) -> Truth:
    return _compared(x, y, x.low <= y.high, x.high > y.low)


def _equal(x: Interval, y: Interval) -> Truth:
    if x is y:  # one node: x == x is false only for NaN
        return _compared(x, y, np.ones_like(x.low, dtype=bool), np.zeros_like(x.low, dtype=bool))
    overlap = (x.low <= y.high) & (y.low <= x.high)
    return _compared(x, y, overlap, ~((x.low == x.high) & (y.low == y.high) & (x.low == y.low)))


def _not(x: Truth) -> Truth:
    return Truth(x.maybe_not, x.maybe)


_CONDITIONS: dict[str, Callable[..., Truth]] = {
    "lt": _less,
    "le": _less_equal,
    "gt": lambda x, y: _less(y, x),
    "ge": lambda x, y: _less_equal(y, x),
    "eq": _equal,
    "ne": lambda x, y: _not(_equal(x, y)),
    "and": lambda x, y: Truth(x.maybe & y.maybe, x.maybe_not | y.maybe_not),
    "or": lambda x, y: Truth(x.maybe | y.maybe, x.maybe_not & y.maybe_not),
    "not": _not,
}
_OPS: dict[str, Callable[..., Interval]] = {
    "neg": lambda arithmetic, x: _neg(x),
    "abs": lambda arithmetic, x: _abs(x),
    "add": _add,
    "sub": lambda arithmetic, x, y: _add(arithmetic, x, _neg(y)),
    "mul": _mul,
    "div": _div,
    "div_approx": _div_approx,
    "max": lambda arithmetic, x, y: _max(x, y),
    "min": lambda arithmetic, x, y: _min(x, y),
    "exp": _rising(np.exp, formulas.EXP, least=0.0),
    "log": _of_positive(_rising(np.log, formulas.LOG)),
    "tanh": _rising(np.tanh, formulas.TANH, -1.0, 1.0),
    "erf": _rising(erf, formulas.ERF, -1.0, 1.0),
    "erfc": lambda arithmetic, x: _erfc_of_negated(arithmetic, _neg(x)),
    "sqrt": _of_positive(_rising(np.sqrt, None, least=0.0)),
    "rsqrt": _of_positive(_rsqrt),
}
