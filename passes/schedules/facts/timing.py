"""When a loop over K works, as a schedule says it."""

from lowtide.dialects.sm import CopyIssue, SlotRead, StepForm, StoreStart
from lowtide.dialects.sm.timing import Timing
from lowtide.dialects.tile import EpilogueStart, PromoteKind, UnrollKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.targets.atoms import WGMMA_ROWS


def timing_of(schedule: Schedule, rows: int) -> Timing:
    """The timing of a loop over K whose tile has so many rows.

    Copies are spread if stores are too: a warp's accesses to memory are served in order, and copies that come all at
    once would hold up the fragments as the stores do.
    """
    start = StoreStart[str(schedule.epilogue.start or EpilogueStart.all_sums)]
    if start is StoreStart.first_rows and rows <= WGMMA_ROWS * schedule.agents.consumer.warpgroups:
        start = StoreStart.all_sums
    return Timing(
        stores=start,
        copies=CopyIssue.spread if start is StoreStart.next_tile else CopyIssue.at_head,
        slot=SlotRead.step_before if schedule.multiply.promote is PromoteKind.overlapped else SlotRead.in_step,
        steps=StepForm.unrolled if schedule.mainloop.unroll is UnrollKind.full else StepForm.rolled,
    )
