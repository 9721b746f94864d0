"""The timing of a loop over K that a schedule asks for."""

from lowtide.dialects.sm import CopyIssue, SlotRead, StepForm, StoreStart
from lowtide.dialects.sm.timing import Timing
from lowtide.dialects.tile import EpilogueStart, PromoteKind, UnrollKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.targets.atoms import WGMMA_ROWS


def timing_of(schedule: Schedule, rows: int) -> Timing:
    """The timing of a loop over K whose tile has `rows` rows.

    If stores are spread, copies are too: accesses of a warp to memory are served in order, and copies that are issued
    all at once would hold up the fragments, as stores would.
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
