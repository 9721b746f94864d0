"""Instructions that stop a thread or check a jump (PTX ISA, "Control Flow Instructions", "Miscellaneous Instructions").

Jumps themselves are the ends of blocks (decoding.py), and calls are copies of the functions (functions.py).
"""

from typing import Any

import numpy as np

from lowtide.errors import NotInterpreted
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.lanes import active_lane_numbers, by_lane
from lowtide.interpreter.numbers.registers import raw
from lowtide.interpreter.ptx.running import Op
from lowtide.interpreter.ptx.table import Table

TABLE = Table()

_MISCELLANEOUS = "Miscellaneous Instructions"


@TABLE.effects("trap", section=f"{_MISCELLANEOUS}: trap")
def trap(state: AgentState, op: Op) -> None:
    raise state.violation(op, "the kernel stops itself: a trap or a failed assertion [kernel-trap]")


@TABLE.effects("brkpt", section=f"{_MISCELLANEOUS}: brkpt")
def brkpt(state: AgentState, op: Op) -> None:
    raise state.violation(op, "the kernel stops at a breakpoint; without a debugger it ends there [kernel-breakpoint]")


@TABLE.effects("pmevent", words="mask", section=f"{_MISCELLANEOUS}: pmevent", acts=False)
def pmevent(state: AgentState, op: Op, events: Any) -> None:
    """Events for a profiler change no number."""


@TABLE.effects("brx.idx", words="uni", section="Control Flow Instructions: brx.idx", acts=False)
def branch_index(state: AgentState, op: Op, index: Any, labels: Any) -> None:
    """The number of a label in a list, before the jump to it."""
    rows = np.asarray(by_lane(raw(index, 32, state.machine.domain)))
    active = rows if state.mask is None else rows[state.mask]
    wrong = active[(active < 0) | (active >= labels)]
    if wrong.size:
        raise state.violation(
            op, f"jumps to label {int(wrong[0])} of a list of {labels}, which is undefined [branch-index-range]"
        )


UNKNOWN, UNDEFINED, RECURSIVE = range(3)
"""Why a call by an address is not replaced by a copy of a function."""


@TABLE.effects("call", words="uni", section="Control Flow Instructions: call")
def call(state: AgentState, op: Op, address: Any, why: int) -> None:
    """A call by an address, for lanes that call no function by whose copy functions.py replaces it."""
    lane = active_lane_numbers(state)[0]
    called = f"lane {lane}: calls address {int(by_lane(raw(address, 64, state.machine.domain))[lane])}"
    if why == UNKNOWN:
        rule = "which is no function that the call lists, or that fits its prototype [call-target]"
        raise state.violation(op, f"{called}, {rule}")
    if why == UNDEFINED:
        rule = "which is a function that is not defined in this module; link its PTX [call-target-extern]"
        raise state.violation(op, f"{called}, {rule}", NotInterpreted)
    rule = "which is a function that calls itself; this is not interpreted [call-again]"
    raise state.violation(op, f"{called}, {rule}", NotInterpreted)
