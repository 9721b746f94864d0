"""Products of groups of rows with several results, pairs of columns or reductions of rows, each by one kernel."""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from lowtide.compiler.matmul.grouped import grouped_matmul as multiply_groups
from lowtide.torch.grouped import readable
from lowtide.torch.results import by_torch
from lowtide.torch.rows import rows_at


@torch.no_grad()
def grouped_results(
    a: torch.Tensor,
    b: torch.Tensor,
    ends: torch.Tensor,
    epilogue: Callable[..., Any],
    operands: Mapping[str, torch.Tensor],
    *,
    out: Mapping[str, torch.Tensor] | None = None,
    a_rows: torch.Tensor | None = None,
    pairs: str | None = None,
) -> dict[str, torch.Tensor]:
    """The results, by name, of a product of groups of rows with an epilogue. Records no gradient.

    A is (rows, K) and B (groups, K, N), or (groups, K, 2·N) with `pairs`. No extent may be 0. `ends` and `a_rows` are
    those of `lowtide.torch.grouped_matmul`. `operands`: those of the epilogue by name, with a row for each row of the
    product. `out`: tensors for some of the results, which may be strided. Full results have A's type. In rows of no
    group, results may have any values.

    On the CPU, torch computes the same results. Raises LaunchError for tensors that do not fit, SpecError for types
    that the epilogue does not support, and the errors of `compile_gemm`.
    """
    if a.device.type == "cpu":
        own = _by_torch(rows_at(a, a_rows), b, ends, epilogue, operands, 1 if pairs is None else 2)
        return {name: out[name].copy_(value) if out and name in out else value for name, value in own.items()}
    a, b = readable(a.detach(), b.detach())
    more: dict[str, Any] = {name: value.detach() for name, value in operands.items()}
    if a_rows is not None:
        more["a_rows"] = a_rows.contiguous()
    given = None if out is None else dict(out)
    found: dict[str, torch.Tensor] = multiply_groups(
        a, b, ends.contiguous(), epilogue=epilogue, pairs=pairs, out=given, **more
    )
    return found


def _by_torch(
    a: torch.Tensor,
    b: torch.Tensor,
    ends: torch.Tensor,
    epilogue: Callable[..., Any],
    operands: Mapping[str, torch.Tensor],
    sums: int,
) -> dict[str, torch.Tensor]:
    """The results of each group, one after the other; zeros in the rows after the last end."""
    parts, first = [], 0
    for group, given in enumerate(ends.tolist()):
        end = min(max(given, first), len(a))
        own = {name: value[first:end] for name, value in operands.items()}
        parts.append(by_torch(a[first:end], b[group], epilogue, own, sums=sums))
        first = end
    found = {name: torch.cat([each[name] for each in parts]) for name in parts[0]}
    rest = len(a) - first
    return {name: torch.cat([each, each.new_zeros(rest, *each.shape[1:])]) for name, each in found.items()}
