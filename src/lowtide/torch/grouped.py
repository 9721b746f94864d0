"""`lowtide.torch.grouped_matmul`: products of groups as a custom op, with a fake implementation and gradients.

    grouped_gemm(Tensor a, Tensor b, Tensor ends, ScalarType? out_dtype, Tensor? a_rows=None, Tensor? d_rows=None,
                 SymInt? rows=None, Tensor? weight=None) -> Tensor

With A (rows, K) and B (groups, K, N), rows are grouped, and D is (rows, N). With A (M, K) and B (K, N), K is grouped,
and D is (groups, M, N). With A (groups, rows, K), groups are padded, D is (groups, rows, N), and `ends` has the counts
of rows. Groups and `ends` are those of `lt.grouped_matmul`, but rows of D that belong to no group are 0. If no kernel
can read a tensor as it lies, it is copied first. On the CPU, torch multiplies the groups one by one.

Gradients are products of groups with the same ends. If rows are grouped, dA is a product with groups of rows, and dB is
one with groups of K. If K is grouped, dA and dB are products with groups of rows. If groups are padded, dA is a product
with the same counts, and dB is a batch of products of A and dD with zeros in the rows that do not count. dD, the
gradient of D, is rounded to A's type before it is multiplied.

With `a_rows` the kernel gathers the rows of A, and with `d_rows` it scatters the rows of the product. In the backward
pass, the kernel of dA gathers the rows of dD at `d_rows`. If a row of A was gathered several times, its gradients are
added in f32, or f64 for f64, in a fixed order (`lowtide.torch.rows`). Groups of K take no index, so torch gathers the
rows for dB. `weight` scales the rows of the product. The gradient of a weight is the dot product of a row of A and its
row of dA before scaling, so it needs no other product.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.utils.flop_counter import register_flop_formula

from lowtide.compiler.epilogue.operands import OperandKind, OperandType
from lowtide.compiler.matmul.grouped import grouped_matmul as multiply_groups
from lowtide.errors import LaunchError
from lowtide.torch.autocast import in_region
from lowtide.torch.calls import How, default_type, sums_type
from lowtide.torch.dispatch import records_gradient
from lowtide.torch.dtypes import dtype_of
from lowtide.torch.grouped_arguments import At, check
from lowtide.torch.grouped_evaluation import multiply_by_torch
from lowtide.torch.ops import LIBRARY, gemm
from lowtide.torch.rows import add_rows, rows_at

LIBRARY.define(
    "grouped_gemm(Tensor a, Tensor b, Tensor ends, ScalarType? out_dtype, Tensor? a_rows=None, Tensor? d_rows=None,"
    " SymInt? rows=None, Tensor? weight=None) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)


def grouped_matmul(
    a: torch.Tensor,
    b: torch.Tensor,
    ends: torch.Tensor | None = None,
    *,
    counts: torch.Tensor | None = None,
    a_rows: torch.Tensor | None = None,
    d_rows: torch.Tensor | None = None,
    rows: int | None = None,
    weight: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> torch.Tensor:
    """Products of groups, for autograd, autocast and torch.compile.

    With B (groups, K, N), each group of rows of A (rows, K) is multiplied by its own matrix of B: D is (rows, N). With
    B (K, N), K is in groups: D (groups, M, N) has the product of A (M, K) and B over the K of each group.

    `ends`: int32 (groups,), on the device of A and B. Group g consists of the rows, or of the elements of K, from
    `ends[g - 1]` (0 for the first group) to `ends[g] - 1`. Rows of D that belong to no group are 0. The matrix of D for
    an empty group of K is 0. `counts`: int32 (groups,), in place of `ends`, for padded groups: A (groups, rows, K), B
    (groups, K, N) and D (groups, rows, N). Group g has the first `counts[g]` of its rows. The other rows of D are 0,
    and those of A are not used. `a_rows`: int32 (R,). Row i of the product, of R rows, is computed from row `a_rows[i]`
    of A, or from zeros if A has no such row. `d_rows`: int32 (R,), with `rows`, the number of rows of D. Row i of the
    product is stored into row `d_rows[i]` of D (rows, N), or nowhere if D has no such row. The elements that name rows
    of D must be different. Other rows of D are 0. `weight`: floats (R,), which scale the rows of the product. `routes`
    gives `ends`, `a_rows` and `d_rows`. `out_dtype`: D's type, by default that of A (bf16 for 8-bit floats, s32 for
    integers).

    Raises LaunchError for tensors that do not fit.
    """
    a, b = in_region(a, b)
    if (ends is None) == (counts is None) or (counts is None) == (a.dim() == 3):
        raise LaunchError(
            f"a has {a.dim()} dimensions, and {'no ' if ends is None else ''}ends and {'no ' if counts is None else ''}"
            "counts are given; pass ends for a (rows, K), or counts for a (groups, rows, K) [torch-ends-or-counts]"
        )
    each = ends if counts is None else counts
    found: torch.Tensor = grouped_gemm(a, b, each, out_dtype, a_rows, d_rows, rows, weight)
    return found


_ROW = OperandType(OperandKind.PER_ROW, "f32")  # as PerRow["f32"], which mypy does not know
_ROW_F64 = OperandType(OperandKind.PER_ROW, "f64")


def _weighted(acc: Any, weight: _ROW) -> Any:  # type: ignore[valid-type]
    return weight * acc


def _weighted_f64(acc: Any, weight: _ROW_F64) -> Any:  # type: ignore[valid-type]
    return weight * acc


def _sums(a: torch.Tensor, b: torch.Tensor) -> torch.dtype:
    """The type that the epilogue computes in: f64 for products of f64, else f32."""
    return torch.float64 if dtype_of(sums_type(a.dtype, b.dtype)) is torch.float64 else torch.float32


def _grouped(
    a: torch.Tensor, b: torch.Tensor, ends: torch.Tensor, out_dtype: torch.dtype | None = None, *rest: Any
) -> torch.Tensor:
    at = At(*rest)
    out = empty_or_zeros((check(a, b, ends, at), out_dtype or default_type(a.dtype, b.dtype)), a, b)
    if 0 in (a.numel(), b.numel(), out.numel(), *(each.numel() for each in at.tensors.values())):
        return out
    if a.device.type == "cuda":
        more: dict[str, Any] = {name: each.contiguous() for name, each in at.tensors.items()}
        if at.weight is not None:
            wide = _sums(a, b)
            more["weight"] = more["weight"].to(wide)
            more["epilogue"] = _weighted_f64 if wide is torch.float64 else _weighted
        with torch.no_grad():
            more |= {"counts" if a.dim() == 3 else "ends": ends.contiguous()}
            multiply_groups(*readable(a, b), out=out, **more)
    elif a.device.type == "cpu":
        multiply_by_torch(a, b, ends, at, out)
    else:
        raise LaunchError(
            f"a is on {a.device}; tensors must be on an NVIDIA GPU or on the CPU: move them [torch-groups-gpu]"
        )
    return out


def empty_or_zeros(like: tuple[Sequence[int], torch.dtype], a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """A new D of the shape and type `like`, on the device of A. It is not initialized if K is grouped, A is on a GPU,
    and A and B have elements: the kernel then writes all of D. Otherwise it has zeros: no kernel writes rows of D that
    belong to no group."""
    is_written = a.is_cuda and b.dim() == 2 and 0 not in (*a.shape, *b.shape)
    shape, dtype = like
    return a.new_empty(shape, dtype=dtype) if is_written else a.new_zeros(shape, dtype=dtype)


def readable(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A and B, copied if no kernel can read them as they lie."""
    if b.dim() == 2:  # groups are rows of aᵀ and of b
        return _by_rows(a.mT).mT, _by_rows(b)
    return _by_rows(a), b if 1 in b.stride()[-2:] else b.contiguous()


def _by_rows(x: torch.Tensor) -> torch.Tensor:
    return x if x.stride(-1) == 1 and x.stride(-2) >= x.shape[-1] else x.contiguous()


def _fake(
    a: torch.Tensor, b: torch.Tensor, ends: torch.Tensor, out_dtype: torch.dtype | None = None, *rest: Any
) -> torch.Tensor:
    return a.new_empty(check(a, b, ends, At(*rest)), dtype=out_dtype or default_type(a.dtype, b.dtype))


LIBRARY.impl("grouped_gemm", _grouped, "CompositeExplicitAutograd")
torch.library.register_fake("lowtide::grouped_gemm", _fake, lib=LIBRARY)

#: The op as a function, with the arguments of its schema.
grouped_gemm = torch.ops.lowtide.grouped_gemm.default


class _Grouped(torch.autograd.Function):
    """`lowtide::grouped_gemm` with its derivative."""

    @staticmethod
    def forward(*arguments: Any) -> torch.Tensor:
        with torch._C._AutoDispatchBelowAutograd():
            found: torch.Tensor = grouped_gemm(*arguments)
            return found

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
        a, b, ends, _, *rest = inputs
        if any(x.requires_grad and x.dtype.itemsize < 2 for x in (a, b)):
            raise LaunchError("8-bit floats have no gradients; convert a and b to bf16 first [torch-groups-narrow]")
        at = At(*rest)
        ctx.save_for_backward(a, b, ends, at.a_rows, at.d_rows, at.weight)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        a, b, ends, a_rows, d_rows, weight = ctx.saved_tensors
        of_a, of_b, *_, of_weight = ctx.needs_input_grad
        gradient, da, db, dw = gradient.to(a.dtype), None, None, None
        if b.dim() == 2:
            da = grouped_gemm(b, gradient.mT, ends, a.dtype).mT if of_a else None
            db = grouped_gemm(a.mT, gradient, ends, b.dtype) if of_b else None
            return da, db, *[None] * 6
        if a.dim() == 3:
            da = grouped_gemm(gradient, b.mT, ends, a.dtype) if of_a else None
            db = _of_padded(a, gradient, ends, b.dtype) if of_b else None
            return da, db, *[None] * 6
        if of_a or of_weight:
            da, dw = _of_rows(gradient, (a, b, ends), At(a_rows, d_rows, None, weight), of_weight)
        if of_b:
            scaled = rows_at(gradient, d_rows)
            scaled = scaled if weight is None else (scaled * weight[:, None].to(_sums(a, b))).to(a.dtype)
            db = grouped_gemm(rows_at(a, a_rows).mT, scaled, ends, b.dtype)
        return da if of_a else None, db, *[None] * 5, dw


def _of_rows(
    gradient: torch.Tensor, inputs: tuple[torch.Tensor, torch.Tensor, torch.Tensor], at: At, of_weight: bool
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The gradients of A and, if it is wanted, of the weights."""
    (a, b, ends), wide = inputs, _sums(inputs[0], inputs[1])
    taken = None if of_weight else at.weight
    dtype = wide if of_weight or at.a_rows is not None else a.dtype
    found: torch.Tensor = grouped_gemm(gradient, b.mT, ends, dtype, at.d_rows, None, None, taken)
    dw = None
    if of_weight and at.weight is not None:
        dw = (found * rows_at(a, at.a_rows)).sum(-1).to(at.weight.dtype)
        found = found * at.weight[:, None].to(wide)
    if at.a_rows is not None:
        found = add_rows(found, at.a_rows, a.shape[0])
    return found.to(a.dtype), dw


def _of_padded(a: torch.Tensor, gradient: torch.Tensor, counts: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """The gradient of B. Rows that do not count may have any values, so they are replaced by zeros."""
    counted = (torch.arange(a.shape[1], device=a.device) < counts[:, None])[..., None]
    of_a, of_d = (torch.where(counted, x, 0) for x in (a, gradient))
    found: torch.Tensor = gemm(of_a.mT, of_d, [], *How(out_dtype=dtype))
    return found


def _differentiable(
    a: torch.Tensor, b: torch.Tensor, ends: torch.Tensor, out_dtype: torch.dtype | None = None, *rest: Any
) -> torch.Tensor:
    at = At(*rest)
    if records_gradient((a, b) if at.weight is None else (a, b, at.weight)):
        found: torch.Tensor = _Grouped.apply(a, b, ends, out_dtype, *at)
        return found
    with torch._C._AutoDispatchBelowAutograd():
        below: torch.Tensor = grouped_gemm(a, b, ends, out_dtype, *at)
        return below


LIBRARY.impl("grouped_gemm", _differentiable, "Autograd")


def _flops(
    a: Any, b: Any, ends: Any, dtype: Any = None, a_rows: Any = None, *rest: Any, out_shape: Any, **keywords: Any
) -> int:
    """The operations for all rows, or for all K: only the device knows how many are in groups."""
    *rows, k = a if a_rows is None else (a_rows[0], a[1])
    return 2 * math.prod(map(int, rows)) * int(k) * int(b[-1])


register_flop_formula(torch.ops.lowtide.grouped_gemm)(_flops)
