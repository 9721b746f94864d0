"""Cache hints by name: how loads and stores ask caches to keep what they move."""

from mlir import ir

from lowtide.dialects.tile.schedule import Schedule

# In the order of `Sm_CacheHint`.
CACHE_HINTS = ("normal", "evict_first", "evict_last", "streaming", "write_through")


def cache_hint(schedule: Schedule, operand: int) -> ir.Attribute | None:
    """`cache(…)` of what moves A, B or D (operand 0, 1 or 2); None for normal."""
    hint = schedule.cache_hints[operand] if schedule.cache_hints is not None else "normal"
    if hint == "normal":
        return None
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(32), CACHE_HINTS.index(hint))


def hint_name(attribute: ir.Attribute | None) -> str:
    """The name of an op's `cache(…)`; normal where it has none."""
    return "normal" if attribute is None else CACHE_HINTS[ir.IntegerAttr(attribute).value]
