"""Epilogues for training: for gated MLPs, for activations whose argument is saved, and for cross entropies.

Activations have the names that `lowtide.torch` uses. For each, one function returns the value and the derivative. An
epilogue returns its results by name. It computes in f32; results are then rounded to the type of D.
"""

import functools
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from lowtide.compiler.epilogue.functions import erfc, exp, gelu, relu, sigmoid, silu, where
from lowtide.compiler.epilogue.operands import Full, OperandKind, OperandType
from lowtide.compiler.epilogue.reductions import gather, logsumexp, sum
from lowtide.errors import SpecError

_TARGET = OperandType(OperandKind.PER_ROW, "s32")  # as PerRow["s32"], which mypy does not know
_COLUMN = OperandType(OperandKind.PER_COLUMN, "s32")
_ROW = OperandType(OperandKind.PER_ROW, "f32")


def _silu(x: Any) -> tuple[Any, Any]:
    s = sigmoid(x)
    value = x * s
    return value, s + value * (1.0 - s)


def _gelu(x: Any) -> tuple[Any, Any]:
    below = 0.5 * erfc(x * -math.sqrt(0.5))  # constant factors become part of the formulas
    return x * below, below + x * (exp(-0.5 * (x * x)) * (1.0 / math.sqrt(2.0 * math.pi)))


def _gelu_tanh(x: Any) -> tuple[Any, Any]:
    scale = 2.0 * math.sqrt(2.0 / math.pi)
    s = sigmoid(scale * (x + 0.044715 * (x * x * x)))
    return x * s, s + (s - s * s) * (x * (scale + 3.0 * 0.044715 * scale * (x * x)))


def _relu(x: Any) -> tuple[Any, Any]:
    return relu(x), where(x > 0, 1.0, 0.0)


_BOTH: Mapping[str, Callable[[Any], tuple[Any, Any]]] = MappingProxyType(
    {"silu": _silu, "gelu": _gelu, "gelu_tanh": _gelu_tanh, "relu": _relu}
)
_VALUES: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {"silu": silu, "gelu": gelu, "gelu_tanh": functools.partial(gelu, approximate="tanh"), "relu": relu}
)


def with_derivative(activation: str) -> Callable[[Any], tuple[Any, Any]]:
    """The function that returns act(x) and its derivative at x. Raises SpecError for an unknown name."""
    if activation not in _BOTH:
        raise SpecError(
            f"the derivative of activation {activation!r} is not known; take {' or '.join(_BOTH)}"
            " [activation-derivative]"
        )
    return _BOTH[activation]


@functools.cache
def gated(activation: str, saves: bool) -> Callable[..., Any]:
    """An epilogue for pairs of columns. Its results are `hidden` = act(gate) · up, and, if `saves`, `gate` and `up`.
    All are (M, N). Raises SpecError for an unknown activation, as do the other functions here."""
    with_derivative(activation)
    value = _VALUES[activation]

    def epilogue(gate: Any, up: Any) -> Any:
        hidden = {"hidden": value(gate) * up}
        return hidden | {"gate": gate, "up": up} if saves else hidden

    return epilogue


@functools.cache
def gated_backward(activation: str) -> Callable[..., Any]:
    """The epilogue of the product that gives the gradient of `hidden`. Its full operands are `gate` and `up`. Its
    results are their gradients `dgate` and `dup`, and `hidden`, which is computed again. All are (M, N)."""
    both = with_derivative(activation)

    def epilogue(acc: Any, gate: Full, up: Full) -> Any:
        value, slope = both(gate)
        return {"dgate": acc * up * slope, "dup": acc * value, "hidden": value * up}

    return epilogue


@functools.cache
def routed_gated_backward(activation: str) -> Callable[..., Any]:
    """As `gated_backward`, if the rows of a later product were scaled by `weight`, f32 (M,). `hidden` is scaled by it,
    too. `dweight` (M,) is the gradient of the weights: for each row, the sum of the unscaled hidden · acc."""
    both = with_derivative(activation)

    def epilogue(acc: Any, gate: Full, up: Full, weight: Any) -> Any:
        value, slope = both(gate)
        scaled, hidden = weight * acc, value * up
        own = {"dgate": scaled * up * slope, "dup": scaled * value, "hidden": weight * hidden}
        return own | {"dweight": sum(acc * hidden, dim=1)}

    epilogue.__annotations__["weight"] = _ROW
    return epilogue


@functools.cache
def activated_backward(activation: str) -> Callable[..., Any]:
    """The epilogue of the product that gives the gradient of act(pre). Its full operand is `pre`. Its results are the
    gradient `dpre` (M, N), the sums `dbias` (N,) of its columns before it is rounded, and `hidden` = act(pre) (M, N),
    which is computed again."""
    both = with_derivative(activation)

    def epilogue(acc: Any, pre: Full) -> Any:
        value, slope = both(pre)
        dpre = acc * slope
        return {"dpre": dpre, "dbias": sum(dpre, dim=0), "hidden": value}

    return epilogue


def row_losses(acc: Any, target: Any) -> Any:
    """An epilogue whose results are `lse` (M,), the log-sum-exp of each row of logits, and `wanted` (M,), the logit of
    the row's target. The logits are not stored. `target`: s32 (M,)."""
    return {"lse": logsumexp(acc, dim=1), "wanted": gather(acc, target)}


row_losses.__annotations__["target"] = _TARGET


def logits_gradient(acc: Any, lse: Any, scale: Any, target: Any, column: Any) -> Any:
    """An epilogue whose result is the gradient of the logits, scale · (softmax − onehot), (M, N). `lse` and `scale`:
    f32 (M,). `target`: s32 (M,), the class of each row. `column`: s32 (N,), the index of each column."""
    return scale * (exp(acc - lse) - where(column == target, 1.0, 0.0))


logits_gradient.__annotations__.update(lse=_ROW, scale=_ROW, target=_TARGET, column=_COLUMN)
