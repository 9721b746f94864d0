"""Words in global memory that CTAs change by atomic operations: semaphores (PTX ISA, "Causality Order").

The value is in the word's cell. The knowledge of a releasing agent, of its own CTA and of those that it has acquired
from, goes with it to each agent that acquires it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lowtide.interpreter.machine.agents import ASK, AgentState, Steps, Wait
from lowtide.interpreter.machine.clocks import merged
from lowtide.interpreter.numbers.cells import Described

_TYPE = "i32"


@dataclass(frozen=True)
class Change:
    """An atomic operation: its name `how`, the type of the word, whether its old value is used (`asks`)."""

    how: str
    releases: bool = False
    acquires: bool = False
    dtype: str = _TYPE
    asks: bool = False


def update(state: AgentState, op: Described, address: int, change: Change, function: Callable[[int], int]) -> int:
    """Change the word at once; returns its old value. A word that becomes 0 without a release forgets released
    knowledge.

    Raises InterpreterError if it is not an integer of the type, or was not written.
    """
    memory, clocks = state.machine.memory, state.cta.shared.clocks
    access = state.access(op)
    value = int(memory.atomic(access, address, change.dtype))
    new = function(value)
    state.touch(address, change.how)
    if change.asks:
        state.touch(address, ASK)
    memory.set_atomic(access, address, new, change.dtype)
    if change.acquires:
        acquire(state, address)
    if state.machine.order is not None:
        if change.releases:
            state.machine.order.release(state.key, address)
            state.machine.order.count(op, address, arrivals=1)
        elif new == 0:
            state.machine.order.reset(address)
    if change.releases:
        told = state.machine.released.setdefault(address, {})
        merged(told, {**clocks.heard[state.warp], state.cta.index: clocks.release_ordered(state.warp)})
    elif new == 0:
        state.machine.released.pop(address, None)
    return value


def read(state: AgentState, op: Described, address: int, dtype: str = _TYPE) -> int:
    """The current word, read as an atomic operation does."""
    return int(state.machine.memory.atomic(state.access(op), address, dtype))


def acquire(state: AgentState, address: int) -> None:
    """The agent acquires the knowledge released with the word's value."""
    clocks = state.cta.shared.clocks
    if state.machine.order is not None:
        state.machine.order.acquire(state.key, address)
    told = state.machine.released.get(address, {})
    merged(clocks.heard[state.warp], told)
    own = told.get(state.cta.index)
    if own is not None:
        clocks.acquire(state.warp, np.asarray(own))


_ARRIVAL, _LEAVE = Change("add", releases=True), Change("inc")


def arrive(state: AgentState, op: Described, address: int) -> None:
    """Add one, and release the agent's knowledge. Raises InterpreterError if it is not an i32, or was not written."""
    update(state, op, address, _ARRIVAL, lambda value: value + 1)


def leave(state: AgentState, op: Described, address: int, last: int) -> None:
    """Add one, or set to zero a value of at least `last` (PTX ISA, "red", .inc). Releases nothing."""
    update(state, op, address, _LEAVE, lambda value: 0 if value >= last else value + 1)


def wait(state: AgentState, op: Described, address: int, count: int) -> Steps:
    """Wait until the value is at least `count`, then acquire. Raises InterpreterError as `arrive`."""

    def value() -> int:
        return read(state, op, address)

    yield Wait(lambda: value() >= count, lambda: f"a semaphore is {value()}, not yet {count}")
    if state.machine.order is not None:
        state.machine.order.count(op, address, awaited=count)
    acquire(state, address)
