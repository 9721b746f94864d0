"""`lowtide.torch.grouped_matmul`: products of groups as a custom op, with a fake implementation and gradients.

    grouped_gemm(Tensor a, Tensor b, Tensor ends, ScalarType? out_dtype) -> Tensor

With A (rows, K) and B (groups, K, N), rows are grouped, and D is (rows, N). With A (M, K) and B (K, N), K is grouped,
and D is (groups, M, N). Groups and `ends` are those of `lt.grouped_matmul`, but rows of D that belong to no group are
0. If no kernel can read a tensor as it lies, it is copied first. Gradients are products of groups with the same ends.
If rows are grouped, dA is a product with groups of rows, and dB is one with groups of K. If K is grouped, dA and dB are
products with groups of rows. The gradient of D is rounded to A's type before it is multiplied. On the CPU, torch
multiplies the groups one by one.
"""

from typing import Any

import torch
from torch.utils.flop_counter import register_flop_formula

from lowtide.compiler.matmul.grouped import grouped_matmul as multiply_groups
from lowtide.errors import LaunchError
from lowtide.torch.autocast import in_region
from lowtide.torch.calls import default_type, sums_type
from lowtide.torch.dispatch import records_gradient
from lowtide.torch.dtypes import name_of
from lowtide.torch.evaluation import product, rounded
from lowtide.torch.ops import LIBRARY

LIBRARY.define(
    "grouped_gemm(Tensor a, Tensor b, Tensor ends, ScalarType? out_dtype) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)


def grouped_matmul(
    a: torch.Tensor, b: torch.Tensor, ends: torch.Tensor, *, out_dtype: torch.dtype | None = None
) -> torch.Tensor:
    """Products of groups, for autograd, autocast and torch.compile.

    With B (groups, K, N), each group of rows of A (rows, K) is multiplied by its own matrix of B: D is (rows, N). With
    B (K, N), K is in groups: D (groups, M, N) has the product of A (M, K) and B over the K of each group.

    `ends`: int32 (groups,), on the device of A and B. Group g consists of the rows, or of the elements of K, from
    `ends[g - 1]` (0 for the first group) to `ends[g] - 1`. Rows of D that belong to no group are 0. The matrix of D for
    an empty group of K is 0.
    `out_dtype`: D's type, by default that of A (bf16 for 8-bit floats, s32 for integers).

    Raises LaunchError for tensors that do not fit.
    """
    a, b = in_region(a, b)
    found: torch.Tensor = grouped_gemm(a, b, ends, out_dtype)
    return found


def _check(a: torch.Tensor, b: torch.Tensor, ends: torch.Tensor) -> tuple[int, ...]:
    """D's shape. Raises LaunchError for tensors that do not fit."""
    if ends.dim() != 1 or ends.dtype is not torch.int32:
        raise LaunchError(
            f"ends is {ends.dtype} of shape {tuple(ends.shape)}; it must be int32 (groups,): convert it [torch-ends]"
        )
    fits = a.dim() == 2 and b.dim() in (2, 3) and a.shape[1] == b.shape[-2]
    if not fits or (b.dim() == 3 and b.shape[0] != ends.shape[0]):
        raise LaunchError(
            f"a of shape {tuple(a.shape)}, b of shape {tuple(b.shape)} and {ends.shape[0]} ends: pass a (rows, K) and b"
            " (groups, K, N), or a (M, K) and b (K, N) [torch-groups]"
        )
    if {b.device, ends.device} != {a.device}:
        raise LaunchError(
            f"a is on {a.device}, b on {b.device} and ends on {ends.device}; move them to one device "
            "[torch-groups-device]"
        )
    return (a.shape[0], b.shape[2]) if b.dim() == 3 else (ends.shape[0], a.shape[0], b.shape[1])


def _grouped(a: torch.Tensor, b: torch.Tensor, ends: torch.Tensor, out_dtype: torch.dtype | None) -> torch.Tensor:
    out = a.new_zeros(_check(a, b, ends), dtype=out_dtype or default_type(a.dtype, b.dtype))
    if a.device.type == "cuda":
        with torch.no_grad():
            multiply_groups(*_readable(a, b), ends.contiguous(), out=out)
    elif a.device.type == "cpu":
        _by_torch(a, b, ends, out)
    else:
        raise LaunchError(
            f"a is on {a.device}; tensors must be on an NVIDIA GPU or on the CPU: move them [torch-groups-gpu]"
        )
    return out


def _readable(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A and B, copied if no kernel can read them as they lie."""
    if b.dim() == 2:  # groups are rows of aᵀ and of b
        return _by_rows(a.mT).mT, _by_rows(b)
    return _by_rows(a), b if b.stride(-1) == 1 or b.stride(-2) == 1 else b.contiguous()


def _by_rows(x: torch.Tensor) -> torch.Tensor:
    return x if x.stride(-1) == 1 and x.stride(-2) >= x.shape[-1] else x.contiguous()


def _by_torch(a: torch.Tensor, b: torch.Tensor, ends: torch.Tensor, out: torch.Tensor) -> None:
    sums, d, k, before = sums_type(a.dtype, b.dtype), name_of(out.dtype), a.shape[1], 0
    for group, given in enumerate(ends.tolist()):
        first = min(max(before, 0), k) if b.dim() == 2 else before
        end = min(max(given, first), k if b.dim() == 2 else a.shape[0])
        if b.dim() == 2:
            out[group] = rounded(product(a[:, first:end], b[first:end], sums), d)
        else:
            out[first:end] = rounded(product(a[first:end], b[group], sums), d)
        before = given if b.dim() == 2 else end


def _fake(a: torch.Tensor, b: torch.Tensor, ends: torch.Tensor, out_dtype: torch.dtype | None) -> torch.Tensor:
    return a.new_empty(_check(a, b, ends), dtype=out_dtype or default_type(a.dtype, b.dtype))


LIBRARY.impl("grouped_gemm", _grouped, "CompositeExplicitAutograd")
torch.library.register_fake("lowtide::grouped_gemm", _fake, lib=LIBRARY)

#: The op as a function, with the arguments of its schema.
grouped_gemm = torch.ops.lowtide.grouped_gemm.default


class _Grouped(torch.autograd.Function):
    """`lowtide::grouped_gemm` with its derivative."""

    @staticmethod
    def forward(a: torch.Tensor, b: torch.Tensor, ends: torch.Tensor, out_dtype: torch.dtype | None) -> torch.Tensor:
        with torch._C._AutoDispatchBelowAutograd():
            found: torch.Tensor = grouped_gemm(a, b, ends, out_dtype)
            return found

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        a, b, ends, _ = inputs
        if any(x.requires_grad and x.dtype.itemsize < 2 for x in (a, b)):
            raise LaunchError("8-bit floats have no gradients; convert a and b to bf16 first [torch-groups-narrow]")
        ctx.save_for_backward(a, b, ends)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        (a, b, ends), (of_a, of_b, *_) = ctx.saved_tensors, ctx.needs_input_grad
        gradient, da, db = gradient.to(a.dtype), None, None
        if b.dim() == 3:
            da = grouped_gemm(gradient, b.mT, ends, a.dtype) if of_a else None
            db = grouped_gemm(a.mT, gradient, ends, b.dtype) if of_b else None
        else:
            da = grouped_gemm(b, gradient.mT, ends, a.dtype).mT if of_a else None
            db = grouped_gemm(a.mT, gradient, ends, b.dtype) if of_b else None
        return da, db, None, None


def _differentiable(
    a: torch.Tensor, b: torch.Tensor, ends: torch.Tensor, out_dtype: torch.dtype | None
) -> torch.Tensor:
    if records_gradient((a, b)):
        found: torch.Tensor = _Grouped.apply(a, b, ends, out_dtype)
        return found
    with torch._C._AutoDispatchBelowAutograd():
        below: torch.Tensor = grouped_gemm(a, b, ends, out_dtype)
        return below


LIBRARY.impl("grouped_gemm", _differentiable, "Autograd")


def _flops(a: Any, b: Any, *rest: Any, out_shape: Any, **keywords: Any) -> int:
    """The operations for all rows, or for all K: only the device knows how many are in groups."""
    return 2 * int(a[0]) * int(a[1]) * int(b[-1])


register_flop_formula(torch.ops.lowtide.grouped_gemm)(_flops)
