"""CTAs in step: a counter of begun work tiles, and a wait that may end at any time."""

import numpy as np

from lowtide.interpreter.machine.agents import AgentState, Steps, Wait
from lowtide.interpreter.numbers.accesses import Described

_POLLS = 3  # turns that an agent leaves to others; the hardware leaves more


def begin(state: AgentState, op: Described, address: int, tiles: int) -> Steps:
    """Add one to the counter of the launch; the last of `tiles` additions sets it to zero. Then wait for the wave.

    The wait is bounded, so it orders nothing. Raises InterpreterError for an address without a written i32, a counter
    that another launch has not left at zero, or more additions than `tiles`.
    """
    memory, ctas = state.machine.memory, state.machine.grid
    span = memory.span(state.access(op), np.array([address]), 4)

    def value() -> int:
        return int(span.get(memory.payload)[0, 0])

    own = value()
    if not 0 <= own < tiles:
        raise state.violation(
            op, f"{own} of {tiles} work tiles have begun before this one; the counter begins at 0 [wave-counter-start]"
        )
    begun = state.machine.begun[address] = state.machine.begun.get(address, 0) + 1
    if begun > tiles:
        raise state.violation(
            op, f"work tile {begun} of this launch begins, but its counter is for {tiles} [wave-counter-end]"
        )
    memory.payload[span.addresses] = (own + 1) % tiles
    end = (own // ctas + 1) * ctas
    for _ in range(_POLLS if end <= tiles else 0):
        if value() <= own or value() >= end:
            break
        yield Wait(lambda: True, lambda: "for a wave, for a bounded time")
