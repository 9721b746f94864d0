"""Pointwise ops of aten as functions for an epilogue, which `Replay` calls with traced values.

Each function takes the arguments of its op, with traced values in place of tensors. All is computed in f32 and rounded
once, to the type of the last op. Intermediate casts between float types are dropped, as Inductor drops them within a
kernel.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from lowtide.compiler.epilogue.functions import (
    clamp,
    erf,
    erfc,
    exp,
    gelu,
    log,
    maximum,
    minimum,
    relu,
    rsqrt,
    sigmoid,
    silu,
    sqrt,
    tanh,
    where,
)
from lowtide.compiler.epilogue.trace import Traced
from lowtide.compiler.fx.factors import is_one, product, total
from lowtide.errors import SpecError


def _add(x: Any, y: Any, alpha: Any = 1) -> Any:
    y = y if alpha == 1 else alpha * y
    for one, other in ((x, y), (y, x)):
        if is_one(one) and (argument := _argument(other, "tanh")) is not None:
            return 2.0 * sigmoid(2.0 * argument)  # fewer operations than tanh needs, and no cancellation
    return total(x, y)


def _sub(x: Any, y: Any, alpha: Any = 1) -> Any:
    y = y if alpha == 1 else alpha * y
    if is_one(x) and (root := _root(y)) is not None and (argument := _argument(root, "tanh")) is not None:
        share = sigmoid(2.0 * argument)
        return 4.0 * (share - share * share)
    return x - y


def _argument(x: Any, op: str) -> Any:
    """u if x is `op` of u; else None."""
    node = getattr(x, "_node", None)
    return Traced(x._tracer, node.inputs[0]) if node is not None and node.op == op else None


def _root(x: Any) -> Any:
    """r if x is r · r; else None."""
    node = getattr(x, "_node", None)
    if node is None or node.op != "mul" or node.inputs[0] is not node.inputs[1]:
        return None
    return Traced(x._tracer, node.inputs[0])


def _div(x: Any, y: Any, rounding_mode: Any = None) -> Any:
    if rounding_mode is not None:
        raise SpecError(
            f"div with rounding_mode={rounding_mode!r}: an epilogue does not round quotients to integers [div-rounding]"
        )
    exponent = _exponent(y)
    return x / y if exponent is None else x * sigmoid(exponent)


def _exponent(y: Any) -> Any:
    """z if y is 1 + e⁻ᶻ, as in the decompositions of sigmoid and silu; else None."""
    node = getattr(y, "_node", None)
    if node is None or node.op != "add":
        return None
    ops = {other.op: other for other in node.inputs}
    if {*ops} != {"const", "exp"} or ops["const"].attribute != 1:
        return None
    power = Traced(y._tracer, ops["exp"].inputs[0])
    return Traced(y._tracer, power._node.inputs[0]) if power._node.op == "neg" else -power


def _pow(x: Any, exponent: Any) -> Any:
    """Whole exponents, one half, and their reciprocals."""
    if exponent == 0.5:
        return sqrt(x)
    if exponent == -0.5:
        return rsqrt(x)
    if float(exponent).is_integer() and 1 <= abs(exponent) <= 8:
        power = x ** int(abs(exponent))
        return power if exponent > 0 else 1.0 / power
    raise SpecError(f"pow with the exponent {exponent}: use a whole exponent up to 8, or 0.5 [pow-exponent]")


def _clamp(x: Any, low: Any = None, high: Any = None) -> Any:
    if low is not None and high is not None:
        return clamp(x, low, high)
    if low is not None:
        return maximum(x, low)
    return x if high is None else minimum(x, high)


def _gelu(x: Any, *, approximate: str = "none") -> Any:
    return gelu(x, approximate)


def _leaky_relu(x: Any, slope: Any = 0.01) -> Any:
    return where(x > 0, x, x * slope)


def _threshold_backward(gradient: Any, x: Any, threshold: Any) -> Any:
    return where(x <= threshold, 0.0, gradient)


def _silu_backward(gradient: Any, x: Any) -> Any:
    share = sigmoid(x)
    return gradient * share * (1 + x * (1 - share))


def _sigmoid_backward(gradient: Any, y: Any) -> Any:
    return gradient * (1 - y) * y


def _tanh_backward(gradient: Any, y: Any) -> Any:
    return gradient * _sub(1, y * y)


def _same(x: Any, *arguments: Any, **keywords: Any) -> Any:
    return x


def _each(names: str, overloads: str, function: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    return {f"aten.{name}.{overload}": function for name in names.split() for overload in overloads.split()}


#: Ops that compute new values, by target.
POINTWISE: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        **_each("add", "Tensor Scalar", _add),
        **_each("sub", "Tensor Scalar", _sub),
        **_each("rsub", "Tensor Scalar", lambda x, y, alpha=1: _sub(y, x, alpha)),
        **_each("mul", "Tensor Scalar", product),
        **_each("div", "Tensor Scalar Tensor_mode Scalar_mode", _div),
        **_each("pow", "Tensor_Scalar", _pow),
        **_each("neg", "default", lambda x: -x),
        **_each("abs", "default", abs),
        **_each("square", "default", lambda x: x * x),
        **_each("reciprocal", "default", lambda x: _div(1.0, x)),
        **_each("relu", "default", relu),
        **_each("leaky_relu", "default", _leaky_relu),
        **_each("sigmoid", "default", sigmoid),
        **_each("silu", "default", silu),
        **_each("tanh", "default", tanh),
        **_each("gelu", "default", _gelu),
        **_each("erf", "default", erf),
        **_each("erfc", "default", erfc),
        **_each("exp", "default", exp),
        **_each("log", "default", log),
        **_each("sqrt", "default", sqrt),
        **_each("rsqrt", "default", rsqrt),
        **_each("maximum", "default", maximum),
        **_each("minimum", "default", minimum),
        **_each("clamp", "default", _clamp),
        **_each("hardtanh", "default", lambda x, low=-1, high=1: clamp(x, low, high)),
        **_each("clamp_min", "default Tensor", maximum),
        **_each("clamp_max", "default Tensor", minimum),
        **_each("where", "self", where),
        **_each("lt", "Scalar Tensor", lambda x, y: x < y),
        **_each("le", "Scalar Tensor", lambda x, y: x <= y),
        **_each("gt", "Scalar Tensor", lambda x, y: x > y),
        **_each("ge", "Scalar Tensor", lambda x, y: x >= y),
        **_each("eq", "Scalar Tensor", lambda x, y: x == y),
        **_each("ne", "Scalar Tensor", lambda x, y: x != y),
        **_each("threshold_backward", "default", _threshold_backward),
        **_each("silu_backward", "default", _silu_backward),
        **_each("sigmoid_backward", "default", _sigmoid_backward),
        **_each("tanh_backward", "default", _tanh_backward),
    }
)

#: Casts, which are computed only as the last op.
CASTS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {"prims.convert_element_type.default": _same, "aten._to_copy.default": _same}
)

#: Ops that return the same elements in the same order.
RESHAPES: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        **_each("reshape view _unsafe_view alias", "default", _same),
        **_each("clone", "default", _same),
        **_each("unsqueeze squeeze", "default", _same),
        **_each("squeeze", "dim dims", _same),
    }
)

#: Other ops that move no elements.
VIEWS = frozenset(
    {"aten.permute.default", "aten.transpose.int", "aten.t.default", "aten.slice.Tensor", "aten.expand.default"}
)

OPS: Mapping[str, Callable[..., Any]] = MappingProxyType({**POINTWISE, **CASTS, **RESHAPES})
