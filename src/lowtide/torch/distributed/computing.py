"""Computes a call by the kernels or by the plain ops, without gradients, on A and B of two dimensions."""

from collections.abc import Callable
from typing import Any

import torch

from lowtide.errors import Error, LaunchError
from lowtide.torch.calls import check as check_operands
from lowtide.torch.distributed import plain
from lowtide.torch.distributed.agreement import Signature, why_plain
from lowtide.torch.distributed.call import GATHER, REDUCE, SCATTER, Call
from lowtide.torch.distributed.gathering import Gathering
from lowtide.torch.distributed.ranks import Ranks, is_capturing
from lowtide.torch.distributed.scattering import Scattering

_PLAIN: dict[str, Callable[..., torch.Tensor | None]] = {
    GATHER: plain.all_gather_matmul,
    SCATTER: plain.matmul_reduce_scatter,
    REDUCE: plain.matmul_all_reduce,
}


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
    if call.gathered is not None:
        call = call.with_operand(plain.gathered(call.operands[call.gathered], ranks, call.shares(ranks.size)))
    out = call.out
    if out is None:
        rows = call.shares(ranks.size)
        room = ranks.size * max(rows) if call.op == GATHER else 0  # so that a kernel can store ragged rows in place
        count = _rows_of_d(call, ranks)
        out = call.a.new_empty(max(room, count), call.b.shape[1], dtype=call.d)[:count]
    if reason:
        return out, _PLAIN[call.op](call, out, ranks)
    with torch.cuda.device(device):
        return out, _by_kernels(call, out, ranks)


def _rows_of_d(call: Call, ranks: Ranks) -> int:
    rows = call.shares(ranks.size)
    return rows[ranks.rank] if call.op == SCATTER else sum(rows)


def _signature(call: Call) -> Signature:
    a, b, how, out = call.a, call.b, call.how, call.out
    of_out = None if out is None else (out.shape, out.stride(), out.dtype)
    rest = a.device, tuple((x.shape, x.dtype, x.device) for x in call.operands), of_out
    words = how.epilogue, len(how.scalars), how.numerics, how.out_dtype, call.of_parts
    try:
        d = call.d
    except Error:  # `_check` raises it, on all ranks
        d = a.dtype
    shapes, types, is_scaled = (tuple(a.shape), tuple(b.shape)), (a.dtype, b.dtype, d), call.gathered is not None
    return Signature(call.op, *shapes, types, call.rows, is_scaled, how.precision, (*rest, *words))


def _by_kernels(call: Call, out: torch.Tensor, ranks: Ranks) -> torch.Tensor | None:
    if call.op == GATHER:
        kept: torch.Tensor | None = _engine(ranks, Gathering, call.a.device).run(call, out)
        return kept
    scattering = _engine(ranks, Scattering, call.a.device)
    if call.op == SCATTER:
        scattering.run(call, out)
        return None
    part, _ = plain.part_of_reduce(call, ranks)
    scattering.run_for_all(part, out)
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
    _check_rows(call, ranks)
    rows = a.shape[0] if call.of_parts else _rows_of_d(call, ranks)
    if call.gathered is not None:
        call = call.with_operand(_all_rows_of(call, rows))
    like = a.new_empty(1).as_strided((rows, a.shape[1]), (0, 0))
    shape, d = check_operands(like, b, call.operands, call.how), call.d
    if out is None:
        return
    shape = (_rows_of_d(call, ranks), shape[1])
    if (tuple(out.shape), out.device, out.dtype) != (shape, a.device, d) or not out.is_contiguous():
        raise LaunchError(
            f"out: {tuple(out.shape)} {out.dtype} on {out.device}; it must be contiguous, {shape} {d} on {a.device}"
            " [ranks-out]"
        )


def _all_rows_of(call: Call, rows: int) -> torch.Tensor:
    """A tensor with the shape of the operand that is gathered. Raises LaunchError if a rank's part does not fit A."""
    assert call.gathered is not None
    own = call.operands[call.gathered]
    if tuple(own.shape) != (call.a.shape[0],):
        raise LaunchError(
            f"scale_a: {own.numel()} scales; give one for each row of a, which has {call.a.shape[0]} on this rank in"
            " all its dimensions but the last [ranks-scales]"
        )
    return own.new_empty(1).expand(rows)


def _check_rows(call: Call, ranks: Ranks) -> None:
    """Raises LaunchError for rows of ranks that do not fit A."""
    rows, m = call.rows, call.a.shape[0]
    if not rows:
        return
    fits = len(rows) == ranks.size and min(rows) >= 0
    if not fits or m != (rows[ranks.rank] if call.op == GATHER else sum(rows)):
        wanted = f"rows[{ranks.rank}]" if call.op == GATHER else "the sum of rows"
        given = tuple(each // call.inner for each in rows)
        raise LaunchError(
            f"rows={given} for {ranks.size} ranks, and the first extent of operand a is {m // call.inner}: give a"
            f" number for each rank; the first extent of a is {wanted} [ranks-rows]"
        )
