"""The ops that multiply by wgmma: those that leave a product in flight, and those that add it."""

from typing import TypeAlias

from mlir import ir

from lowtide.dialects import sm
from lowtide.dialects.tile.layouts import tv_of
from lowtide.passes.base import walk
from lowtide.passes.support.problem.element_types import element_bits
from lowtide.targets.tv import extents

_REGISTER_BITS = 32

Wgmma: TypeAlias = sm.WgmmaOp | sm.WgmmaPromoteOp


def wgmmas(root: ir.OpView | ir.Operation | ir.Module) -> list[Wgmma]:
    """Those below an op."""
    return [*walk(root, sm.WgmmaOp), *walk(root, sm.WgmmaPromoteOp)]


def registers_of(fragment: sm.FragmentType) -> int:
    """Registers of a thread that hold its part of a fragment."""
    _, values = extents(tv_of(fragment.tv))
    return int(values) * element_bits(fragment.element_type) // _REGISTER_BITS


def fragment_of(op: Wgmma) -> sm.FragmentType:
    """The accumulators."""
    result = op.result.type
    return result.fragment if isinstance(result, sm.PendingType) else result
