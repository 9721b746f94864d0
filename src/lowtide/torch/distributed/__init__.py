"""Products and their collectives, for tensor parallelism: the data of other GPUs arrive while tiles are computed.

`all_gather_matmul`, `matmul_reduce_scatter` and `matmul_all_reduce` take a process group of torch.distributed. On GPUs
of one host that reach each other they use torch's symmetric memory (its CUDA back end); elsewhere the plain collective
and the product. docs/ranks.md says who sends what when.
"""

from lowtide.torch.distributed.agreement import Signature
from lowtide.torch.distributed.functional import (
    all_gather_matmul,
    check_ranks,
    matmul_all_reduce,
    matmul_reduce_scatter,
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
]
