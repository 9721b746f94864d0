"""Enums of ops, read as the Python enums that TableGen generates from ODS: one reader per enum.

Builders of ops take the enums as they are.
"""

from mlir import ir

from lowtide.dialects import sm, tile
from lowtide.dialects.sm import ClusterLine
from lowtide.dialects.tile import (
    CacheHint,
    GemmLayout,
    KDivisionKind,
    OperandKind,
    RasterKind,
    ResultKind,
    SchedulerKind,
    WorkPart,
)
from lowtide.dialects.tile.division import KDivision


def gemm_layout(op: tile.GemmOp | tile.MmaOp | sm.WgmmaOp | sm.WgmmaPromoteOp) -> GemmLayout:
    """The layouts of A and B."""
    return GemmLayout(_number(op.layout))


def operand_kind(view: tile.ViewOp) -> OperandKind:
    """What the matrix or vector of a window has one element for; `full` where it says nothing."""
    return OperandKind.full if view.kind is None else OperandKind(_number(view.kind))


def operand_kinds(op: tile.GemmOp | tile.StoreOp) -> list[OperandKind]:
    """The kind of each epilogue operand."""
    return [OperandKind(_number(kind)) for kind in op.kinds]


def result_kinds(op: tile.GemmOp | tile.StoreOp) -> list[ResultKind]:
    """The kind of each result."""
    return [ResultKind(_number(kind)) for kind in op.out_kinds]


def results_of(op: tile.GemmOp | tile.StoreOp, kind: ResultKind) -> list[ir.Value]:
    """The results of a kind, in order."""
    return [result for result, own in zip(op.outs, result_kinds(op), strict=True) if own is kind]


def whole_results(op: tile.GemmOp | tile.StoreOp) -> list[ir.Value]:
    """The results with the extents of A · B: the full ones, or the absent one."""
    return [result for result, own in zip(op.outs, result_kinds(op), strict=True) if is_whole(own)]


def is_whole(kind: ResultKind) -> bool:
    """Whether a result has the extents of A · B."""
    return kind in (ResultKind.full, ResultKind.absent)


def scheduler_kind(work: tile.WorkTilesOp) -> SchedulerKind:
    """How CTAs take work tiles."""
    return SchedulerKind(_number(work.scheduler))


def work_part(work: tile.WorkTilesOp) -> WorkPart:
    """Which of the tiles a loop over work tiles takes; `all` where it says nothing."""
    return WorkPart.all if work.part is None else WorkPart(_number(work.part))


def k_division(work: tile.WorkTilesOp) -> KDivision | None:
    """How CTAs share the K of tiles; None where each tile is one item."""
    if work.k_division is None:
        return None
    return KDivision(KDivisionKind(_number(work.k_division)), 0 if work.k_parts is None else _number(work.k_parts))


def raster_kind(order: tile.RasterAttr) -> RasterKind:
    """In which order work tiles are handed out."""
    return RasterKind[order.kind]


def multicast_of(op: sm.TmaLoadOp) -> ClusterLine | None:
    """The CTAs that a load sends its share to; None for its own CTA."""
    return None if op.multicast is None else ClusterLine(_number(op.multicast))


def receivers_of(op: sm.MbarrierArriveOp) -> ClusterLine | None:
    """The CTAs that receive an arrival; None for its own CTA."""
    return None if op.receivers is None else ClusterLine(_number(op.receivers))


def cache_hint_of(op: sm.TmaLoadOp | sm.TmaStoreOp | sm.StoreGlobalOp | sm.PtxStoreOp) -> CacheHint:
    """The op's `cache(…)`; `normal` where it has none."""
    return CacheHint.normal if op.cache is None else CacheHint(_number(op.cache))


def layout_attribute(layout: GemmLayout) -> ir.IntegerAttr:
    """The layouts of A and B as an attribute of an op."""
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(32), layout.value)


def _number(attribute: ir.Attribute) -> int:
    return int(ir.IntegerAttr(attribute).value)
