"""Lowtide's kernels in PyTorch: custom ops that autograd, autocast, torch.compile and CUDA graphs know.

Importing it registers `torch.ops.lowtide.gemm` and `gemm_out`. No other part of Lowtide imports torch; without torch
the import raises `DependencyError`.
"""

from lowtide.errors import DependencyError

try:
    from lowtide.torch.functional import linear, matmul
    from lowtide.torch.modules import Linear
    from lowtide.torch.ops import gemm, gemm_out
except ModuleNotFoundError as _error:
    if _error.name != "torch":
        raise
    raise DependencyError("lowtide.torch needs PyTorch, which is not installed; pip install torch") from None

from lowtide.compiler.epilogue.text import epilogue_text

__all__ = ["Linear", "epilogue_text", "gemm", "gemm_out", "linear", "matmul"]
