"""Linear layers whose weights are divided among the ranks of a group: by columns or by rows of Wᵀ (K, N)."""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist

from lowtide.errors import LaunchError
from lowtide.torch.activations import activation_named
from lowtide.torch.distributed.functional import all_gather_matmul, matmul_all_reduce, matmul_reduce_scatter
from lowtide.torch.distributed.ranks import ranks_of
from lowtide.torch.texts import epilogue_of_linear


class _ParallelLinear(torch.nn.Module):
    """A share of act(x · Wᵀ + bias). The parameters are those of this rank: `weight` (N, K), `bias` (N,) or None."""

    def __init__(
        self,
        weight: tuple[int, int],
        bias: int | None,
        group: dist.ProcessGroup | None,
        activation: str | None,
        made: Any,
    ) -> None:
        activation_named(activation)
        super().__init__()
        self.group, self.activation = group, activation
        self.weight = torch.nn.Parameter(torch.empty(weight, **made))
        self.bias = None if bias is None else torch.nn.Parameter(torch.zeros(bias, **made))
        torch.nn.init.normal_(self.weight, std=weight[1] ** -0.5)

    def _call(self, op: Any, x: torch.Tensor, **more: Any) -> torch.Tensor:
        bias = {} if self.bias is None else {"bias": self.bias}
        epilogue = epilogue_of_linear(self.activation, self.bias is not None)
        found: torch.Tensor = op(x, self.weight.mT, self.group, epilogue=epilogue, **bias, **more)
        return found

    def extra_repr(self) -> str:
        n, k = self.weight.shape
        return f"in_features={k}, out_features={n}, bias={self.bias is not None}, activation={self.activation}"


class ColumnParallelLinear(_ParallelLinear):
    """act(x · Wᵀ + bias) for x (rows / ranks, …, K): (rows, …, N / ranks). Each rank gets all rows of its own columns.

    K is `in_features` and N is `out_features`. `weight` is (N / ranks, K), and `bias` (N / ranks,) or None.
    `activation`: as for `lowtide.torch.Linear`. Raises LaunchError if N is not a multiple of the number of ranks.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        group: dist.ProcessGroup | None = None,
        *,
        activation: str | None = None,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        share = _share("out_features", out_features, group)
        made = {"device": device, "dtype": dtype}
        super().__init__((share, in_features), share if bias else None, group, activation, made)

    def forward(self, x: torch.Tensor, rows: Sequence[int] | None = None) -> torch.Tensor:
        """`rows`: as for `all_gather_matmul`."""
        return self._call(all_gather_matmul, x, rows=rows)


class RowParallelLinear(_ParallelLinear):
    """act(x · Wᵀ summed over ranks + bias) for x (rows, …, K / ranks): (rows / ranks, …, N); with `scatter=False`
    (rows, …, N).

    K is `in_features` and N is `out_features`. `weight` is (N, K / ranks), and `bias` (N,) or None. The bias is added
    once, to the sum. With `scatter`, the gradient of the bias is that of this rank's rows: sum it over the ranks.
    Raises LaunchError if K is not a multiple of the number of ranks.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        group: dist.ProcessGroup | None = None,
        *,
        scatter: bool = True,
        activation: str | None = None,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        share = _share("in_features", in_features, group)
        made = {"device": device, "dtype": dtype}
        super().__init__((out_features, share), out_features if bias else None, group, activation, made)
        self.scatter = scatter

    def forward(self, x: torch.Tensor, rows: Sequence[int] | None = None) -> torch.Tensor:
        """`rows`: as for `matmul_reduce_scatter`; with `scatter=False` they have no effect."""
        if not self.scatter:
            return self._call(matmul_all_reduce, x)
        return self._call(matmul_reduce_scatter, x, rows=rows)


def _share(name: str, extent: int, group: dist.ProcessGroup | None) -> int:
    size = ranks_of(group).size
    if extent % size:
        raise LaunchError(f"{name} = {extent} is no multiple of the {size} ranks; pad it [ranks-features]")
    return extent // size
