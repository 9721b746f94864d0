"""The ops with the plain collectives of torch.distributed, for any back end, any device and any number of ranks.

Roundings and the order of sums over ranks are those of the kernels: each rank's part is rounded to D's type, and the
parts are added in f32 from rank 0 on. The sum of two parts, rounded once, does not depend on their order, so the
group's own reduction computes it if no epilogue follows.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
import torch.distributed as dist

from lowtide.torch.distributed.call import Call, rows_of, slice_of
from lowtide.torch.distributed.ranks import Ranks
from lowtide.torch.distributed.sums import add_in_order
from lowtide.torch.ops import compute_out

_SMALL = 1 << 22  # bytes of D
_ROUNDED_ONCE = (torch.bfloat16, torch.float16, torch.float32)  # a sum of two in f32, then rounded, has the same bits


def gathered(a: torch.Tensor, ranks: Ranks, rows: Sequence[int] = ()) -> torch.Tensor:
    """The rows of all ranks (rows of all ranks, …), from those of this rank (rows of this rank, …). `rows`: the number
    of rows of each rank; (): all have the same number."""
    if ranks.size == 1:
        return a
    rows = rows or (a.shape[0],) * ranks.size
    most = max(rows)
    own = a if a.shape[0] == most else torch.cat([a, a.new_empty(most - a.shape[0], *a.shape[1:])])
    found = a.new_empty(ranks.size * most, *a.shape[1:])
    gather_rows(found, own, ranks)
    if min(rows) == most:
        return found
    parts = found.view(ranks.size, most, *a.shape[1:])
    return torch.cat([part[:count] for part, count in zip(parts, rows, strict=True)])


def gather_rows(out: torch.Tensor, a: torch.Tensor, ranks: Ranks) -> None:
    """Gathers the rows of all ranks in `out`. torch 2.13 has another name for the function."""
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    gather(_bytes(out), _bytes(a.contiguous()), group=ranks.group)


def all_gather_matmul(call: Call, out: torch.Tensor, ranks: Ranks) -> torch.Tensor:
    """out (rows of all ranks, N) = epilogue(gathered A · B) for A (rows of this rank, K). Returns the gathered A."""
    whole = gathered(call.a, ranks, call.shares(ranks.size))
    operands, how = call.part
    compute_out(whole, call.b, operands, how, out)
    return whole


def matmul_reduce_scatter(call: Call, out: torch.Tensor, ranks: Ranks) -> None:
    """out (rows of this rank, N) = epilogue(these rows of the sum over ranks of A · B) for A (M, K)."""
    if ranks.size == 1:
        compute_out(call.a, call.b, call.operands, call.how._replace(out_dtype=call.d), out)
        return
    if _is_sum_of_two(call, out, ranks) and len({*call.shares(ranks.size)}) == 1:
        reduce = getattr(dist, "reduce_scatter_single", None) or dist.reduce_scatter_tensor
        reduce(out, _product(call), group=ranks.group)
        return
    parts = exchanged(_product(call), call.shares(ranks.size), ranks)
    if out.shape[0]:
        add_in_order(parts, *call.sum, call.a.dtype, out)


def matmul_all_reduce(call: Call, out: torch.Tensor, ranks: Ranks) -> None:
    """out (M, N) = epilogue(the sum over ranks of A · B) for A (M, K). Each rank adds the parts of its rows, and a
    second collective gathers the sums. If D is small, the first collective sends all parts to all ranks instead, and
    each rank adds all rows: the second one is expected to take longer than the additional bytes."""
    if _is_sum_of_two(call, out, ranks):
        operands, how = call.part
        compute_out(call.a, call.b, operands, how, out)
        dist.all_reduce(out, group=ranks.group)
        return
    if ranks.size > 1 and out.nbytes <= _SMALL:
        parts = gathered(_product(call), ranks).view(ranks.size, *out.shape)
        add_in_order([*parts], *call.sum, call.a.dtype, out)
        return
    part, own = part_of_reduce(call, ranks)
    matmul_reduce_scatter(part, out[own], ranks)
    if ranks.size > 1:
        out.copy_(gathered(out[own], ranks, call.shares(ranks.size)))


def _is_sum_of_two(call: Call, out: torch.Tensor, ranks: Ranks) -> bool:
    """Whether D is the sum of the parts of two ranks, without an epilogue that follows."""
    operands, how = call.sum
    is_plain = not operands and not how.epilogue
    return ranks.size == 2 and is_plain and out.dtype == call.d in _ROUNDED_ONCE and out.is_contiguous()


def _product(call: Call) -> torch.Tensor:
    """This rank's part of a sum over ranks, for all rows."""
    product = call.a.new_empty(call.a.shape[0], call.b.shape[1], dtype=call.d)
    operands, how = call.part
    compute_out(call.a, call.b, operands, how, product)
    return product


def part_of_reduce(call: Call, ranks: Ranks) -> tuple[Call, slice]:
    """The reduce-scatter in the first step of an all-reduce: a call whose operands have this rank's rows only, and
    these rows of D."""
    own = slice_of(call.shares(ranks.size), ranks.rank)
    of_rows = call.operands if call.of_parts else rows_of(call.operands, call.how, own)
    return replace(call, operands=of_rows), own


def exchanged(product: torch.Tensor, rows: Sequence[int], ranks: Ranks) -> list[torch.Tensor]:
    """The parts of this rank's rows from all ranks, in the order of ranks. `rows`: the number of rows of each rank."""
    own = rows[ranks.rank]
    found = product.new_empty(ranks.size * own, *product.shape[1:])
    dist.all_to_all_single(_bytes(found), _bytes(product), [own] * ranks.size, [*rows], group=ranks.group)
    return [*found.view(ranks.size, own, *product.shape[1:])]


def _bytes(x: torch.Tensor) -> torch.Tensor:
    """The tensor, viewed as uint8 if its elements have 8 bits: the collectives do not take 8-bit floats."""
    return x.view(torch.uint8) if x.dtype.itemsize == 1 else x
