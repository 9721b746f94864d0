"""Autocast: in its regions, A and B of f32, f16 and bf16 are multiplied in the region's type, as by torch.matmul.

Operands of the epilogue keep their types: the epilogue computes in f32 in any case.
"""

import functools
from collections.abc import Sequence
from typing import Any

import torch

from lowtide.torch.calls import How
from lowtide.torch.ops import LIBRARY, gemm

_TYPES = (torch.float32, torch.float16, torch.bfloat16)  # torch leaves f64 unchanged too
_DEVICES = {"cuda": "AutocastCUDA", "cpu": "AutocastCPU"}


def in_region(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The tensors in the type of the surrounding autocast region; unchanged if there is none."""
    kind = a.device.type
    if kind not in _DEVICES or not torch.is_autocast_enabled(kind):
        return a, b
    wanted = torch.get_autocast_dtype(kind)
    return a.to(wanted) if a.dtype in _TYPES else a, b.to(wanted) if b.dtype in _TYPES else b


def precision_in_region(precision: str | None, given: torch.Tensor, a: torch.Tensor) -> str | None:
    """None if A was converted: a precision belongs to products of f32."""
    return precision if a is given else None


def _in_region(key: str, a: torch.Tensor, b: torch.Tensor, operands: Sequence[torch.Tensor], *how: Any) -> torch.Tensor:
    given, asked = a, How(*how)
    a, b = in_region(a, b)
    asked = asked._replace(precision=precision_in_region(asked.precision, given, a))
    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))):
        return gemm(a, b, operands, *asked)


for _key in _DEVICES.values():
    LIBRARY.impl("gemm", functools.partial(_in_region, _key), _key)
