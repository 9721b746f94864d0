"""Instructions that stop a thread or check a jump (PTX ISA, "Control Flow Instructions", "Miscellaneous Instructions").

Jumps themselves are the ends of blocks (decoding.py), and calls are copies of the functions (functions.py).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lowtide.errors import InterpreterError, NotInterpreted
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.lanes import active_lane_numbers, by_lane
from lowtide.interpreter.numbers.registers import raw
from lowtide.interpreter.ptx.running import Op
from lowtide.interpreter.ptx.spaces import cells_of
from lowtide.interpreter.ptx.table import Table

TABLE = Table()

_LONGEST = 400  # bytes of a text
_MISCELLANEOUS = "Miscellaneous Instructions"


@TABLE.effects("trap", section=f"{_MISCELLANEOUS}: trap")
def trap(state: AgentState, op: Op, *places: Any) -> None:
    """For a failed assertion, `places` are the addresses of the arguments of __assertfail in local memory: its text,
    its file and its line."""
    said = _asserted(state, op, places) if len(places) > 2 else None
    what = "a trap or a failed assertion" if said is None else said
    raise state.violation(op, f"the kernel stops itself: {what} [kernel-trap]")


def _asserted(state: AgentState, op: Op, places: Sequence[Any]) -> str | None:
    """The failed assertion in words; None if its arguments cannot be read."""
    lanes = active_lane_numbers(state)
    found = []
    try:
        for place, size in zip(places, (8, 8, 4), strict=False):
            cells, rows = cells_of(state, op, "local", place)
            access = state.access(op, np.array([lanes[0]]))
            found.append(cells.load_bytes(access, rows[lanes[0] : lanes[0] + 1], size)[0])
    except InterpreterError:
        return None
    text, file, line = (int.from_bytes(np.asarray(each, np.int8).tobytes(), "little") for each in found)
    where = f"{_string(state, file).rpartition('/')[2]}:{line}"
    lanes_there = (
        f" in {'lane' if len(lanes) == 1 else 'lanes'} {', '.join(map(str, lanes))}" if len(lanes) < 32 else ""
    )
    return f"the assertion {_string(state, text)!r} of {where} fails{lanes_there}"


def _string(state: AgentState, address: int) -> str:
    """The text in global memory that begins at an address and ends with 0, or with its variable."""
    memory, start = state.machine.memory, address - state.machine.memory.origin
    held = next((each for each in memory.buffers if each.start <= start < each.end), None)
    contents = memory.payload[start : start + _LONGEST if held is None else min(held.end, start + _LONGEST)]
    return bytes(int(each) & 0xFF for each in contents).partition(b"\0")[0].decode(errors="replace")


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
