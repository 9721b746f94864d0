"""Rules of shards of A that arrive while the kernel runs: an agent waits for a shard before it reads it.

Nothing reads A without a wait: no launch packs it, and each work item reads one shard. A CTA waits only for what it
loads itself, so no other CTA of its cluster may load rows of A for it. If a shard is late, its part of D must stay as
it is, so each tile is stored once, as a whole sum. A kernel reads `turn` first, so it may not begin before earlier
kernels end. A kernel that also sends a shard (`grid.sender`) is launched so that all of its CTAs run at the same time.
"""

from collections.abc import Iterator
from types import MappingProxyType

from lowtide.dialects.tile import LaunchKind, OperandsKind, PackKind, RepeatKind, SchedulerKind, TailKind, WavesKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.schedules.rules.required import WHOLE_K, Table, not_taken
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target

# For each field, the values that are legal with shards that arrive. The first is the default; None: it is left out.
WITH_ARRIVALS: Table = MappingProxyType(
    {
        "grid.launch": (LaunchKind.serialized, None),
        "grid.tail": (TailKind.whole, None),
        "grid.k_division": WHOLE_K,
        "grid.waves": (WavesKind.free, None),
        "grid.operands": (None, OperandsKind.as_given),
        "mainloop.prologue": (RepeatKind.per_tile, None),
        "mainloop.a.load": (RepeatKind.per_tile, None),
        "mainloop.b.load": (RepeatKind.per_tile, None),
        "mainloop.a.pack": (None, PackKind.none),
        "epilogue.pack": (None, PackKind.none),
    }
)
# The same if the kernel sends a shard. WHY_SENT has the reason.
WITH_SENDS: Table = MappingProxyType({"grid.scheduler": (SchedulerKind.persistent,)})
WHY = "shards of A arrive while the kernel runs, and the agent that reads one waits for it"
WHY_SENT = "a flag is set once all CTAs have sent, and CTAs that have sent wait for flags, so all must run together"


def arrivals(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """For each given field with a value that is not legal with shards that arrive, a message."""
    if schedule.sends and not problem.has_peers:
        yield (
            "grid.sender = kernel: the kernel has no addresses of peers; give it the operands peers and sent, by "
            "GemmSpec(arrivals=True, peers=True), or take copy_engine [sender-peers]"
        )
    if not problem.has_arrivals:
        return
    for field, way_out in not_taken(WITH_ARRIVALS, schedule):
        yield f"{field}: {WHY}; {way_out} [arrivals-field]"
    for field, way_out in not_taken(WITH_SENDS, schedule) if schedule.sends else ():
        yield f"{field}: {WHY_SENT}; {way_out} [sends-field]"
    if schedule.sends and schedule.grid.cluster is not None and schedule.cluster != (1, 1):
        yield f"grid.cluster = {[*schedule.cluster]}: {WHY_SENT}; take [1, 1] [sends-cluster]"
    if schedule.grid.cluster is not None and schedule.cluster[1] > 1:
        rows, columns = schedule.cluster
        yield (
            f"grid.cluster = [{rows}, {columns}]: CTAs along N load rows of A for each other, but each waits for its "
            f"own; take [{rows}, 1] [arrivals-cluster]"
        )
