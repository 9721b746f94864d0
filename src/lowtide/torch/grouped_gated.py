"""`lowtide.torch.grouped_gated_mlp`: the gated MLPs of experts, whose forward and backward passes have six kernels.

    hidden = act(x · gateᵀ) · (x · upᵀ), y = weight · (hidden · downᵀ), with the matrices of each row's expert

The kernels are those of `lowtide.torch.gated_mlp`, for groups of rows. The first gathers the rows of tokens, computes
both products of the first layer and the activation, and saves `gate` and `up` if a gradient is needed. The second
scales its rows by the weights of the router, and scatters them.

The backward pass has four kernels. The first multiplies dy, whose rows it gathers, and `down`. Its epilogue computes
`dgate` and `dup`, the halves of one matrix; `hidden` again, scaled by the weights; and the gradients of the weights,
which are sums of rows. The second, with groups of rows, computes the gradient of x. The last two, with groups of K,
compute the gradients of `gate_up` and `down`; torch gathers their rows.
"""

from typing import Any

import torch

from lowtide.compiler.epilogue.backward import gated, gated_backward, routed_gated_backward
from lowtide.errors import LaunchError
from lowtide.torch.autocast import in_region
from lowtide.torch.dispatch import records_gradient
from lowtide.torch.grouped import grouped_gemm
from lowtide.torch.grouped_arguments import At, check
from lowtide.torch.grouped_results import grouped_results
from lowtide.torch.results import PAIRED
from lowtide.torch.rows import add_rows, rows_at

_RANK = 3  # of the matrices of all experts


@torch.compiler.disable  # specs are traced by calling Python functions, which Dynamo cannot record
def grouped_gated_mlp(
    x: torch.Tensor,
    gate_up: torch.Tensor,
    down: torch.Tensor,
    ends: torch.Tensor,
    *,
    activation: str = "silu",
    a_rows: torch.Tensor | None = None,
    d_rows: torch.Tensor | None = None,
    rows: int | None = None,
    weight: torch.Tensor | None = None,
) -> torch.Tensor:
    """The gated MLPs of experts, with gradients of x, `gate_up`, `down` and `weight`.

    x is (tokens, K). `gate_up` is (groups, 2·hidden, K): for each expert the rows of gate, then those of up. `down` is
    (groups, N, hidden), as in transformers. The result is (R, N), with a row for each row of the product, or
    (`rows`, N) with `d_rows`.

    `ends`, `a_rows`, `d_rows`, `rows` and `weight` are those of `lowtide.torch.grouped_matmul`: the first layer gathers
    rows at `a_rows`, and the second scales its rows by `weight` and stores them at `d_rows`. Rows of no group are 0.
    `activation`: "silu", "gelu", "gelu_tanh" or "relu". Types are f32, f16 and bf16; x, `gate_up` and `down` have one
    type, or that of the autocast region. There are no gradients of gradients. torch.compile breaks its graph at the
    call.

    Raises LaunchError for tensors that do not fit, SpecError for an unknown activation or f64.
    """
    x, gate_up = in_region(x, gate_up)
    _, down = in_region(x, down)
    at = At(a_rows, d_rows, rows, weight)
    shape = _check(x, gate_up, down, ends, at)
    if 0 in (*x.shape, *shape, ends.shape[0]) or (a_rows is not None and not a_rows.numel()):
        return x.new_zeros(shape) + sum(each[:0].sum() for each in (x, gate_up, down))  # gradients of 0
    if records_gradient((x, gate_up, down) if weight is None else (x, gate_up, down, weight)):
        found: torch.Tensor = _GroupedGated.apply(x, gate_up, down, ends, activation, *at)
        return found
    return _forward((x, gate_up, down, ends), activation, at, None)


def _check(x: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor, ends: torch.Tensor, at: At) -> tuple[int, int]:
    """The shape of the result. Raises LaunchError for tensors that do not fit."""
    if not (
        x.dim() == 2
        and gate_up.dim() == down.dim() == _RANK
        and gate_up.shape == (down.shape[0], 2 * down.shape[2], x.shape[1])
        and 0 not in (*gate_up.shape[1:], *down.shape[1:])
    ):
        raise LaunchError(
            f"x {tuple(x.shape)}, gate_up {tuple(gate_up.shape)} and down {tuple(down.shape)}: pass x (tokens, K),"
            " gate_up (groups, 2·hidden, K) and down (groups, N, hidden), whose matrices are not empty"
            " [grouped-gated-shapes]"
        )
    if {gate_up.dtype, down.dtype} != {x.dtype} or down.device != x.device:
        raise LaunchError(
            f"x is {x.dtype} on {x.device}, gate_up {gate_up.dtype}, down {down.dtype} on {down.device}; they must"
            " have one type and device: convert or move them [grouped-gated-types]"
        )
    return check(x, gate_up.mT, ends, at)[0], down.shape[1]


def _forward(
    given: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor],
    activation: str,
    at: At,
    saved: torch.Tensor | None,
) -> torch.Tensor:
    """The result. If `saved` (R, 2·hidden) is given, its halves are set to `gate` and `up`."""
    x, gate_up, down, ends = given
    out = None if saved is None else dict(zip(("gate", "up"), saved.chunk(2, dim=1), strict=True))
    epilogue = gated(activation, saved is not None)
    found = grouped_results(x, gate_up.mT, ends, epilogue, {}, out=out, a_rows=at.a_rows, pairs=PAIRED)
    with torch.no_grad():
        y: torch.Tensor = grouped_gemm(found["hidden"], down.mT, ends, None, None, at.d_rows, at.rows, at.weight)
    return y


class _GroupedGated(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        gate_up: torch.Tensor,
        down: torch.Tensor,
        ends: torch.Tensor,
        activation: str,
        *rest: Any,
    ) -> torch.Tensor:
        at = At(*rest)
        count = x.shape[0] if at.a_rows is None else at.a_rows.shape[0]
        saved = x.new_empty(count, gate_up.shape[1])
        y = _forward((x, gate_up, down, ends), activation, at, saved)
        ctx.save_for_backward(x, gate_up, down, ends, saved, at.a_rows, at.d_rows, at.weight)
        ctx.activation = activation
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[Any, ...]:
        x, gate_up, down, ends, saved, a_rows, d_rows, weight = ctx.saved_tensors
        of_x, of_gate_up, of_down, *_, of_weight = ctx.needs_input_grad
        dy, gradients = dy.to(x.dtype), torch.empty_like(saved)
        (gate, up), (dgate, dup) = saved.chunk(2, dim=1), gradients.chunk(2, dim=1)
        out, operands = {"dgate": dgate, "dup": dup}, {"gate": gate, "up": up}
        epilogue = gated_backward(ctx.activation)
        if weight is not None:
            epilogue, operands["weight"] = routed_gated_backward(ctx.activation), weight.float()
        found = grouped_results(dy, down, ends, epilogue, operands, out=out, a_rows=d_rows)
        dx = of_each = of_layer = dw = None
        if of_x:
            wide = torch.float32 if a_rows is not None else x.dtype
            dx = grouped_gemm(gradients, gate_up, ends, wide)
            dx = dx if a_rows is None else add_rows(dx, a_rows, x.shape[0]).to(x.dtype)
        if of_gate_up:
            of_each = grouped_gemm(gradients.mT, rows_at(x, a_rows), ends, gate_up.dtype)
        if of_down:
            of_layer = grouped_gemm(rows_at(dy, d_rows).mT, found["hidden"], ends, down.dtype)
        if of_weight and weight is not None:
            dw = _of_groups(found["dweight"], ends).to(weight.dtype)
        return dx, of_each, of_layer, *[None] * 5, dw


def _of_groups(values: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    """The values (R,), with 0 for rows after the last end."""
    return torch.where(torch.arange(len(values), device=values.device) < ends.max(), values, 0)
