"""Autocast: in its regions A and B of f32, f16 and bf16 are multiplied in the region's type, as by torch.matmul.

Operands of the epilogue keep their types: an epilogue computes in f32 whatever they are.
"""

import functools
from collections.abc import Sequence

import torch

from lowtide.torch.ops import LIBRARY, gemm

_TYPES = (torch.float32, torch.float16, torch.bfloat16)  # f64 is left as it is, as by torch
_DEVICES = {"cuda": "AutocastCUDA", "cpu": "AutocastCPU"}


def in_region(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The tensors in the type of the autocast region around; as they are where there is none."""
    kind = a.device.type
    if kind not in _DEVICES or not torch.is_autocast_enabled(kind):
        return a, b
    wanted = torch.get_autocast_dtype(kind)
    return a.to(wanted) if a.dtype in _TYPES else a, b.to(wanted) if b.dtype in _TYPES else b


def _in_region(
    key: str,
    a: torch.Tensor,
    b: torch.Tensor,
    operands: Sequence[torch.Tensor],
    scalars: Sequence[float],
    epilogue: str,
    out_dtype: torch.dtype | None,
    numerics: str,
) -> torch.Tensor:
    a, b = in_region(a, b)
    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(getattr(torch._C.DispatchKey, key))):
        return gemm(a, b, operands, scalars, epilogue, out_dtype, numerics)


for _key in _DEVICES.values():
    LIBRARY.impl("gemm", functools.partial(_in_region, _key), _key)
