"""Arrivals at an mbarrier by the copies of threads, when they have landed (PTX ISA, "cp.async.mbarrier.arrive").

A wait for the phase of such an arrival makes the copied bytes visible, but none of the thread's other accesses.
"""

from collections.abc import Sequence
from functools import partial

from lowtide.interpreter.machine import mbarriers
from lowtide.interpreter.machine.agents import AgentState, Steps
from lowtide.interpreter.machine.copies import Tracked
from lowtide.interpreter.machine.lanes import active_lanes
from lowtide.interpreter.machine.mbarriers import MAX_ARRIVALS, Mbarrier
from lowtide.interpreter.machine.scheduling import spawn
from lowtide.interpreter.numbers.accesses import Described


def arrive(state: AgentState, op: Described, barrier: Mbarrier, is_counted: bool) -> None:
    """Each active lane arrives once when its copies so far have landed. Unless `is_counted` among the arrivals that the
    mbarrier expects, the phase expects one more for each."""
    lanes = active_lanes(state)
    if not is_counted:
        barrier.pending += lanes
        if barrier.pending > MAX_ARRIVALS:
            raise state.violation(op, f"{barrier.name} has more than {MAX_ARRIVALS} arrivals [pending-arrivals]")
    copies = state.cta.copies.track(state.warp, state.mask)
    mbarriers.note_load(state, op, barrier)
    doing = f"copies by {state.seat.name}"
    spawn(state, doing, op, partial(_land, op, barrier, copies, lanes))


def _land(op: Described, barrier: Mbarrier, copies: Sequence[Tracked], lanes: int, aside: AgentState) -> Steps:
    yield from ()
    for copy in copies:
        if not copy.has_landed:
            copy.has_landed = True
            aside.cta.shared.land_by(copy.flight, barrier.source, barrier.completed)
    mbarriers.arrive(aside, op, barrier, lanes, relaxed=True)
