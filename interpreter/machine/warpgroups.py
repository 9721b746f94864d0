"""Instructions that the four warps of a warpgroup execute together: one rendezvous for wgmma and setmaxnreg.

By .aligned all threads of the warpgroup must execute the same instruction (PTX ISA, "wgmma.mma_async", "wgmma.fence",
"wgmma.commit_group", "wgmma.wait_group", "setmaxnreg"). The warps need not arrive at the same time and are not
synchronised: the n-th such instruction of each must be the same, with the same operands.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.lanes import whole_warp
from lowtide.interpreter.machine.teams import WARPGROUP
from lowtide.interpreter.numbers.accesses import Described
from lowtide.interpreter.program.batches import NotTogether

_RULE = "the four warps of a warpgroup must execute the same instruction (.aligned)"


@dataclass(eq=False)
class Meeting:
    """One aligned instruction that not all warps of a warpgroup have executed: its warps so far, and their operands."""

    op: Described
    operands: tuple[Any, ...]
    warps: list[int]


@dataclass(eq=False)
class Rendezvous:
    """The number of aligned instructions of each warp of a warpgroup, and the instructions that some warps have yet to
    execute."""

    counts: list[int] = field(default_factory=lambda: [0] * WARPGROUP)
    open: dict[int, Meeting] = field(default_factory=dict)


def meet(state: AgentState, op: Described, *operands: Any) -> tuple[int, int]:
    """The warp executes an aligned instruction; returns the number of its warpgroup in the CTA, and its own in that.

    Raises InterpreterError in divergent code, for warps that do not form a warpgroup, and if another warp has executed
    another instruction here, or the same with other operands.
    """
    whole_warp(state, op)
    group, warp = divmod(state.warp, WARPGROUP)
    cta = state.cta
    if group not in cta.rendezvous:
        first, count = WARPGROUP * group, len(cta.machine.seats)
        if first + WARPGROUP > count:
            raise state.violation(
                op,
                f"the CTA's {count} warps leave {count - first} from warp {first} on; a warpgroup has four"
                " [warpgroup-whole]",
            )
        made = cta.rendezvous[group] = Rendezvous()
        cta.at_end.append(lambda ending: _check_all_met(ending, made))
    rendezvous: Rendezvous = cta.rendezvous[group]
    place = rendezvous.counts[warp]
    rendezvous.counts[warp] += 1
    meeting = rendezvous.open.setdefault(place, Meeting(op, operands, []))
    others = f"{_names(meeting.warps)} of its warpgroup"
    if meeting.op is not op:
        raise state.violation(
            op, f"{others} executed {meeting.op.describe()} here; {_RULE}: take it out of the branch [warpgroup-apart]"
        )
    if meeting.operands != operands:
        both = f"operands {_text(operands)}, where {others} has {_text(meeting.operands)}"
        raise state.violation(op, f"{both}; {_RULE}: give them the same operands [warpgroup-operands]")
    meeting.warps.append(state.warp)
    if len(meeting.warps) == WARPGROUP:
        del rendezvous.open[place]
    return group, warp


def check_meetings(state: AgentState, ops: Sequence[Described], operands: Sequence[tuple[Any, ...]]) -> None:
    """Raises NotTogether if the warp may not `meet` others in these consecutive instructions, or if no warp of its
    warpgroup has met yet."""
    group, warp = divmod(state.warp, WARPGROUP)
    rendezvous: Rendezvous | None = state.cta.rendezvous.get(group)
    if rendezvous is None:
        raise NotTogether
    for place, (op, given) in enumerate(zip(ops, operands, strict=True), rendezvous.counts[warp]):
        meeting = rendezvous.open.get(place)
        if meeting is not None and (meeting.op is not op or meeting.operands != given):
            raise NotTogether


def _check_all_met(ending: AgentState, rendezvous: Rendezvous) -> None:
    """Check that all warps of a warpgroup executed the same instructions when they have ended."""
    if rendezvous.open:
        meeting = rendezvous.open[min(rendezvous.open)]
        first = meeting.warps[0] // WARPGROUP * WARPGROUP
        others = sorted(set(range(first, first + WARPGROUP)) - set(meeting.warps))
        raise InterpreterError(
            f"{meeting.op.describe()}, level {ending.machine.level}, CTA {ending.cta.index}: executed by "
            f"{_names(sorted(meeting.warps))}, not by {_names(others)} of the warpgroup; {_RULE}: "
            "take it out of the branch [warpgroup-unmet]"
        )


def _names(warps: list[int]) -> str:
    return ", ".join(f"warp {warp}" for warp in warps)


def _text(operands: tuple[Any, ...]) -> str:
    return ", ".join(f"{operand:#x}" for operand in operands)
