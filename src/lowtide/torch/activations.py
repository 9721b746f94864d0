"""The activations of `lowtide.torch.Linear` by name: in an epilogue, and in torch."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch

from lowtide.compiler.epilogue.functions import gelu, relu, sigmoid, silu, tanh
from lowtide.errors import LaunchError


@dataclass(frozen=True)
class Activation:
    """`in_epilogue` takes a traced value, `in_torch` a tensor."""

    in_epilogue: Callable[[Any], Any]
    in_torch: Callable[[torch.Tensor], torch.Tensor]


ACTIVATIONS: Mapping[str, Activation] = MappingProxyType(
    {
        "relu": Activation(relu, torch.nn.functional.relu),
        "gelu": Activation(gelu, torch.nn.functional.gelu),
        "gelu_tanh": Activation(
            functools.partial(gelu, approximate="tanh"), functools.partial(torch.nn.functional.gelu, approximate="tanh")
        ),
        "silu": Activation(silu, torch.nn.functional.silu),
        "sigmoid": Activation(sigmoid, torch.sigmoid),
        "tanh": Activation(tanh, torch.tanh),
    }
)


def activation_named(name: str | None) -> Activation | None:
    """The activation with this name; None for None. Raises LaunchError for an unknown name."""
    if name is None:
        return None
    if name not in ACTIVATIONS:
        raise LaunchError(
            f"activation {name!r} is unknown; known are {', '.join(ACTIVATIONS)}, or None for none [activation-known]"
        )
    return ACTIVATIONS[name]
