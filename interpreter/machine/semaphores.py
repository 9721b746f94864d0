"""Semaphores in global memory: atomic additions that release, and waits that acquire (PTX ISA, "Causality Order").

The value lies in the semaphore's cell. What the one who arrives knows, of its own CTA and of those that it has acquired
from, goes with it to whoever waits.
"""

import numpy as np

from lowtide.interpreter.machine.agents import AgentState, Steps, Wait
from lowtide.interpreter.machine.clocks import merged
from lowtide.interpreter.program.program import DecodedOp

_TYPE = "i32"


def arrive(state: AgentState, op: DecodedOp, address: int) -> None:
    """Add one, and release what the agent knows. Raises InterpreterError for what is no written i32."""
    memory, clocks = state.machine.memory, state.cta.shared.clocks
    access = state.access(op)
    value = int(memory.atomic(access, address, _TYPE))
    memory.set_atomic(access, address, value + 1, _TYPE)
    told = state.machine.released.setdefault(address, {})
    merged(told, {**clocks.heard[state.warp], state.cta.index: clocks.release_ordered(state.warp)})


def leave(state: AgentState, op: DecodedOp, address: int, last: int) -> None:
    """Add one, or set to zero what is at least `last` (PTX ISA, "red", .inc). Releases nothing."""
    memory, access = state.machine.memory, state.access(op)
    value = int(memory.atomic(access, address, _TYPE))
    memory.set_atomic(access, address, 0 if value >= last else value + 1, _TYPE)
    if value >= last:
        state.machine.released.pop(address, None)


def wait(state: AgentState, op: DecodedOp, address: int, count: int) -> Steps:
    """Wait until the value is at least `count`, then acquire. Raises InterpreterError as `arrive`."""
    memory, clocks = state.machine.memory, state.cta.shared.clocks
    access = state.access(op)

    def value() -> int:
        return int(memory.atomic(access, address, _TYPE))

    yield Wait(lambda: value() >= count, lambda: f"a semaphore is {value()}, not yet {count}")
    told = state.machine.released.get(address, {})
    merged(clocks.heard[state.warp], told)
    own = told.get(state.cta.index)
    if own is not None:
        clocks.acquire(state.warp, np.asarray(own))
