"""Cache hints of the schedule, for loads and stores."""

from lowtide.dialects.tile import CacheHint


def written(hint: CacheHint | None) -> CacheHint | None:
    """A schedule's hint as the `cache` of an op: None for normal, which is not written."""
    return None if hint is CacheHint.normal else hint
