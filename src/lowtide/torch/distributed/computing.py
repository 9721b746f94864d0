"""Computes a call by the kernels or by the plain ops, without gradients, on A and B of two dimensions."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from lowtide.errors import Error, LaunchError
from lowtide.torch.calls import check as check_operands
from lowtide.torch.distributed import plain
from lowtide.torch.distributed.agreement import Signature, why_plain
from lowtide.torch.distributed.call import GATHER, REDUCE, SCATTER, Call, rows_of
from lowtide.torch.distributed.gathering import Gathering
from lowtide.torch.distributed.ranks import Ranks, is_capturing
from lowtide.torch.distributed.scattering import Scattering

_PLAIN: dict[str, Callable[..., torch.Tensor | None]] = {
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


def compute(call: Call, ranks: Ranks) -> torch.Tensor:
    """D of a call. Raises the same LaunchError on all ranks if the arguments of any rank do not fit."""
    return compute_both(call, ranks)[0]


def compute_both(call: Call, ranks: Ranks) -> tuple[torch.Tensor, torch.Tensor | None]:
    """As `compute`, with the gathered rows of A if the call keeps them."""
    asked, device = _signature(call), call.a.device
    if asked not in ranks.agreed and is_capturing(device):
        raise LaunchError(
            f"{call.op}: ranks agree on new shapes outside of a CUDA graph; make such a call once before the capture"
            " [ranks-capture]"
        )
    reason = why_plain(ranks, device, asked, lambda: _check(call, ranks))
    out, rows = call.out, rows_of_d(call.op, call.a.shape[0], ranks)
    if out is None:
        out = call.a.new_empty(rows, call.b.shape[1], dtype=call.d)
    kept = _PLAIN[call.op](call, out, ranks) if reason else _by_kernels(call, out, ranks)
    return out, kept


def _signature(call: Call) -> Signature:
    a, b, how, out = call.a, call.b, call.how, call.out
    of_out = None if out is None else (out.shape, out.stride(), out.dtype)
    rest = a.device, tuple((x.shape, x.dtype, x.device) for x in call.operands), of_out
    words = how.epilogue, len(how.scalars), how.numerics, how.precision, how.out_dtype, call.of_parts
    try:
        d = call.d
    except Error:  # `_check` raises it, on all ranks
        d = a.dtype
    return Signature(call.op, tuple(a.shape), tuple(b.shape), (a.dtype, b.dtype, d), (*rest, *words))


def _by_kernels(call: Call, out: torch.Tensor, ranks: Ranks) -> torch.Tensor | None:
    if call.op == GATHER:
        kept: torch.Tensor | None = _engine(ranks, Gathering, call.a.device).run(call, out)
        return kept
    scattering = _engine(ranks, Scattering, call.a.device)
    if call.op == SCATTER:
        scattering.run(call, out)
        return None
    _, own = plain.shares(out.shape[0], ranks)
    of_rows = call if call.of_parts else replace(call, operands=rows_of(call.operands, call.how, own))
    scattering.run(of_rows, out[own])
    plain.gather_rows(out, out[own], ranks)
    return None


def check(ranks: Ranks) -> None:
    """Waits for all calls of this rank. Raises LaunchError if another rank was late."""
    for engine in ranks.engines.values():
        engine.exchange.check()


def _engine(ranks: Ranks, make: Callable[[Ranks, torch.device], Any], device: torch.device) -> Any:
    key = make, device
    if key not in ranks.engines:
        ranks.engines[key] = make(ranks, device)
    return ranks.engines[key]


def _check(call: Call, ranks: Ranks) -> None:
    """Raises LaunchError or SpecError if the arguments of this rank do not fit."""
    a, b, out = call.a, call.b, call.out
    if not a.is_floating_point() or not b.is_floating_point():
        raise LaunchError(
            f"operands a and b: {a.dtype} and {b.dtype} are not summed over ranks; take floats [ranks-types]"
        )
    rows = rows_of_d(call.op, a.shape[0], ranks)
    rows = a.shape[0] if call.of_parts else rows
    like = a.new_empty(1).as_strided((rows, a.shape[1]), (0, 0))
    shape, d = check_operands(like, b, call.operands, call.how), call.d
    if out is None:
        return
    if (tuple(out.shape), out.device, out.dtype) != (shape, a.device, d) or not out.is_contiguous():
        raise LaunchError(
            f"out: {tuple(out.shape)} {out.dtype} on {out.device}; it must be contiguous, {shape} {d} on {a.device}"
            " [ranks-out]"
        )
