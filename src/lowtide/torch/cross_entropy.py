"""`lowtide.torch.linear_cross_entropy`: the cross entropy of a projection, whose logits are never in memory as a whole.

The forward pass is one product with two reductions as results: the log-sum-exp of each row of logits, and the logit of
its target. The backward pass works on chunks of rows. For each chunk, one product computes the logits again, and its
epilogue turns them into their gradient, rounded to the type of x. Two more products give the gradients of x and of the
weight.

The backward pass takes memory for the gradient of the logits of a chunk, `chunk_rows` × V elements, and, with more than
one chunk, for the gradient of the weight in f32, V × K × 4 bytes, to which the chunks are added.
"""

from typing import Any

import torch

from lowtide.compiler.epilogue.backward import logits_gradient, row_losses
from lowtide.compiler.epilogue.operands import Full
from lowtide.errors import LaunchError
from lowtide.torch.autocast import in_region
from lowtide.torch.results import by_rows, multiplied, results

_CHUNK_BYTES = 1 << 28  # of the gradient of logits
_ROWS_OF_TILES = 128
_REDUCTIONS = ("mean", "sum", "none")


@torch.compiler.disable  # specs are traced by calling Python functions, which Dynamo cannot record
def linear_cross_entropy(
    x: torch.Tensor,
    weight: torch.Tensor,
    target: torch.Tensor,
    *,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
    chunk_rows: int | None = None,
) -> torch.Tensor:
    """torch.nn.functional.cross_entropy(x · weightᵀ, target), with gradients. Takes x (…, K), `weight` (V, K), and
    `target` (…) of integers. Returns an f32 scalar, or f32 (…) with `reduction="none"`.

    Rows whose target is `ignore_index` have the loss 0 and no gradient, and do not count in the mean. For another
    target outside of 0 … V − 1, the loss of the row is NaN, and so are the gradients that depend on it; nothing outside
    of the matrices is read. `chunk_rows`: the number of rows whose logits the backward pass holds at a time; by default
    the largest multiple of 128 for which they take at most 256 MiB, but at least 128. Types are f32, f16 and bf16.
    There are no gradients of gradients. torch.compile breaks its graph at the call.

    Raises LaunchError for tensors that do not fit, another reduction, and label smoothing; SpecError for f64.
    """
    if label_smoothing != 0.0:
        raise LaunchError(
            f"label_smoothing={label_smoothing} is not supported; pass 0, or call torch.nn.functional.cross_entropy on"
            " the logits [cross-entropy-smoothing]"
        )
    if reduction not in _REDUCTIONS:
        raise LaunchError(f"reduction={reduction!r}; take one of {', '.join(_REDUCTIONS)} [cross-entropy-reduction]")
    x, weight = in_region(x, weight)
    _check(x, weight, target)
    rows, classes = x.reshape(-1, x.shape[-1]), target.reshape(-1)
    chunk = _default_chunk(weight) if chunk_rows is None else chunk_rows
    if chunk < 1:
        raise LaunchError(f"chunk_rows={chunk_rows}; it must be at least 1 [cross-entropy-chunk]")
    losses: torch.Tensor = _RowLosses.apply(rows, weight, classes, ignore_index, chunk)
    if reduction == "none":
        return losses.reshape(target.shape)
    return losses.sum() if reduction == "sum" else losses.sum() / (classes != ignore_index).sum()


def _default_chunk(weight: torch.Tensor) -> int:
    rows = _CHUNK_BYTES // (weight.shape[0] * weight.element_size())
    return max(_ROWS_OF_TILES, rows // _ROWS_OF_TILES * _ROWS_OF_TILES)


def _check(x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor) -> None:
    fits = x.dim() > 0 and weight.dim() == 2 and x.shape[-1] == weight.shape[1] and target.shape == x.shape[:-1]
    if not fits or 0 in (*x.shape, *weight.shape):
        raise LaunchError(
            f"x {tuple(x.shape)}, weight {tuple(weight.shape)} and target {tuple(target.shape)}: pass x (…, K), weight"
            " (V, K) and target (…), none of them empty [cross-entropy-shapes]"
        )
    is_integer = not target.dtype.is_floating_point and not target.dtype.is_complex and target.dtype is not torch.bool
    if {weight.device, target.device} != {x.device} or weight.dtype != x.dtype or not is_integer:
        raise LaunchError(
            f"x is {x.dtype} on {x.device}, weight {weight.dtype} on {weight.device}, target {target.dtype} on"
            f" {target.device}; x and weight must have the same type, target must be of integers, and all must be on"
            " one device: convert or move them [cross-entropy-types]"
        )


class _RowLosses(torch.autograd.Function):
    """The losses of rows, (M,) f32."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, target: torch.Tensor, ignore_index: int, chunk: int
    ) -> torch.Tensor:
        inside = (target >= 0) & (target < weight.shape[0])
        column = torch.where(inside, target, -1).to(torch.int32)
        found = results(by_rows(x), by_rows(weight), row_losses, {"target": column})
        nan = torch.full_like(found["lse"], torch.nan)
        losses = torch.where(inside, found["lse"] - found["wanted"], nan)
        ctx.save_for_backward(x, weight, target, column, found["lse"])
        ctx.ignore_index, ctx.chunk = ignore_index, chunk
        return torch.where(target == ignore_index, 0.0, losses)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        x, weight, target, column, lse = ctx.saved_tensors
        scale = torch.where(column >= 0, gradient.float(), torch.nan)
        ignored = target == ctx.ignore_index
        # For an ignored row, lse is set to inf: its own value may be NaN, and 0 · NaN is not 0.
        per_row = (torch.where(ignored, torch.inf, lse), torch.where(ignored, 0.0, scale), column)
        dx, dweight = _gradients(x, weight, per_row, ctx.chunk, ctx.needs_input_grad[:2])
        return dx, dweight, None, None, None


def _gradients(
    x: torch.Tensor,
    weight: torch.Tensor,
    per_row: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    chunk: int,
    needed: tuple[bool, ...],
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """The gradients of x (M, K) and of the weight (V, K); None for those that are not `needed`. `per_row`: lse, scale
    and target, each (M,). `chunk`: the number of rows of a chunk."""
    (m, k), v = x.shape, weight.shape[0]
    of_x, of_weight = needed
    is_one = chunk >= m
    columns = torch.arange(v, dtype=torch.int32, device=x.device)
    dx = x.new_empty(m, k) if of_x else None
    dweight = weight.new_empty(v, k, dtype=weight.dtype if is_one else torch.float32) if of_weight else None
    logits = x.new_empty(min(chunk, m), v)
    for first in range(0, m, chunk):
        part = slice(first, min(first + chunk, m))
        lse, scale, target = (values[part] for values in per_row)
        dlogits = multiplied(
            x[part],
            weight.mT,
            logits_gradient,
            logits[: part.stop - first],
            lse=lse,
            scale=scale,
            target=target,
            column=columns,
        )
        if dx is not None:
            multiplied(dlogits, weight, out=dx[part])
        if dweight is not None and first == 0:
            multiplied(dlogits.mT, x[part], out=dweight)
        elif dweight is not None:
            multiplied(dlogits.mT, x[part], _added, dweight, c=dweight)
    return dx, None if dweight is None else dweight.to(weight.dtype)


def _added(acc: Any, c: Full) -> Any:
    return acc + c
