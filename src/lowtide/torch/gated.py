"""`lowtide.torch.gated_mlp`: a gated MLP whose forward and backward passes have six kernels, all of them products.

    hidden = act(x · gateᵀ) · (x · upᵀ), y = hidden · downᵀ

The forward pass has two kernels. The first computes both products of the first layer, and the activation. If a gradient
is needed, it saves `gate` and `up` as the halves of one matrix (M, 2·hidden). The second is the second layer.

The backward pass has four kernels. The first computes dy · down; its epilogue multiplies by the derivatives of the
activation. Its results are `dgate` and `dup`, as the halves of one matrix, and `hidden`, which is computed again so
that it need not be kept. The other kernels give the gradients of `down`, of x, and of `weight`. Gradients are rounded
to the type of x before they are multiplied.
"""

from typing import Any

import torch

from lowtide.compiler.epilogue.backward import gated, gated_backward
from lowtide.errors import LaunchError
from lowtide.torch.autocast import in_region
from lowtide.torch.dispatch import records_gradient
from lowtide.torch.results import PAIRED, by_rows, multiplied, results


@torch.compiler.disable  # specs are traced by calling Python functions, which Dynamo cannot record
def gated_mlp(x: torch.Tensor, weight: torch.Tensor, down: torch.Tensor, *, activation: str = "silu") -> torch.Tensor:
    """(act(x · gateᵀ) · (x · upᵀ)) · downᵀ, with gradients. Takes x (…, K), `weight` (2·hidden, K), which has the rows
    of gate and then those of up, and `down` (N, hidden). Returns (…, N).

    `activation`: "silu", "gelu", "gelu_tanh" or "relu". Types are f32, f16 and bf16; all tensors have one type, or that
    of the autocast region. There are no gradients of gradients. torch.compile breaks its graph at the call.

    Raises LaunchError for tensors that do not fit, SpecError for an unknown activation or f64.
    """
    x, weight = in_region(x, weight)
    _, down = in_region(x, down)
    _check(x, weight, down)
    saves = records_gradient((x, weight, down))
    rows = x.reshape(-1, x.shape[-1])
    found: torch.Tensor = (
        _Gated.apply(rows, weight, down, activation) if saves else _forward(rows, weight, down, activation, None)
    )
    return found.reshape(*x.shape[:-1], down.shape[0])


def _check(x: torch.Tensor, weight: torch.Tensor, down: torch.Tensor) -> None:
    fits = x.dim() > 0 and weight.dim() == down.dim() == 2 and weight.shape == (2 * down.shape[1], x.shape[-1])
    if not fits or 0 in (*x.shape, *weight.shape, *down.shape):
        raise LaunchError(
            f"x {tuple(x.shape)}, weight {tuple(weight.shape)} and down {tuple(down.shape)}: pass x (…, K), weight"
            " (2·hidden, K) and down (N, hidden), none of them empty [gated-shapes]"
        )
    if {weight.device, down.device} != {x.device} or {weight.dtype, down.dtype} != {x.dtype}:
        raise LaunchError(
            f"x is {x.dtype} on {x.device}, weight {weight.dtype} on {weight.device}, down {down.dtype} on"
            f" {down.device}; they must have one type and device: convert or move them [gated-types]"
        )


def _forward(
    x: torch.Tensor, weight: torch.Tensor, down: torch.Tensor, activation: str, saved: torch.Tensor | None
) -> torch.Tensor:
    """The result (M, N). If `saved` (M, 2·hidden) is given, its halves are set to `gate` and `up`."""
    out = None if saved is None else dict(zip(("gate", "up"), saved.chunk(2, dim=1), strict=True))
    epilogue = gated(activation, saved is not None)
    found = results(by_rows(x), by_rows(weight), epilogue, {}, out=out, pairs=PAIRED)
    return multiplied(found["hidden"], down.mT)


class _Gated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, down: torch.Tensor, activation: str) -> torch.Tensor:
        saved = x.new_empty(x.shape[0], weight.shape[0])
        y = _forward(x, weight, down, activation, saved)
        ctx.save_for_backward(x, weight, down, saved)
        ctx.activation = activation
        return y

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, dy: torch.Tensor) -> tuple[Any, ...]:
        x, weight, down, saved = ctx.saved_tensors
        of_x, of_weight, of_down, _ = ctx.needs_input_grad
        dy, gradients = by_rows(dy.to(x.dtype)), torch.empty_like(saved)
        (gate, up), (dgate, dup) = saved.chunk(2, dim=1), gradients.chunk(2, dim=1)
        epilogue, out = gated_backward(ctx.activation), {"dgate": dgate, "dup": dup}
        found = results(dy, by_rows(down), epilogue, {"gate": gate, "up": up}, out=out, layout="tt")
        return (
            multiplied(gradients, weight) if of_x else None,
            multiplied(gradients.mT, x) if of_weight else None,
            multiplied(dy.mT, found["hidden"]) if of_down else None,
            None,
        )


class GatedLinear(torch.nn.Module):
    """A gated MLP without biases: (act(x · gateᵀ) · (x · upᵀ)) · downᵀ (`gated_mlp`).

    Parameters: `weight` (2·hidden_features, in_features), the rows of gate and then those of up, and `down`
    (out_features, hidden_features). Both are initialized as the weights of torch.nn.Linear. `activation`: "silu",
    "gelu", "gelu_tanh" or "relu". Raises SpecError for another.
    """

    def __init__(
        self,
        in_features: int,
        hidden_features: int,
        out_features: int | None = None,
        *,
        activation: str = "silu",
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        gated(activation, False)
        out = in_features if out_features is None else out_features
        self.activation = activation
        self.weight = torch.nn.Parameter(torch.empty(2 * hidden_features, in_features, device=device, dtype=dtype))
        self.down = torch.nn.Parameter(torch.empty(out, hidden_features, device=device, dtype=dtype))
        for parameter in (self.weight, self.down):
            torch.nn.init.kaiming_uniform_(parameter, a=5**0.5)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return gated_mlp(input, self.weight, self.down, activation=self.activation)

    def extra_repr(self) -> str:
        (both, inner), out = self.weight.shape, self.down.shape[0]
        return f"in={inner}, hidden={both // 2}, out={out}, activation={self.activation}"
