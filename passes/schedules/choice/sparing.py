"""Schedules that need fewer registers, to be tried next if the code of a schedule spills.

The same tile is tried first. With one CTA less on an SM, threads of FMAs have more registers. Operands of the epilogue
that are loaded ahead to registers are held until they are used: half as many are. If the parts of the epilogue are half
as wide, the epilogue holds half as many elements at once. Without a cluster, the producer issues fewer copies: those of
panels, in an unrolled loop, may need more than its registers. Beside three consumers, the producer has the fewest
registers; if K is divided, it is given some of theirs. Fragments that are not loaded ahead take half as many registers.
If FMAs multiply all of K in one step, there is no loop, and ptxas loads many fragments early. With half the step there
is a loop. After several schedules have been passed over, the next ones hold fewer sums per thread.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from lowtide.dialects.tile import StorePath
from lowtide.dialects.tile.agents import REGISTER_PATHS
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.schedules.facts.resources import sums_per_thread
from lowtide.targets.atoms import FMA

_LEAST_COLUMNS = 16  # of a part of the epilogue
# Fields that follow from the width of a part.
_OF_PARTS = ("epilogue.swizzle", "epilogue.buffers", "epilogue.prefetch", "epilogue.start")
_LEAST_STEP = 8  # of K
_OF_PRODUCER, _FROM_CONSUMERS = 40, 8  # per thread: the producer gets 40, each consumer 8 less
_OF_STEPS = ("mainloop.stages", "grid.ctas_per_sm")  # fields that follow from the K step

_ENOUGH = 6  # passed-over schedules, after which others with as many sums per thread are not tried

WHY = "needs fewer registers than the schedule that is passed over"


def sparing(schedule: Schedule, given: Schedule) -> Iterator[dict[str, Any]]:
    """Fields to change, by path; None for a field to choose again. Given fields stay."""
    by_fma, ctas = schedule.multiply.atom == FMA, schedule.grid.ctas_per_sm or 1
    if by_fma and ctas > 1 and given.grid.ctas_per_sm is None:
        yield {"grid.ctas_per_sm": ctas - 1}
    producer, consumer = (schedule.get(path) for path in REGISTER_PATHS)
    if schedule.k_division and 0 < (producer or 0) < _OF_PRODUCER and not any(given.agents.registers):
        yield dict(zip(REGISTER_PATHS, (_OF_PRODUCER, consumer - _FROM_CONSUMERS), strict=True))
    in_registers = schedule.epilogue.path is not StorePath.tma
    if schedule.epilogue.prefetch and in_registers and given.epilogue.prefetch is None:
        yield {"epilogue.prefetch": schedule.epilogue.prefetch // 2}
    part = schedule.epilogue.tile
    if part is not None and part[1] > _LEAST_COLUMNS and given.epilogue.tile is None:
        follows = dict.fromkeys(path for path in _OF_PARTS if given.get(path) is None)
        yield {"epilogue.tile": (part[0], part[1] // 2), **follows}
    if schedule.cluster != (1, 1) and given.grid.cluster is None:
        yield {"grid.cluster": (1, 1)}
    if schedule.multiply.fragment_buffers == 2 and given.multiply.fragment_buffers is None:
        yield {"multiply.fragment_buffers": 1}
    step = schedule.mainloop.k or 0
    if by_fma and step > _LEAST_STEP and given.mainloop.k is None:
        follows = dict.fromkeys(path for path in _OF_STEPS if given.get(path) is None)
        yield {"mainloop.k": step // 2, **follows}


def holds_too_many_sums(schedule: Schedule, passed_over: Sequence[Schedule]) -> bool:
    """Whether several schedules with at most as many sums per thread have been passed over."""
    own = sums_per_thread(schedule)
    return sum(sums_per_thread(passed) <= own for passed in passed_over) >= _ENOUGH
