"""The custom ops of compiled graphs: products with their collectives, with fake implementations.

    all_gather_matmul(Tensor a, Tensor b, Tensor[] operands, …, ScalarType? out_dtype, str group, int ranks, bool keeps,
        int[] rows) -> Tensor[]
    matmul_reduce_scatter(Tensor a, Tensor b, Tensor[] operands, …, ScalarType? out_dtype, str group, int ranks,
        int[] rows) -> Tensor
    matmul_all_reduce(Tensor a, Tensor b, Tensor[] operands, …, ScalarType? out_dtype, str group) -> Tensor

The arguments up to `out_dtype` are those of `lowtide::gemm`, for A (rows, K) and B (K, N). `group` is the name of a
process group, and `ranks` the number of its ranks. The epilogue of a sum over ranks is applied to each rank's part,
before the sum. `keeps`: the gathered rows of A are the second result. The ops have no gradient: graphs that call them
hold the backward pass too. They raise as the functions of `lowtide.torch.distributed` do.

`rows`: the number of rows of each rank if these differ, otherwise []. Rank r gathers the first `rows[r]` rows of its A,
and zeros for those that A does not have. The D of a sum has the largest number of rows on each rank, with zeros after
the rank's own rows. So shapes do not depend on the rank.
"""

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import torch
from torch.distributed import distributed_c10d
from torch.utils.flop_counter import register_flop_formula

from lowtide.errors import LaunchError
from lowtide.torch.calls import How, d_type
from lowtide.torch.distributed.call import GATHER, REDUCE, SCATTER, Call
from lowtide.torch.distributed.computing import compute, compute_both
from lowtide.torch.distributed.ranks import Ranks, ranks_of
from lowtide.torch.ops import LIBRARY

_ASKED = (
    "Tensor a, Tensor b, Tensor[] operands, float[] scalars, str epilogue, str numerics, str? precision, "
    "ScalarType? out_dtype, str group"
)
_HOW = len(How._fields)
_Tensors = Sequence[torch.Tensor]


def _gather(a: torch.Tensor, b: torch.Tensor, operands: _Tensors, *more: Any) -> list[torch.Tensor]:
    how, (group, _, keeps, rows) = How(*more[:_HOW]), more[_HOW:]
    ranks = _ranks(group)
    own = _first(a, rows[ranks.rank]) if rows else a
    d, whole = compute_both(Call(GATHER, own, b, operands, how, rows=tuple(rows), keeps=keeps), ranks)
    if not keeps or whole is None:
        return [d]
    return [d, whole.clone() if whole is own else whole]  # results of an op share no memory with its arguments


def _first(a: torch.Tensor, rows: int) -> torch.Tensor:
    """The first rows of A, with zeros after them if A has fewer."""
    return a[:rows] if rows <= a.shape[0] else torch.nn.functional.pad(a, (0, 0, 0, rows - a.shape[0]))


def _gather_fake(a: torch.Tensor, b: torch.Tensor, operands: _Tensors, *more: Any) -> list[torch.Tensor]:
    how, (_, ranks, keeps, rows) = How(*more[:_HOW]), more[_HOW:]
    count = sum(rows) if rows else ranks * a.shape[0]
    d = a.new_empty(count, b.shape[1], dtype=d_type(a, b, how))
    return [d, a.new_empty(count, a.shape[1])] if keeps else [d]


def _scatter(a: torch.Tensor, b: torch.Tensor, operands: _Tensors, *more: Any) -> torch.Tensor:
    how, (group, _, rows) = How(*more[:_HOW]), more[_HOW:]
    ranks, call = _ranks(group), Call(SCATTER, a, b, operands, how, rows=tuple(rows), of_parts=True)
    if not rows:
        return compute(call, ranks)
    d = a.new_zeros(max(rows), b.shape[1], dtype=call.d)
    compute(replace(call, out=d[: rows[ranks.rank]]), ranks)
    return d


def _scatter_fake(a: torch.Tensor, b: torch.Tensor, operands: _Tensors, *more: Any) -> torch.Tensor:
    ranks, rows = more[_HOW + 1 :]
    count = max(rows) if rows else a.shape[0] // ranks
    return a.new_empty(count, b.shape[1], dtype=d_type(a, b, How(*more[:_HOW])))


def _reduce(a: torch.Tensor, b: torch.Tensor, operands: _Tensors, *more: Any) -> torch.Tensor:
    return compute(Call(REDUCE, a, b, operands, How(*more[:_HOW]), of_parts=True), _ranks(more[-1]))


def _reduce_fake(a: torch.Tensor, b: torch.Tensor, operands: _Tensors, *more: Any) -> torch.Tensor:
    return a.new_empty(a.shape[0], b.shape[1], dtype=d_type(a, b, How(*more[:_HOW])))


def _ranks(group: str) -> Ranks:
    """The ranks of a group by its name. Raises LaunchError for an unknown name."""
    try:
        return ranks_of(distributed_c10d._resolve_process_group(group))
    except (AttributeError, RuntimeError) as error:  # the function is not documented
        text = str(error).splitlines()[0]
        raise LaunchError(
            f"{text}: this process has no such group; compile the graph in this process [ranks-name]"
        ) from None


def _flops(a: Sequence[int], b: Sequence[int], *more: Any, out_shape: Any, **keywords: Any) -> int:
    return 2 * prod(a) * b[-1]


def _flops_gathered(a: Sequence[int], b: Sequence[int], *more: Any, out_shape: Any, **keywords: Any) -> int:
    return 2 * prod(out_shape[0]) * a[-1]


for _name, _more, _result, _functions in (
    (GATHER, ", int ranks, bool keeps, int[] rows", "Tensor[]", (_gather, _gather_fake, _flops_gathered)),
    (SCATTER, ", int ranks, int[] rows", "Tensor", (_scatter, _scatter_fake, _flops)),
    (REDUCE, "", "Tensor", (_reduce, _reduce_fake, _flops)),
):
    LIBRARY.define(f"{_name}({_ASKED}{_more}) -> {_result}", tags=(torch.Tag.pt2_compliant_tag,))
    LIBRARY.impl(_name, _functions[0], "CompositeExplicitAutograd")
    torch.library.register_fake(f"lowtide::{_name}", _functions[1], lib=LIBRARY)
    register_flop_formula(getattr(torch.ops.lowtide, _name))(_functions[2])

#: The ops as functions, with the arguments of their schemas.
all_gather_matmul = torch.ops.lowtide.all_gather_matmul.default
matmul_reduce_scatter = torch.ops.lowtide.matmul_reduce_scatter.default
matmul_all_reduce = torch.ops.lowtide.matmul_all_reduce.default
