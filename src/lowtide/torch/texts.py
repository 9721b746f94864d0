"""The texts of epilogues for tensors of given types. They are constants for torch.compile."""

import functools
from collections.abc import Callable
from typing import Any

import torch

from lowtide.compiler.epilogue.operands import OperandKind, PerColumn
from lowtide.compiler.epilogue.signatures import operand_types
from lowtide.compiler.epilogue.text import epilogue_text
from lowtide.compiler.epilogue.trace import Traced
from lowtide.errors import LaunchError
from lowtide.torch.activations import activation_named
from lowtide.torch.calls import default_type, sums_type
from lowtide.torch.dtypes import name_of

Types = tuple[tuple[str, torch.dtype | None], ...]


@torch.compiler.assume_constant_result
def text_of_call(
    epilogue: Callable[..., Any] | None, a: torch.dtype, b: torch.dtype, d: torch.dtype | None, types: Types
) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """The text, and the names of the tensor operands and of the scalars, in its order. `types`: the operands' types by
    name, None for scalars. Raises SpecError, LaunchError."""
    return _text_of_call(epilogue, a, b, d, types)


@torch.compiler.assume_constant_result
def text_of_linear(activation: str | None, x: torch.dtype, weight: torch.dtype, bias: torch.dtype | None) -> str:
    """The text of act(x · Wᵀ + bias), with D of x's type. Raises SpecError, LaunchError."""
    return _text_of_linear(activation, x, weight, bias)


@functools.lru_cache(maxsize=1024)
def _text_of_call(
    epilogue: Callable[..., Any] | None, a: torch.dtype, b: torch.dtype, d: torch.dtype | None, types: Types
) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    given, kinds = dict(types), {name: found.kind for name, found in operand_types(epilogue).items()}
    if kinds.keys() != given.keys():
        takes, gives = (", ".join(names) or "none" for names in (kinds, given))
        raise LaunchError(
            f"operands: the epilogue takes {takes}, but the call gives {gives}; pass each by its name"
            " [epilogue-operands]"
        )
    tensors = tuple(name for name, kind in kinds.items() if kind is not OperandKind.SCALAR)
    for name in kinds:
        if (given[name] is None) == (name in tensors):
            wanted = "a tensor" if name in tensors else "a number: a scalar goes by value, .item()"
            raise LaunchError(f"operand {name}: must be {wanted} [epilogue-operand-kind]")
    dtypes = {name: name_of(dtype) for name, dtype in types if dtype is not None}
    text = epilogue_text(epilogue, *_sums_and_d(a, b, d), dtypes)
    return text, tensors, tuple(name for name in kinds if name not in tensors)


@functools.lru_cache(maxsize=1024)
def _text_of_linear(activation: str | None, x: torch.dtype, weight: torch.dtype, bias: torch.dtype | None) -> str:
    types = {} if bias is None else {"bias": name_of(bias)}
    return epilogue_text(epilogue_of_linear(activation, bias is not None), *_sums_and_d(x, weight, None), types)


@functools.cache
def epilogue_of_linear(activation: str | None, has_bias: bool) -> Callable[..., Any] | None:
    """act(acc + bias), with the operand `bias` if there is one; None if it would change nothing. Raises LaunchError."""
    known = activation_named(activation)
    act = known.in_epilogue if known else lambda value: value

    def with_bias(acc: Traced, bias: PerColumn) -> Any:
        return act(acc + bias)

    if has_bias:
        return with_bias
    return (lambda acc: act(acc)) if known else None


def _sums_and_d(a: torch.dtype, b: torch.dtype, d: torch.dtype | None) -> tuple[str, str]:
    return sums_type(a, b), name_of(default_type(a, b) if d is None else d)
