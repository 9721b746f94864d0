"""An opt-in pass for torch.compile: products, fused with the pointwise ops that follow, as kernels of Lowtide."""

from lowtide.compiler.fx.report import Report
from lowtide.compiler.fx.rule import Rule
from lowtide.torch.fx.inductor import Backend, GemmPass, backend

__all__ = ["Backend", "GemmPass", "Report", "Rule", "backend"]
