"""Choice of who sends this GPU's shard of A to other GPUs, and the fields that a kernel that sends requires."""

from collections.abc import Mapping
from typing import Any

from lowtide.dialects.tile import SenderKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.passes.schedules.cost.sender import kernel_is_faster
from lowtide.passes.schedules.rules.arrivals import WITH_SENDS
from lowtide.passes.schedules.rules.required import default_fields, not_taken
from lowtide.passes.support.problem.problem import Problem

WHY = "the kernel sends small shards in less time; the copy engine sends large ones, and those of unknown size"


def fields(given: Schedule, problem: Problem) -> Mapping[str, Any]:
    """By path, the values of fields that are not given, if the kernel can send a shard; {} otherwise."""
    if not problem.has_peers:
        return {}
    sender = _chosen(given, problem) if given.grid.sender is None else given.grid.sender
    own = {} if given.grid.sender is sender else {"grid.sender": sender}
    return own | (default_fields(WITH_SENDS, given) if sender is SenderKind.kernel else {})


def _chosen(given: Schedule, problem: Problem) -> SenderKind:
    size = (problem.m or 0) * (problem.k or 0) * element_type(problem.a).bytes
    is_legal = not not_taken(WITH_SENDS, given) and given.cluster == (1, 1)
    return SenderKind.kernel if is_legal and kernel_is_faster(size) else SenderKind.copy_engine
