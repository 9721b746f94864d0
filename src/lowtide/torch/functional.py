"""`lowtide.torch.matmul` and `linear`: the op, with epilogues as Python functions and operands by name."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from lowtide.torch.activations import activation_named
from lowtide.torch.autocast import in_region, precision_in_region
from lowtide.torch.autograd import Gemm, multiply
from lowtide.torch.calls import How
from lowtide.torch.dispatch import is_eager, records_gradient
from lowtide.torch.ops import compute_out, gemm_out
from lowtide.torch.texts import text_of_call, text_of_linear


def matmul(
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    epilogue: Callable[..., Any] | None = None,
    out: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    numerics: str = "repeatable",
    precision: str | None = None,
    **operands: Any,
) -> torch.Tensor:
    """D (…, M, N) = epilogue(A (…, M, K) · B (…, K, N), operands…), as `lt.matmul`, for autograd, autocast and
    torch.compile.

    `precision`: of products of f32, as in `lt.matmul`, in the backward pass too; autocast uses its own type. Operands
    without an element type in their annotation have the tensor's. `out_dtype`: D's type; by default that of `out`, else
    that of A (bf16 for 8-bit floats, s32 for integers). The gradient of an epilogue that is not linear computes the
    sums again.

    Raises LaunchError for tensors that do not fit, SpecError for an epilogue that cannot be traced, or that has no
    derivative although one is needed.
    """
    given = a
    a, b = in_region(a, b)
    precision = precision_in_region(precision, given, a)
    d = out_dtype if out is None else out.dtype
    text, tensors, scalars = described(a, b, d, epilogue, operands)
    how = How(scalars, text, numerics, precision, d)
    if out is None:
        return multiply(a, b, tensors, how)
    if is_eager((a, b, out, *tensors)):
        compute_out(a, b, tensors, how, out)
    else:
        gemm_out(a, b, tensors, *how[:-1], out)
    return out


def described(
    a: torch.Tensor,
    b: torch.Tensor,
    d: torch.dtype | None,
    epilogue: Callable[..., Any] | None,
    operands: Mapping[str, Any],
) -> tuple[str, list[torch.Tensor], list[float]]:
    """The text of an epilogue for a D of type `d`, and its tensors and scalars in the order of the text, from operands
    by name. Raises SpecError, LaunchError."""
    if epilogue is None and not operands:
        return "", [], []
    types = tuple((name, x.dtype if isinstance(x, torch.Tensor) else None) for name, x in operands.items())
    text, of_tensors, of_scalars = text_of_call(epilogue, a.dtype, b.dtype, d, types)
    return text, [operands[name] for name in of_tensors], [operands[name] for name in of_scalars]


def linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None = None,
    *,
    activation: str | None = None,
    numerics: str = "repeatable",
    precision: str | None = None,
) -> torch.Tensor:
    """torch.nn.functional.linear, with an activation: x (…, K) · weight (N, K)ᵀ + bias (N,).

    Without a recorded gradient, all is one kernel. With one, torch applies the activation after the kernel, because its
    input is kept for the backward pass; so does f64, because its epilogues have few functions. The gradient of the
    weight has the type of `weight.grad_dtype`, in eager mode. `numerics`, `precision`: as for `matmul`.

    Raises LaunchError for tensors that do not fit or an unknown activation.
    """
    known = activation_named(activation)
    given = x
    x, second = in_region(x, weight)
    rows = x.unsqueeze(0) if x.dim() == 1 else x
    operands = [] if bias is None else [bias]
    records = records_gradient((x, weight, *operands))
    fused = None if records or x.dtype == torch.float64 else activation
    text = text_of_linear(fused, x.dtype, second.dtype, None if bias is None else bias.dtype)
    how = How((), text, numerics, precision_in_region(precision, given, x))
    if records and second is weight and _asks_for_another_type(weight):
        d = Gemm.apply(rows, weight, *operands, how, True)
    else:
        d = multiply(rows, second.mT, operands, how)
    d = d.squeeze(0) if x.dim() == 1 else d
    return d if known is None or fused is not None else known.in_torch(d)


def _asks_for_another_type(weight: torch.Tensor) -> bool:
    """Whether the gradient of a weight should have another type than the weight; only leaves can ask for it."""
    if torch.compiler.is_compiling() or not (weight.requires_grad and weight.is_leaf):
        return False
    return getattr(weight, "grad_dtype", None) not in (None, weight.dtype)
