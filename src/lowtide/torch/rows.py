"""Rows of tensors at an index, for the gradients of rows that a product gathers and scatters.

    add_rows(Tensor rows, Tensor index, SymInt count) -> Tensor

adds row i of `rows` (R, N) to row `index[i]` of a result (count, N), which begins with zeros. Rows whose index is not a
row of the result are left out. On a GPU, torch sorts the index, and adds the rows of each element in order, without
atomic operations, so bits repeat in each run. As an op of its own it keeps this order in compiled graphs.
"""

from typing import Any

import torch

from lowtide.torch.ops import LIBRARY

LIBRARY.define(
    "add_rows(Tensor rows, Tensor index, SymInt count) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)


def rows_at(x: torch.Tensor, index: torch.Tensor | None) -> torch.Tensor:
    """Row `index[i]` of x (M, N) as row i, or zeros if x has no such row. All rows in order if there is no index."""
    if index is None:
        return x
    is_row = (index >= 0) & (index < x.shape[0])
    padded = torch.nn.functional.pad(x, (0, 0, 0, 1))  # the last row is of zeros
    return padded.index_select(0, torch.where(is_row, index, x.shape[0]))


def _add_rows(rows: torch.Tensor, index: torch.Tensor, count: int) -> torch.Tensor:
    is_row = (index >= 0) & (index < count)
    at, found = torch.where(is_row, index, count).long(), rows.new_zeros(count + 1, rows.shape[1])
    if rows.device.type == "cpu":
        return found.index_add_(0, at, rows)[:count]
    return found.index_put_((at,), rows, accumulate=True)[:count]


def _fake(rows: torch.Tensor, index: torch.Tensor, count: int) -> torch.Tensor:
    return rows.new_empty(count, rows.shape[1])


def _keep_index(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.save_for_backward(inputs[1])


def _gradient(ctx: Any, gradient: torch.Tensor) -> tuple[Any, ...]:
    (index,) = ctx.saved_tensors
    return rows_at(gradient, index), None, None


LIBRARY.impl("add_rows", _add_rows, "CompositeExplicitAutograd")
torch.library.register_fake("lowtide::add_rows", _fake, lib=LIBRARY)
torch.library.register_autograd("lowtide::add_rows", _gradient, setup_context=_keep_index, lib=LIBRARY)

#: The op as a function, with the arguments of its schema.
add_rows = torch.ops.lowtide.add_rows.default
