"""Epilogues by name, for the command line. In Python, any function of the accumulator can be one."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from lowtide.compiler.dtypes import choices
from lowtide.compiler.epilogue.functions import gelu, relu, silu, tanh
from lowtide.compiler.epilogue.gated import clamped_swiglu, geglu, geglu_tanh, swiglu
from lowtide.compiler.epilogue.operands import Full, PerColumn, Scalar
from lowtide.compiler.epilogue.trace import Traced
from lowtide.errors import SpecError


def _relu(acc: Traced) -> Traced:
    return relu(acc)


def _gelu(acc: Traced) -> Traced:
    return gelu(acc)


def _silu(acc: Traced) -> Traced:
    return silu(acc)


def _tanh(acc: Traced) -> Traced:
    return tanh(acc)


def _bias(acc: Traced, bias: PerColumn) -> Traced:
    return acc + bias


def _bias_relu(acc: Traced, bias: PerColumn) -> Traced:
    return relu(acc + bias)


def _bias_gelu(acc: Traced, bias: PerColumn) -> Traced:
    return gelu(acc + bias)


def _bias_silu(acc: Traced, bias: PerColumn) -> Traced:
    return silu(acc + bias)


def _scale(acc: Traced, alpha: Scalar) -> Traced:
    return alpha * acc


def _alpha_beta(acc: Traced, c: Full, alpha: Scalar, beta: Scalar) -> Traced:
    return alpha * acc + beta * c


def _residual(acc: Traced, bias: PerColumn, residual: Full) -> Traced:
    return acc + bias + residual


def _bias_relu_saved(acc: Traced, bias: PerColumn) -> dict[str, Traced]:
    pre = acc + bias
    return {"d": relu(pre), "pre": pre}


def _product(gate: Traced, up: Traced) -> Traced:
    return gate * up


def _swiglu_saved(gate: Traced, up: Traced, gate_bias: PerColumn, up_bias: PerColumn) -> dict[str, Traced]:
    pre, other = gate + gate_bias, up + up_bias
    return {"d": swiglu(pre, other), "gate": pre, "up": other}


# Those of pairs of columns.
PAIRED: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "product": _product,
        "swiglu": swiglu,
        "geglu": geglu,
        "geglu-tanh": geglu_tanh,
        "clamped-swiglu": clamped_swiglu(),
        "swiglu-saved": _swiglu_saved,
    }
)

READY: Mapping[str, Callable[..., Any] | None] = MappingProxyType(
    {
        "none": None,
        "relu": _relu,
        "gelu": _gelu,
        "silu": _silu,
        "tanh": _tanh,
        "bias": _bias,
        "bias-relu": _bias_relu,
        "bias-gelu": _bias_gelu,
        "bias-silu": _bias_silu,
        "scale": _scale,
        "alpha-beta": _alpha_beta,
        "residual": _residual,
        "bias-relu-saved": _bias_relu_saved,
    }
)


def ready_epilogue(name: str) -> Callable[..., Any] | None:
    """The epilogue of this name; None for `none`. For another name, raises SpecError that lists the names."""
    known = {**READY, **PAIRED}
    if name not in known:
        raise SpecError(
            f"unknown epilogue {name!r}: {choices(name, tuple(known))}; for another function, write the epilogue in "
            "Python [ready-epilogue]"
        )
    return known[name]
