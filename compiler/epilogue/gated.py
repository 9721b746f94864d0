"""Activations of gated MLPs: epilogues of pairs of columns. Other epilogues may call them.

lt.GemmSpec(…, pairs="stacked", epilogue=lt.swiglu)
"""

from collections.abc import Callable
from typing import Any

from lowtide.compiler.epilogue.functions import clamp, gelu, minimum, sigmoid, silu


def swiglu(gate: Any, up: Any) -> Any:
    """silu(gate) · up (Shazeer, GLU Variants Improve Transformer, 2020)."""
    return silu(gate) * up


def geglu(gate: Any, up: Any) -> Any:
    """gelu(gate) · up, by erf (Shazeer, 2020)."""
    return gelu(gate) * up


def geglu_tanh(gate: Any, up: Any) -> Any:
    """gelu(gate) · up, with the tanh form of GELU."""
    return gelu(gate, "tanh") * up


def clamped_swiglu(limit: float = 7.0, scale: float = 1.702, shift: float = 1.0) -> Callable[[Any, Any], Any]:
    """The activation g · sigmoid(scale · g) · (u + shift), with g = min(gate, limit) and u = clamp(up, −limit, limit).

    The defaults are those of gpt-oss. Its weights are interleaved.
    """

    def clamped(gate: Any, up: Any) -> Any:
        bounded = minimum(gate, limit)
        return bounded * sigmoid(scale * bounded) * (clamp(up, -limit, limit) + shift)

    return clamped
