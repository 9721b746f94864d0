"""`all_gather_matmul`, `matmul_reduce_scatter` and `matmul_all_reduce`, with epilogues and gradients.

The gradients are products with collectives, too. dA of `all_gather_matmul` is a `matmul_reduce_scatter` of dD and Bᵀ;
dA of `matmul_reduce_scatter` is an `all_gather_matmul` of them. dB needs the gathered rows of A or of dD.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import torch
import torch.distributed as dist

from lowtide.compiler.spec_fields import check_word
from lowtide.errors import LaunchError
from lowtide.torch.autograd import multiply
from lowtide.torch.calls import How, read
from lowtide.torch.dispatch import records_gradient
from lowtide.torch.distributed import agreement
from lowtide.torch.distributed.call import GATHER, REDUCE, SCATTER, Call, chunks
from lowtide.torch.distributed.computing import check, compute, compute_both
from lowtide.torch.distributed.plain import gathered
from lowtide.torch.distributed.ranks import Ranks, ranks_of
from lowtide.torch.distributed.scales import SCALE_A, SCALE_B, with_scales
from lowtide.torch.distributed.sending import SENDERS
from lowtide.torch.evaluation import evaluate
from lowtide.torch.functional import described


@torch.compiler.disable
def all_gather_matmul(
    a: torch.Tensor,
    b: torch.Tensor,
    group: dist.ProcessGroup | None = None,
    *,
    rows: Sequence[int] | None = None,
    epilogue: Callable[..., Any] | None = None,
    out: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    numerics: str = "repeatable",
    scale_a: torch.Tensor | None = None,
    scale_b: torch.Tensor | None = None,
    sender: str | None = None,
    **operands: Any,
) -> torch.Tensor:
    """D (ranks · S, …, N) = epilogue(A of all ranks · B (K, N)), where each rank has the rows A (S, …, K).

    `rows`: the first extent of A on each rank; all ranks give the same list, and its sum is the first extent of D.
    None: A has S rows on every rank. `group`: a process group of torch.distributed; None: the default group. A and B
    have floating-point types. B may differ between ranks, also in N: for instance, each rank has some columns of a
    weight. Operands, `out_dtype` and `numerics` are as in `lowtide.torch.matmul`, for this D; `out` must be contiguous.
    The kernel multiplies the rows that are there while others arrive. The gradient of A is summed over all ranks.

    `scale_a`: f32 (S, …), a scale for each row of this rank's A; it is gathered too. `scale_b`: f32 (N,), a scale for
    each column of B. The sums are multiplied by them in f32, before the epilogue. They are meant for A and B of e4m3.
    The error bound is that of one product with such an epilogue (`lt.error_bound`). No gradient is recorded with
    `scale_a`.

    `sender`: who sends this rank's rows to the others: `"copy_engine"`, or `"kernel"`, before it multiplies. None: the
    kernel if the rows of the rank with the most rows have at most 1 MiB, otherwise the copy engine. Ranks may give
    different values. `sender` has no effect on calls that take the plain ops (`report`).

    All ranks must call it, with the same K, the same types of A and D, and the same S unless `rows` is given. Raises
    LaunchError on all ranks if they disagree or a rank's tensors do not fit, and SpecError for an epilogue that cannot
    be traced and for an unknown `sender`. A later call, or `check_ranks`, raises LaunchError if a rank was late.
    """
    if sender is not None:
        check_word("sender", "sender", sender, SENDERS)
    scaled, operands = with_scales(epilogue, operands, {SCALE_A: scale_a, SCALE_B: scale_b})
    own = None if scale_a is None else SCALE_A
    return _call(GATHER, a, b, group, (scaled, out, out_dtype, numerics, operands), rows, (own, sender))


@torch.compiler.disable
def matmul_reduce_scatter(
    a: torch.Tensor,
    b: torch.Tensor,
    group: dist.ProcessGroup | None = None,
    *,
    rows: Sequence[int] | None = None,
    epilogue: Callable[..., Any] | None = None,
    out: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    numerics: str = "repeatable",
    **operands: Any,
) -> torch.Tensor:
    """D (M / ranks, …, N) = epilogue(this rank's rows of the sum over ranks of A (M, …, K) · B (K, N)).

    Rank r gets the r-th share of the rows, which has `rows[r]` rows. All ranks give the same list, and its sum is M.
    None: M is divided as torch.chunk divides it, so the last ranks may have fewer rows, or none. M, B's N, and the
    types of A and D are the same on all ranks; K may differ. Each rank's product is rounded to D's type. The owner of a
    row adds the products in f32, from rank 0 on, so equal calls give equal bits. The epilogue is applied once, to the
    sum. Other arguments and errors are those of `all_gather_matmul`, without scales.
    """
    return _call(SCATTER, a, b, group, (epilogue, out, out_dtype, numerics, operands), rows)


@torch.compiler.disable
def matmul_all_reduce(
    a: torch.Tensor,
    b: torch.Tensor,
    group: dist.ProcessGroup | None = None,
    *,
    epilogue: Callable[..., Any] | None = None,
    out: torch.Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    numerics: str = "repeatable",
    **operands: Any,
) -> torch.Tensor:
    """D (M, …, N) = epilogue(the sum over ranks of A (M, …, K) · B (K, N)), the same on all ranks.

    D is that of a `matmul_reduce_scatter` and an all-gather of its rows. M may be any number. Gradients are not summed
    over ranks: they are right if all ranks compute the same loss from D. Other arguments and errors are those of
    `matmul_reduce_scatter`.
    """
    return _call(REDUCE, a, b, group, (epilogue, out, out_dtype, numerics, operands))


def check_ranks(group: dist.ProcessGroup | None = None) -> None:
    """Waits until the GPU has done this rank's calls. Raises LaunchError if one waited too long for another rank.

    Calls do not wait for the GPU. So a later call raises this error only if the host has the status by then.
    """
    check(ranks_of(group))


def report(group: dist.ProcessGroup | None = None) -> str:
    """A line for each signature of the calls so far: whether all ranks take the kernels, and if not, why."""
    return agreement.report(ranks_of(group))


def _call(
    op: str,
    a: torch.Tensor,
    b: torch.Tensor,
    group: dist.ProcessGroup | None,
    more: tuple[Any, ...],
    of_ranks: Sequence[int] | None = None,
    of_gather: tuple[str | None, str | None] = (None, None),
) -> torch.Tensor:
    """D of a call of `op`. `of_gather`, for an all-gather: the name of the operand with an element for each row of this
    rank's A, which is flattened as A is, and gathered; and who sends the rows of A. Either may be None."""
    (epilogue, out, out_dtype, numerics, given), (own, sender) = more, of_gather
    if a.dim() < 2 or b.dim() != 2:
        raise LaunchError(
            f"operands a and b: shapes {tuple(a.shape)} and {tuple(b.shape)}; a is (rows, …, K) and b (K, N)"
            " [ranks-shapes]"
        )
    ranks, d = ranks_of(group), out_dtype if out is None else out.dtype
    given = given if own is None else given | {own: given[own].flatten()}
    text, operands, scalars = described(a, b, d, epilogue, given)
    how, rows = How(scalars, text, numerics, None, d), a.flatten(0, -2)
    inner = a.shape[1:-1]
    asked = read(text)
    gathers = None if own is None or asked is None else asked.names.index(own)
    if of_ranks is None and op == SCATTER and a.shape[0] % ranks.size:
        of_ranks = chunks(a.shape[0], ranks.size)  # of M, not of all flattened rows
    of_ranks = tuple(each * prod(inner) for each in of_ranks or ())
    call = Call(op, rows, b, operands, how, rows=of_ranks, gathered=gathers, inner=max(prod(inner), 1), sender=sender)
    if not records_gradient((a, b, *operands)):
        flat = out.flatten(0, -2) if out is not None and out.dim() > 1 and out.is_contiguous() else out
        found = compute(replace(call, out=flat), ranks)
        return found.unflatten(0, (found.shape[0] // max(prod(inner), 1), *inner)) if out is None else out
    if out is not None:
        raise LaunchError(
            "out: autograd does not record a call with out=; call it under torch.no_grad(), or without [ranks-autograd]"
        )
    if gathers is not None:
        raise LaunchError(
            "scale_a: gradients are not recorded with scales of rows; call it under torch.no_grad(), or convert A"
            " [ranks-scales-autograd]"
        )
    alone = How((), "", numerics, None, d if asked is None else asked.d)
    product = _Product.apply(rows, b, replace(call, operands=(), how=alone), ranks)
    found = product if asked is None else evaluate(asked, product, operands, scalars)
    return found.unflatten(0, (found.shape[0] // max(prod(inner), 1), *inner))


class _Product(torch.autograd.Function):
    """An op without an epilogue. torch's operations compute the epilogue after it, because their derivatives need the
    sums."""

    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor, call: Call, ranks: Ranks) -> torch.Tensor:
        ctx.save_for_backward(a, b)
        ctx.call, ctx.ranks = replace(call, a=a[:0], b=b[:0]), ranks  # keeps no other reference to the tensors
        ctx.rows = call.shares(ranks.size)
        return compute(replace(call, a=a, b=b), ranks)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
        (a, b), op, ranks = ctx.saved_tensors, ctx.call.op, ctx.ranks
        gradient = gradient.to(a.dtype).contiguous()
        of_a, of_b = (How((), "", ctx.call.how.numerics, None, x.dtype) for x in (a, b))
        needs_a, needs_b = ctx.needs_input_grad[:2]
        da = db = whole = None
        back = {GATHER: SCATTER, SCATTER: GATHER}.get(op)
        if needs_a and back is not None:
            keeps = needs_b and back == GATHER
            da, whole = compute_both(Call(back, gradient, b.mT, how=of_a, rows=ctx.rows, keeps=keeps), ranks)
        elif needs_a:
            da = multiply(gradient, b.mT, [], of_a)
        if needs_b:
            a = gathered(a, ranks, ctx.rows) if op == GATHER else a
            if op == SCATTER:
                gradient = gathered(gradient, ranks, ctx.rows) if whole is None else whole
            db = multiply(a.mT, gradient, [], of_b)
        return da, db, None, None
