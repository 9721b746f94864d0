"""Rows for experts: `routes` sorts the tokens by expert, and `combine_slots` adds the rows of each token.

A token has a slot for each expert that it is sent to. The rows of the products are sorted by expert, so they are in
groups. The first product of the experts gathers the rows of the tokens at an index. The last one scatters its rows at
an index: each into a slot of its token. The slots of a token are consecutive rows, and are added in an order that does
not depend on the experts. Nothing is added by atomic operations, so all runs give the same bits.

    ends, tokens, places = routes(experts, groups)
    hidden = lt.grouped_matmul(x, up.mT, ends, epilogue=lt.swiglu, pairs="stacked", a_rows=tokens)
    slots = torch.zeros(x.shape[0] * experts.shape[1], width, dtype=x.dtype, device=x.device)
    lt.grouped_matmul(hidden, down.mT, ends, d_rows=places, out=slots)
    y = combine_slots(slots, experts.shape[1])
"""

from typing import NamedTuple

import torch

from lowtide.errors import LaunchError


class Routes(NamedTuple):
    """`ends`, int32 (groups,): the ends of the rows of each expert. For each row, int32 (tokens · slots,): its token,
    `a_rows`, and its slot among those of all tokens, `d_rows` = token · slots + slot."""

    ends: torch.Tensor
    a_rows: torch.Tensor
    d_rows: torch.Tensor


def routes(experts: torch.Tensor, groups: int) -> Routes:
    """The rows of each expert, for `experts` (tokens, slots), the integer number of the expert in each slot.

    The rows of an expert are in the order of their slots. A number below 0 or not below `groups` is no expert: its rows
    come after the last end, so that its slot is not computed and not stored. Nothing is copied to the host. Raises
    LaunchError for other tensors.
    """
    if experts.dim() != 2 or experts.is_floating_point() or experts.is_complex() or experts.dtype is torch.bool:
        raise LaunchError(
            f"experts is {experts.dtype} of shape {tuple(experts.shape)}; it must be integers (tokens, slots), such as "
            "the indices of torch.topk [routed-experts]"
        )
    flat = experts.flatten()
    known = torch.where((flat < 0) | (flat >= groups), groups, flat)
    found = torch.sort(known, stable=True)
    numbers = torch.arange(groups, device=flat.device, dtype=known.dtype)
    ends = torch.searchsorted(found.values, numbers, right=True)
    slots = max(1, experts.shape[1])
    return Routes(*(each.to(torch.int32) for each in (ends, found.indices // slots, found.indices)))


def combine_slots(rows: torch.Tensor, slots: int) -> torch.Tensor:
    """The sum of the slots of each token: `rows` (tokens · slots, N) as (tokens, N), in the type of `rows`.

    torch.sum adds 16-bit floats in f32. It adds the slots of an element in an order that depends on shapes alone. Slots
    that were not stored must be 0. Raises LaunchError if the rows are not whole tokens.
    """
    if rows.dim() != 2 or slots < 1 or rows.shape[0] % slots:
        raise LaunchError(
            f"rows of shape {tuple(rows.shape)} and slots = {slots}: pass rows (tokens · slots, N) and the number of "
            "slots of a token [combined-slots]"
        )
    return rows.unflatten(0, (-1, slots)).sum(1, dtype=rows.dtype)
