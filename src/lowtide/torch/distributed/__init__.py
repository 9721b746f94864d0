"""Products with their collectives, for tensor parallelism: data of other GPUs arrive while a kernel computes tiles.

`all_gather_matmul`, `matmul_reduce_scatter` and `matmul_all_reduce` take a process group of torch.distributed. If the
GPUs are on one host and can access each other's memory, they use torch's symmetric memory (its CUDA back end).
Otherwise they use the plain collective and the product of one GPU. docs/ranks.md describes the order of messages.
"""

from lowtide.torch.distributed.agreement import Signature
from lowtide.torch.distributed.functional import (
    all_gather_matmul,
    check_ranks,
    matmul_all_reduce,
    matmul_reduce_scatter,
    report,
)
from lowtide.torch.distributed.modules import ColumnParallelLinear, RowParallelLinear
from lowtide.torch.distributed.ranks import ranks_of

__all__ = [
    "ColumnParallelLinear",
    "RowParallelLinear",
    "Signature",
    "all_gather_matmul",
    "check_ranks",
    "matmul_all_reduce",
    "matmul_reduce_scatter",
    "ranks_of",
    "report",
]
