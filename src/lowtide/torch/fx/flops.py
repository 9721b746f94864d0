"""The floating-point operations of `lowtide::gemm`, for FlopCounterMode and for budgets of activation memory."""

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch.utils.flop_counter import flop_registry, register_flop_formula


def flops(a: Sequence[int], b: Sequence[int], *arguments: Any, out_shape: Any = None, **keywords: Any) -> int:
    """Two for each product, from the shapes of A (…, M, K) and B (…, K, N); those of the epilogue are not counted."""
    outer = a[:-2] if len(a) >= len(b) else b[:-2]
    return 2 * prod(outer) * a[-2] * a[-1] * b[-1]


if torch.ops.lowtide.gemm not in flop_registry:
    register_flop_formula(torch.ops.lowtide.gemm)(flops)
