"""Cache hints: from the schedule onto loads and stores, and read back off them."""

from mlir import ir

from lowtide.dialects import sm
from lowtide.dialects.tile import CacheHint


def hint_of(op: sm.TmaLoadOp | sm.TmaStoreOp | sm.StoreGlobalOp) -> CacheHint:
    """The op's `cache(…)`; normal where it has none."""
    return CacheHint.normal if op.cache is None else CacheHint(ir.IntegerAttr(op.cache).value)


def written(hint: CacheHint | None) -> CacheHint | None:
    """A schedule's hint as the `cache` of an op: None for normal, which is not written."""
    return None if hint is CacheHint.normal else hint
