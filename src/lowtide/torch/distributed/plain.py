"""The ops by the plain collectives of torch.distributed, for any back end, any device and any number of ranks.

Roundings and the order of sums over ranks are those of the kernels: each rank's part is rounded to D's type, and the
parts are added in f32 from rank 0 on.
"""

import torch
import torch.distributed as dist

from lowtide.torch.distributed.call import Call, rows_of
from lowtide.torch.distributed.ranks import Ranks
from lowtide.torch.distributed.sums import add_in_order
from lowtide.torch.ops import compute_out


def gathered(a: torch.Tensor, ranks: Ranks) -> torch.Tensor:
    """The rows of all ranks: (S, K) of each to (ranks · S, K)."""
    if ranks.size == 1:
        return a
    found = a.new_empty(ranks.size * a.shape[0], *a.shape[1:])
    gather_rows(found, a, ranks)
    return found


def gather_rows(out: torch.Tensor, a: torch.Tensor, ranks: Ranks) -> None:
    """Gathers the rows of all ranks into `out`. torch 2.13 has renamed the function."""
    gather = getattr(dist, "all_gather_single", None) or dist.all_gather_into_tensor
    gather(_bytes(out), _bytes(a.contiguous()), group=ranks.group)


def all_gather_matmul(call: Call, out: torch.Tensor, ranks: Ranks) -> torch.Tensor:
    """out (ranks · S, N) = epilogue(gathered A · B) for A (S, K). Returns the gathered A."""
    whole = gathered(call.a, ranks)
    operands, how = call.part
    compute_out(whole, call.b, operands, how, out)
    return whole


def matmul_reduce_scatter(call: Call, out: torch.Tensor, ranks: Ranks) -> None:
    """out (M / ranks, N) = epilogue(this rank's rows of the sum over ranks of A · B) for A (M, K)."""
    if ranks.size == 1:
        compute_out(call.a, call.b, call.operands, call.how._replace(out_dtype=call.d), out)
        return
    add_in_order(exchanged(_part(call, call.a.shape[0]), ranks), *call.sum, call.a.dtype, out)


def matmul_all_reduce(call: Call, out: torch.Tensor, ranks: Ranks) -> None:
    """out (M, N) = epilogue(the sum over ranks of A · B) for A (M, K). Each rank adds a part of the rows."""
    if ranks.size == 1:
        compute_out(call.a, call.b, call.operands, call.how._replace(out_dtype=call.d), out)
        return
    m, (operands, how) = call.a.shape[0], call.sum
    rows, own = shares(m, ranks)
    parts = exchanged(_part(call, rows * ranks.size), ranks)
    summed = out.new_empty(rows, out.shape[1])
    count = len(range(*own.indices(m)))
    add_in_order([each[:count] for each in parts], rows_of(operands, how, own), how, call.a.dtype, summed[:count])
    out.copy_(gathered(summed, ranks)[:m])


def shares(rows: int, ranks: Ranks) -> tuple[int, slice]:
    """The rows of a share, the same for all ranks, and this rank's rows; the last shares may be short, or empty."""
    share = -(-rows // ranks.size)
    return share, slice(min(ranks.rank * share, rows), min((ranks.rank + 1) * share, rows))


def exchanged(product: torch.Tensor, ranks: Ranks) -> list[torch.Tensor]:
    """Each rank's part of this rank's rows, in the order of ranks."""
    found = torch.empty_like(product)
    dist.all_to_all_single(_bytes(found), _bytes(product), group=ranks.group)
    return [*found.chunk(ranks.size)] if found.shape[0] else [found] * ranks.size


def _part(call: Call, rows: int) -> torch.Tensor:
    """This rank's part of the sum, A · B in D's type, with rows of zeros after it up to `rows`."""
    a = call.a
    made = a.new_zeros if rows > a.shape[0] else a.new_empty
    product = made(rows, call.b.shape[1], dtype=call.d)
    operands, how = call.part
    compute_out(a, call.b, operands, how, product[: a.shape[0]])
    return product


def _bytes(x: torch.Tensor) -> torch.Tensor:
    """The tensor; as bytes if its elements have 8 bits, because the collectives do not take 8-bit floats."""
    return x.view(torch.uint8) if x.dtype.itemsize == 1 else x
