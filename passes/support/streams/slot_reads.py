"""The readers of a ring's slots: threads, or wgmma through the async proxy."""

from collections.abc import Iterable

from mlir import ir

from lowtide.dialects import sm
from lowtide.passes.base import walk
from lowtide.passes.support.ir.rewriting import defining_op


def threads_read_slots(ops: Iterable[ir.OpView]) -> bool:
    """Whether threads load from the slots of a ring: fragments, packed weights or scales.

    Each warp completes such loads by itself. Reads by wgmma are complete when its warpgroup has waited for it.
    """
    return any(
        _is_of_slot(load.source)
        for op in ops
        for kind in (sm.LdmatrixOp, sm.LoadSharedOp, sm.LoadScalesOp)
        for load in walk(op, kind)
    )


def _is_of_slot(source: ir.Value) -> bool:
    maker = defining_op(source)
    if isinstance(maker, sm.PrefixOp):
        maker = defining_op(maker.source)
    return isinstance(maker, sm.RingSlotOp | sm.ConsumerWaitOp)
