"""Computes a call by the kernels or by the plain ops, without gradients, on A and B of two dimensions."""

from collections.abc import Callable, Sequence
from typing import Any

import torch

from lowtide.errors import Error, LaunchError
from lowtide.torch.calls import How, d_type
from lowtide.torch.calls import check as check_operands
from lowtide.torch.distributed import plain
from lowtide.torch.distributed.agreement import Signature, why_plain
from lowtide.torch.distributed.gathering import Gathering
from lowtide.torch.distributed.ranks import Ranks, is_capturing
from lowtide.torch.distributed.scattering import Scattering

GATHER, SCATTER, REDUCE = "all_gather_matmul", "matmul_reduce_scatter", "matmul_all_reduce"
_PLAIN: dict[str, Callable[..., None]] = {
    GATHER: plain.all_gather_matmul,
    SCATTER: plain.matmul_reduce_scatter,
    REDUCE: plain.matmul_all_reduce,
}


def rows_of_d(op: str, rows: int, ranks: Ranks) -> int:
    """The number of rows of D on a rank, if A has `rows`. Raises LaunchError if ranks cannot have equal shares."""
    if op == GATHER:
        return rows * ranks.size
    if op == SCATTER and rows % ranks.size:
        raise LaunchError(
            f"operand a: {rows} rows are no multiple of the {ranks.size} ranks, which get equal shares; pad A"
            " [ranks-rows]"
        )
    return rows // ranks.size if op == SCATTER else rows


def compute(
    op: str,
    a: torch.Tensor,
    b: torch.Tensor,
    operands: Sequence[torch.Tensor],
    how: How,
    ranks: Ranks,
    out: torch.Tensor | None,
) -> torch.Tensor:
    """D of an op, for A (rows, K) and B (K, N). Raises the same LaunchError on all ranks if the arguments of any rank
    do not fit."""
    asked = _signature(op, a, b, operands, how, out)
    if asked not in ranks.agreed and is_capturing(a.device):
        raise LaunchError(
            f"{op}: ranks agree on new shapes outside of a CUDA graph; make such a call once before the capture"
            " [ranks-capture]"
        )
    reason = why_plain(ranks, a.device, asked, lambda: _check(op, a, b, operands, how, ranks, out))
    d = d_type(a, b, how)
    if out is None:
        out = a.new_empty(rows_of_d(op, a.shape[0], ranks), b.shape[1], dtype=d)
    if reason:
        _PLAIN[op](a, b, operands, how, out, ranks)
    else:
        _by_kernels(op, a, b, operands, how, ranks, out)
    return out


def _signature(
    op: str,
    a: torch.Tensor,
    b: torch.Tensor,
    operands: Sequence[torch.Tensor],
    how: How,
    out: torch.Tensor | None,
) -> Signature:
    of_out = None if out is None else (out.shape, out.stride(), out.dtype)
    rest = a.device, tuple((x.shape, x.dtype, x.device) for x in operands), of_out
    words = how.epilogue, len(how.scalars), how.numerics, how.out_dtype
    try:
        d = d_type(a, b, how)
    except Error:  # `_check` raises it, on all ranks
        d = a.dtype
    return Signature(op, tuple(a.shape), tuple(b.shape), (a.dtype, b.dtype, d), (*rest, *words))


def _by_kernels(
    op: str,
    a: torch.Tensor,
    b: torch.Tensor,
    operands: Sequence[torch.Tensor],
    how: How,
    ranks: Ranks,
    out: torch.Tensor,
) -> None:
    if op == GATHER:
        _engine(ranks, Gathering, a.device).run(a, b, operands, how, out)
        return
    scattering = _engine(ranks, Scattering, a.device)
    if op == SCATTER:
        scattering.run(a, b, operands, how, out)
        return
    _, own = plain.shares(out.shape[0], ranks)
    scattering.run(a, b, plain.rows_of(operands, how, own), how, out[own])
    plain.gather_rows(out, out[own], ranks)


def check(ranks: Ranks) -> None:
    """Waits for all calls of this rank. Raises LaunchError if another rank was late."""
    for engine in ranks.engines.values():
        engine.exchange.check()


def _engine(ranks: Ranks, make: Callable[[Ranks, torch.device], Any], device: torch.device) -> Any:
    key = make, device
    if key not in ranks.engines:
        ranks.engines[key] = make(ranks, device)
    return ranks.engines[key]


def _check(
    op: str,
    a: torch.Tensor,
    b: torch.Tensor,
    operands: Sequence[torch.Tensor],
    how: How,
    ranks: Ranks,
    out: torch.Tensor | None,
) -> None:
    """Raises LaunchError or SpecError if the arguments of this rank do not fit."""
    if not a.is_floating_point() or not b.is_floating_point():
        raise LaunchError(
            f"operands a and b: {a.dtype} and {b.dtype} are not summed over ranks; take floats [ranks-types]"
        )
    rows = rows_of_d(op, a.shape[0], ranks)
    like = a.new_empty(1).as_strided((rows, a.shape[1]), (0, 0))
    shape, d = check_operands(like, b, operands, how), d_type(a, b, how)
    if out is None:
        return
    if (tuple(out.shape), out.device, out.dtype) != (shape, a.device, d) or not out.is_contiguous():
        raise LaunchError(
            f"out: {tuple(out.shape)} {out.dtype} on {out.device}; it must be contiguous, {shape} {d} on {a.device}"
            " [ranks-out]"
        )
