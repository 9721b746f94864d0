"""The ops that multiply by wgmma: those that leave a product in flight, and those that add it."""

from typing import TypeAlias

from mlir import ir

from lowtide.dialects import sm
from lowtide.passes.base import walk

Wgmma: TypeAlias = sm.WgmmaOp | sm.WgmmaPromoteOp


def wgmmas(root: ir.OpView | ir.Operation | ir.Module) -> list[Wgmma]:
    """Those below an op."""
    return [*walk(root, sm.WgmmaOp), *walk(root, sm.WgmmaPromoteOp)]


def fragment_of(op: Wgmma) -> sm.FragmentType:
    """The accumulators."""
    result = op.result.type
    return result.fragment if isinstance(result, sm.PendingType) else result
