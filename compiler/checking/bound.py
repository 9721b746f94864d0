"""Carries intervals through a traced epilogue: between what limits the computed f32 values must lie.

Interval arithmetic in float64. Each operation's exact image of the intervals is widened by the error of the f32
operation that computes it: half an ulp where it rounds correctly, what passes/support/math_formulas.py states where it
approximates. What may overflow in f32 has an infinite end. Whether a value may be NaN is not tracked.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from lowtide.compiler.epilogue.functions import erf
from lowtide.compiler.epilogue.operands import EpilogueGraph
from lowtide.compiler.epilogue.trace import Node
from lowtide.elements import element_type
from lowtide.passes.support import math_formulas as formulas
from lowtide.runtime.dtypes import round_to

_LARGEST = element_type("f32").largest


@dataclass(frozen=True)
class Interval:
    """Arrays of lower and upper limits, float64, of one shape."""

    low: np.ndarray
    high: np.ndarray


@dataclass(frozen=True)
class Truth:
    """A condition on intervals: where it may hold, and where it may not."""

    maybe: np.ndarray
    maybe_not: np.ndarray


def propagate(graph: EpilogueGraph, acc: Interval, operands: Sequence[np.ndarray]) -> Interval:
    """The interval of the epilogue's f32 result, before it is rounded to D's type.

    `acc` is (M, N); `operands` are exact, float64, and broadcast to (M, N), as in `evaluate`.
    """
    values: dict[int, Interval] = {}
    truths: dict[int, Truth] = {}
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
                values[id(node)] = _propagate(node, inputs, acc, operands)
    result = values[id(graph.result)]
    return Interval(*(np.array(np.broadcast_to(end, acc.low.shape)) for end in (result.low, result.high)))


def _propagate(node: Node, inputs: list[Interval], acc: Interval, operands: Sequence[np.ndarray]) -> Interval:
    if node.op == "acc":
        return acc
    if node.op == "operand":
        assert isinstance(node.attribute, int)
        return Interval(operands[node.attribute], operands[node.attribute])
    if node.op == "const":
        exact = np.asarray(node.attribute, dtype=np.float64)
        rounded = round_to(exact, "f32")
        return Interval(np.minimum(exact, rounded), np.maximum(exact, rounded))
    if node.op == "cast":
        (x,) = inputs
        return Interval(round_to(x.low, str(node.attribute)), round_to(x.high, str(node.attribute)))
    return _OPS[node.op](*inputs)


def _widen(low: np.ndarray, high: np.ndarray, error: formulas.Error = formulas.ROUNDED) -> Interval:
    """Move both ends out by the error; an undefined end is infinite, and what may overflow f32 too."""
    low = np.where(np.isnan(low), -np.inf, low - (error.relative * np.abs(low) + error.absolute))
    high = np.where(np.isnan(high), np.inf, high + (error.relative * np.abs(high) + error.absolute))
    low = np.where(low < -_LARGEST, -np.inf, np.minimum(low, _LARGEST))
    high = np.where(high > _LARGEST, np.inf, np.maximum(high, -_LARGEST))
    return Interval(low, high)


def _corners(x: Interval, y: Interval, op: np.ufunc) -> tuple[np.ndarray, np.ndarray]:
    """Least and greatest of op over the four pairs of ends. 0·∞ counts as 0: no product of finite values is NaN."""
    pairs = [op(a, b) for a in (x.low, x.high) for b in (y.low, y.high)]
    corners = np.stack(np.broadcast_arrays(*(np.where(np.isnan(corner), 0.0, corner) for corner in pairs)))
    return corners.min(axis=0), corners.max(axis=0)


def _mul(x: Interval, y: Interval) -> Interval:
    return _widen(*_corners(x, y, np.multiply))


def _div(x: Interval, y: Interval, error: formulas.Error = formulas.ROUNDED) -> Interval:
    low, high = _corners(x, y, np.divide)
    pole = (y.low <= 0) & (y.high >= 0)
    return _widen(np.where(pole, -np.inf, low), np.where(pole, np.inf, high), error)


def _div_approx(x: Interval, y: Interval) -> Interval:
    """Divisors above 2¹²⁶ may give 0."""
    quotient = _div(x, y, formulas.DIVIDE_APPROX)
    vanishes = np.maximum(np.abs(y.low), np.abs(y.high)) > formulas.DIVIDE_APPROX_LIMIT
    low = np.where(vanishes, np.minimum(quotient.low, 0.0), quotient.low)
    return Interval(low, np.where(vanishes, np.maximum(quotient.high, 0.0), quotient.high))


def _abs(x: Interval) -> Interval:
    low = np.where((x.low <= 0) & (x.high >= 0), 0.0, np.minimum(np.abs(x.low), np.abs(x.high)))
    return Interval(low, np.maximum(np.abs(x.low), np.abs(x.high)))


def _rising(function: Callable, error: formulas.Error, least: float = -np.inf, greatest: float = np.inf) -> Callable:
    """A function that rises, computed with the given error and never outside [least, greatest]."""

    def apply(x: Interval) -> Interval:
        wide = _widen(function(x.low), function(x.high), error)
        return Interval(np.clip(wide.low, least, greatest), np.clip(wide.high, least, greatest))

    return apply


def _rsqrt(x: Interval) -> Interval:
    low, high = (1.0 / np.sqrt(np.maximum(end, 0.0)) for end in (x.high, x.low))
    wide = _widen(low, high, formulas.RSQRT_APPROX)
    return Interval(np.maximum(wide.low, 0.0), wide.high)


def _where(condition: Truth, x: Interval, y: Interval) -> Interval:
    low = np.minimum(np.where(condition.maybe, x.low, np.inf), np.where(condition.maybe_not, y.low, np.inf))
    high = np.maximum(np.where(condition.maybe, x.high, -np.inf), np.where(condition.maybe_not, y.high, -np.inf))
    return Interval(low, high)


def _less(x: Interval, y: Interval) -> Truth:
    return Truth(x.low < y.high, x.high >= y.low)


def _less_equal(x: Interval, y: Interval) -> Truth:
    return Truth(x.low <= y.high, x.high > y.low)


def _equal(x: Interval, y: Interval) -> Truth:
    overlap = (x.low <= y.high) & (y.low <= x.high)
    return Truth(overlap, ~((x.low == x.high) & (y.low == y.high) & (x.low == y.low)))


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
    "neg": lambda x: Interval(-x.high, -x.low),
    "abs": _abs,
    "add": lambda x, y: _widen(x.low + y.low, x.high + y.high),
    "sub": lambda x, y: _widen(x.low - y.high, x.high - y.low),
    "mul": _mul,
    "div": _div,
    "div_approx": _div_approx,
    "max": lambda x, y: Interval(np.maximum(x.low, y.low), np.maximum(x.high, y.high)),
    "min": lambda x, y: Interval(np.minimum(x.low, y.low), np.minimum(x.high, y.high)),
    "exp": _rising(np.exp, formulas.EXP, least=0.0),
    "log": _rising(lambda x: np.log(np.maximum(x, 0.0)), formulas.LOG),
    "tanh": _rising(np.tanh, formulas.TANH, -1.0, 1.0),
    "erf": _rising(erf, formulas.ERF, -1.0, 1.0),
    "sqrt": _rising(lambda x: np.sqrt(np.maximum(x, 0.0)), formulas.ROUNDED, least=0.0),
    "rsqrt": _rsqrt,
}
