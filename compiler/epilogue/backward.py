"""Epilogues of training: of gated MLPs, of activations whose argument is saved, and of cross entropies.

An activation and its derivative are one function of the argument. Activations are known by name, as in
`lowtide.torch`. The epilogues are ordinary ones: each returns its results by name, in f32 before they are rounded.
"""

import functools
import math
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from lowtide.compiler.epilogue.functions import erf, exp, gelu, relu, sigmoid, silu, where
from lowtide.compiler.epilogue.operands import Full, OperandKind, OperandType, PerColumn
from lowtide.compiler.epilogue.reductions import gather, logsumexp, sum
from lowtide.errors import SpecError

_TARGET = OperandType(OperandKind.PER_ROW, "s32")  # as PerRow["s32"], which mypy does not know
_COLUMN = OperandType(OperandKind.PER_COLUMN, "s32")
_ROW = OperandType(OperandKind.PER_ROW, "f32")


def _silu(x: Any) -> tuple[Any, Any]:
    s = sigmoid(x)
    return x * s, s * (1.0 + x * (1.0 - s))


def _gelu(x: Any) -> tuple[Any, Any]:
    below = 0.5 * (1.0 + erf(x * math.sqrt(0.5)))
    return x * below, below + x * exp(-0.5 * (x * x)) * (1.0 / math.sqrt(2.0 * math.pi))


def _gelu_tanh(x: Any) -> tuple[Any, Any]:
    scale = 2.0 * math.sqrt(2.0 / math.pi)
    s = sigmoid(scale * (x + 0.044715 * (x * x * x)))
    return x * s, s + x * s * (1.0 - s) * (scale * (1.0 + 3.0 * 0.044715 * (x * x)))


def _relu(x: Any) -> tuple[Any, Any]:
    return relu(x), where(x > 0, 1.0, 0.0)


_PAIRS: Mapping[str, Callable[[Any], tuple[Any, Any]]] = MappingProxyType(
    {"silu": _silu, "gelu": _gelu, "gelu_tanh": _gelu_tanh, "relu": _relu}
)
_VALUES: Mapping[str, Callable[[Any], Any]] = MappingProxyType(
    {"silu": silu, "gelu": gelu, "gelu_tanh": functools.partial(gelu, approximate="tanh"), "relu": relu}
)


def with_derivative(activation: str) -> Callable[[Any], tuple[Any, Any]]:
    """The function from x to act(x) and its derivative. Raises SpecError for an unknown name."""
    if activation not in _PAIRS:
        raise SpecError(
            f"activation {activation!r} has no epilogue with its derivative; known are {', '.join(_PAIRS)}"
            " [activation-derivative]"
        )
    return _PAIRS[activation]


@functools.cache
def gated(activation: str, saves: bool) -> Callable[..., Any]:
    """For pairs of columns: `hidden` = act(gate) · up; with `saves`, also `gate` and `up`."""
    with_derivative(activation)
    value = _VALUES[activation]

    def epilogue(gate: Any, up: Any) -> Any:
        hidden = {"hidden": value(gate) * up}
        return hidden | {"gate": gate, "up": up} if saves else hidden

    return epilogue


@functools.cache
def gated_backward(activation: str) -> Callable[..., Any]:
    """For the gradient of `hidden` as the accumulator, with `gate` and `up` as full operands: their gradients `dgate`
    and `dup`, and `hidden` again."""
    both = with_derivative(activation)

    def epilogue(acc: Any, gate: Full, up: Full) -> Any:
        value, slope = both(gate)
        return {"dgate": acc * up * slope, "dup": acc * value, "hidden": value * up}

    return epilogue


@functools.cache
def activated(activation: str, saves: bool) -> Callable[..., Any]:
    """`hidden` = act(acc + bias); with `saves`, also its argument `pre`."""
    with_derivative(activation)
    value = _VALUES[activation]

    def epilogue(acc: Any, bias: PerColumn) -> Any:
        pre = acc + bias
        hidden = {"hidden": value(pre)}
        return hidden | {"pre": pre} if saves else hidden

    return epilogue


@functools.cache
def activated_backward(activation: str) -> Callable[..., Any]:
    """For the gradient of act(pre) as the accumulator, with `pre` as a full operand: the gradient `dpre`, its column
    sums `dbias` (before it is rounded), and `hidden` = act(pre) again."""
    both = with_derivative(activation)

    def epilogue(acc: Any, pre: Full) -> Any:
        value, slope = both(pre)
        dpre = acc * slope
        return {"dpre": dpre, "dbias": sum(dpre, dim=0), "hidden": value}

    return epilogue


def row_losses(acc: Any, target: Any) -> Any:
    """What a cross entropy needs of each row of logits, which are not stored."""
    return {"lse": logsumexp(acc, dim=1), "wanted": gather(acc, target)}


row_losses.__annotations__["target"] = _TARGET


def logits_gradient(acc: Any, lse: Any, scale: Any, target: Any, column: Any) -> Any:
    """scale · (softmax − onehot) of a logit. `column` is the index of each column, and `target` that of each row's
    class; `lse` and `scale` are per row."""
    return scale * (exp(acc - lse) - where(column == target, 1.0, 0.0))


logits_gradient.__annotations__.update(lse=_ROW, scale=_ROW, target=_TARGET, column=_COLUMN)
