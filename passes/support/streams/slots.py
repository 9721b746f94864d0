"""The buffers of a ring's slots, and their readers: threads, or wgmma through the async proxy."""

from collections.abc import Iterable

from mlir import ir

from lowtide.dialects import sm
from lowtide.passes.base import walk
from lowtide.passes.support.ir.rewriting import defining_op


def slot_buffer(buffer: ir.Value) -> ir.Value:
    """The whole buffer of a slot, for the buffer or a prefix of it."""
    maker = defining_op(buffer)
    return maker.source if isinstance(maker, sm.PrefixOp) else buffer


def threads_read_slots(ops: Iterable[ir.OpView]) -> bool:
    """Whether threads load from the slots of a ring: fragments, packed weights or scales.

    Each warp completes such loads by itself. Reads by wgmma are complete when its warpgroup has waited for it.
    """
    return any(
        isinstance(defining_op(slot_buffer(load.source)), (sm.RingSlotOp, sm.ConsumerWaitOp))
        for op in ops
        for kind in (sm.LdmatrixOp, sm.LoadSharedOp, sm.LoadScalesOp)
        for load in walk(op, kind)
    )
