"""`lowtide.torch.Linear`: torch.nn.Linear by kernels of Lowtide, with an activation in the same kernel."""

from typing import Any

import torch

from lowtide.compiler.numerics_words import check_numerics
from lowtide.torch.activations import activation_named
from lowtide.torch.functional import linear


class Linear(torch.nn.Linear):
    """act(x · Wᵀ + b). Parameters, initialization and state_dict are those of torch.nn.Linear.

    `activation`: "relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh", or None. `numerics`, `precision`: as in
    `lt.matmul`. Raises LaunchError for an unknown activation, SpecError for unknown numerics.
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        activation: str | None = None,
        numerics: str = "repeatable",
        precision: str | None = None,
    ) -> None:
        activation_named(activation)
        check_numerics(numerics)
        super().__init__(in_features, out_features, bias, device, dtype)
        self.activation, self.numerics, self.precision = activation, numerics, precision

    @classmethod
    def of(cls, module: torch.nn.Linear, **options: Any) -> "Linear":
        """A layer with the parameters of another, which both then share. `options`: `activation` and so on."""
        made = cls(module.in_features, module.out_features, False, "meta", **options)
        made.weight, made.bias = module.weight, module.bias
        return made.train(module.training)

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return linear(
            input,
            self.weight,
            self.bias,
            activation=self.activation,
            numerics=self.numerics,
            precision=self.precision,
        )

    def extra_repr(self) -> str:
        activation = "" if self.activation is None else f", activation={self.activation}"
        numerics = "" if self.numerics == "repeatable" else f", numerics={self.numerics}"
        precision = "" if self.precision is None else f", precision={self.precision}"
        return f"{super().extra_repr()}{activation}{numerics}{precision}"
