"""The arguments of a product of groups: rows at an index, weights of rows, and checks of the tensors."""

from typing import NamedTuple

import torch

from lowtide.errors import LaunchError


class At(NamedTuple):
    """`a_rows`, `d_rows` and `weight` (R,), and `rows`, the number of rows of D with `d_rows`: as for `grouped_matmul`.
    None for what is not given."""

    a_rows: torch.Tensor | None = None
    d_rows: torch.Tensor | None = None
    rows: int | None = None
    weight: torch.Tensor | None = None

    @property
    def tensors(self) -> dict[str, torch.Tensor]:
        """Those that are given, by name."""
        named = {"a_rows": self.a_rows, "d_rows": self.d_rows, "weight": self.weight}
        return {name: tensor for name, tensor in named.items() if tensor is not None}


def check(a: torch.Tensor, b: torch.Tensor, ends: torch.Tensor, at: At) -> tuple[int, ...]:
    """The shape of D: (rows, N), or (groups, M, N) with groups of K or padded groups. Raises LaunchError for tensors
    that do not fit."""
    if ends.dim() != 1 or ends.dtype is not torch.int32:
        raise LaunchError(
            f"ends is {ends.dtype} of shape {tuple(ends.shape)}; it must be int32 (groups,): convert it [torch-ends]"
        )
    fits = (a.dim(), b.dim()) in ((2, 2), (2, 3), (3, 3)) and a.shape[-1] == b.shape[-2]
    if not fits or any(x.shape[0] != ends.shape[0] for x in (a, b) if x.dim() == 3):
        raise LaunchError(
            f"a of shape {tuple(a.shape)}, b of shape {tuple(b.shape)} and {ends.shape[0]} ends or counts: pass a"
            " (rows, K) and b (groups, K, N), a (M, K) and b (K, N), or with counts a (groups, rows, K) and b (groups,"
            " K, N) [torch-groups]"
        )
    if {b.device, ends.device, *(each.device for each in at.tensors.values())} != {a.device}:
        others = "".join(f", {name} on {each.device}" for name, each in at.tensors.items())
        raise LaunchError(
            f"a is on {a.device}, b on {b.device} and ends on {ends.device}{others}; move them to one device "
            "[torch-groups-device]"
        )
    if a.dim() == b.dim():
        if at.tensors or at.rows is not None:
            raise LaunchError(
                "a_rows, d_rows, rows and weight are for groups of rows, and "
                + ("a is (groups, rows, K)" if a.dim() == 3 else "b (K, N) has groups of K")
                + "; pass a (rows, K), b (groups, K, N) and ends, or gather, scatter or scale rows outside"
                " [torch-rows-of-k]"
            )
        return (ends.shape[0], a.shape[-2], b.shape[-1])
    return _check_rows(a, at), b.shape[2]


def _check_rows(a: torch.Tensor, at: At) -> int:
    """The number of rows of D. Raises LaunchError for indices and weights that do not fit."""
    indices = {name: index for name, index in at.tensors.items() if name != "weight"}
    for name, index in indices.items():
        if index.dim() != 1 or index.dtype is not torch.int32:
            raise LaunchError(
                f"{name} is {index.dtype} of shape {tuple(index.shape)}; it must be int32, one number for each row of "
                "the product: convert it [torch-row-index]"
            )
    count = a.shape[0] if at.a_rows is None else at.a_rows.shape[0]
    if (at.d_rows is None) != (at.rows is None) or (at.rows is not None and at.rows < 0):
        raise LaunchError(
            f"d_rows and rows = {at.rows}: pass both, the rows of D that are stored and their number, at least 0, or "
            "neither [torch-d-rows]"
        )
    if any(each.shape[0] != count for each in at.tensors.values() if each.dim() == 1):
        lengths = ", ".join(f"{name} {tuple(each.shape)}" for name, each in at.tensors.items())
        raise LaunchError(
            f"the product has {count} rows, but {lengths}: pass one element for each row [torch-row-count]"
        )
    if at.weight is not None and (
        at.weight.dim() != 1 or not at.weight.is_floating_point() or not a.is_floating_point()
    ):
        raise LaunchError(
            f"weight is {at.weight.dtype} of shape {tuple(at.weight.shape)}, and a is {a.dtype}; weights are floats, "
            "one for each row of a product of floats [torch-row-weight]"
        )
    return count if at.rows is None else at.rows
