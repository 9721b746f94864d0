"""Lowtide's kernels in PyTorch: custom ops for autograd, autocast, torch.compile and CUDA graphs.

Importing it registers `torch.ops.lowtide.gemm`, `gemm_out`, `grouped_gemm` and `add_rows`. No other part of Lowtide
imports torch; without torch the import raises `DependencyError`. `backend`, `Backend` and `GemmPass` need Inductor, and
are imported when they are first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from lowtide.errors import DependencyError

if TYPE_CHECKING:
    from lowtide.torch.fx import Backend, GemmPass, Report, Rule, backend

try:
    from lowtide.torch.cross_entropy import linear_cross_entropy
    from lowtide.torch.functional import linear, matmul
    from lowtide.torch.gated import GatedLinear, gated_mlp
    from lowtide.torch.grouped import grouped_gemm, grouped_matmul
    from lowtide.torch.grouped_gated import grouped_gated_mlp
    from lowtide.torch.modules import Linear
    from lowtide.torch.ops import gemm, gemm_out
    from lowtide.torch.routing import Routes, combine_slots, routes
except ModuleNotFoundError as _error:
    if _error.name != "torch":
        raise
    raise DependencyError(
        "lowtide.torch needs PyTorch, which is not installed; pip install torch [needs-torch]"
    ) from None

from lowtide.compiler.epilogue.text import epilogue_text

_OF_INDUCTOR = ("Backend", "GemmPass", "Report", "Rule", "backend")

__all__ = [
    "Backend",
    "GatedLinear",
    "GemmPass",
    "Linear",
    "Report",
    "Routes",
    "Rule",
    "backend",
    "combine_slots",
    "epilogue_text",
    "gated_mlp",
    "gemm",
    "gemm_out",
    "grouped_gated_mlp",
    "grouped_gemm",
    "grouped_matmul",
    "linear",
    "linear_cross_entropy",
    "matmul",
    "routes",
]


def __getattr__(name: str) -> Any:
    if name not in _OF_INDUCTOR:
        raise AttributeError(f"module 'lowtide.torch' has no attribute {name!r}")
    return getattr(importlib.import_module("lowtide.torch.fx"), name)
