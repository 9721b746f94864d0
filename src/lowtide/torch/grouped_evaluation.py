"""Products of groups by torch's own operations, for tensors on the CPU. Types and roundings are those of a kernel."""

import torch

from lowtide.torch.calls import sums_type
from lowtide.torch.dtypes import name_of
from lowtide.torch.evaluation import product, rounded
from lowtide.torch.grouped_arguments import At
from lowtide.torch.rows import rows_at

_RANK_OF_BATCH = 3  # of A, if groups are padded


def multiply_by_torch(a: torch.Tensor, b: torch.Tensor, ends: torch.Tensor, at: At, out: torch.Tensor) -> None:
    """Sets the rows, or matrices, of `out` that belong to groups."""
    if a.dim() == _RANK_OF_BATCH:
        sums = sums_type(a.dtype, b.dtype)
        for group, count in enumerate(ends.clamp(0, a.shape[1]).tolist()):
            out[group, :count] = rounded(product(a[group, :count], b[group], sums), name_of(out.dtype))
        return
    sums, d, k, before = sums_type(a.dtype, b.dtype), name_of(out.dtype), a.shape[1], 0
    a = rows_at(a, at.a_rows)
    for group, given in enumerate(ends.tolist()):
        first = min(max(before, 0), k) if b.dim() == 2 else before
        end = min(max(given, first), k if b.dim() == 2 else a.shape[0])
        before = given if b.dim() == 2 else end
        if b.dim() == 2:
            out[group] = rounded(product(a[:, first:end], b[first:end], sums), d)
            continue
        found = product(a[first:end], b[group], sums)
        if at.weight is not None:
            found = at.weight[first:end, None].to(found.dtype) * found
        if at.d_rows is None:
            out[first:end] = rounded(found, d)
            continue
        places = at.d_rows[first:end].long()
        stored = (places >= 0) & (places < out.shape[0])
        out[places[stored]] = rounded(found[stored], d)
