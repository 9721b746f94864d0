"""Strong operations of single threads on words of memory: atomics, and the semaphores by which CTAs synchronize.

Each is checked for races with other accesses (words.py) and orders threads by its scope and ordering (patterns.py).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lowtide.interpreter.machine import patterns
from lowtide.interpreter.machine.agents import ASK, AgentState, Steps, Wait
from lowtide.interpreter.machine.global_memory import GlobalMemory
from lowtide.interpreter.machine.patterns import Ordering
from lowtide.interpreter.machine.views import Strong
from lowtide.interpreter.machine.words import Word
from lowtide.interpreter.numbers.accesses import Access, Described
from lowtide.interpreter.numbers.cells import Cells
from lowtide.interpreter.numbers.codes import ELEMENT_BYTES

_TYPE = "i32"


@dataclass(frozen=True)
class Change:
    """An atomic operation: its name `how`, its ordering, whether its old value is used (`asks`)."""

    how: str
    ordering: Ordering
    asks: bool = False


@dataclass(frozen=True)
class Place:
    """A word of global memory, or of the shared memory of a CTA."""

    cells: Cells
    address: int
    size: int

    @property
    def word(self) -> Word:
        found: Word = self.cells.words.at(self.address - self.cells.origin, self.size)
        return found

    @property
    def is_global(self) -> bool:
        return isinstance(self.cells, GlobalMemory)

    @staticmethod
    def home(state: AgentState) -> int:
        """The CTA whose shared memory the agent accesses."""
        return (state.cta if state.remote is None else state.remote[0]).index

    def key(self, state: AgentState) -> Any:
        """Its key in a launch."""
        return self.address if self.is_global else (self.home(state), self.address)


def acting(state: AgentState) -> int:
    """The lane that acts on a semaphore for its agent."""
    return 0 if state.mask is None else int(np.flatnonzero(state.mask)[0])


def before(state: AgentState, place: Place, lane: int, change: Change) -> None:
    """What an atomic operation of a lane learns from the old value."""
    if change.asks or change.ordering.acquires:
        patterns.read(state.cta.shared.clocks, state.warp, lane, place.word, change.ordering)
    if change.ordering.acquires and state.machine.order is not None:
        state.machine.order.acquire(state.key, place.key(state))


def after(state: AgentState, op: Described, place: Place, lane: int, change: Change) -> None:
    """What an atomic operation of a lane releases with the new value."""
    patterns.write(state.cta.shared.clocks, state.warp, lane, place.word, change.ordering, is_atomic=True)
    order, key = state.machine.order, place.key(state)
    state.touch(key, change.how)
    if change.asks:
        state.touch(key, ASK)
    if order is not None and change.ordering.releases:
        order.release(state.key, key)
        order.count(op, key, arrivals=1)
    elif order is not None and place.cells.payload[place.address - place.cells.origin] == 0:
        order.reset(key)


def update(
    state: AgentState,
    op: Described,
    address: int,
    change: Change,
    function: Callable[[Any], Any],
    dtype: str = _TYPE,
    lane: int | None = None,
) -> None:
    """Change a word of global memory at once, by one lane; by default the acting one.

    Raises InterpreterError if it is not an element of the type, was not written, or for a race.
    """
    lane = acting(state) if lane is None else lane
    place, rows = Place(state.machine.memory, address, ELEMENT_BYTES[dtype]), np.array([address])
    access = _strong(state, op, lane, change.ordering, place, is_atomic=True)
    value = place.cells.load(access, rows, dtype)
    before(state, place, lane, change)
    place.cells.store(access, rows, np.array([[function(value[0, 0])]]), dtype)
    after(state, op, place, lane, change)


def _strong(
    state: AgentState, op: Described, lane: int, ordering: Ordering, place: Place, is_atomic: bool = False
) -> Access:
    return replace(state.access(op, np.array([lane])), strong=Strong(ordering.scope, place.size, is_atomic))


_ARRIVAL, _LEAVE = Change("add", Ordering(releases=True)), Change("inc", Ordering())
_WAIT = Ordering(acquires=True)


def arrive(state: AgentState, op: Described, address: int) -> None:
    """Add one, and release the thread's view. Raises InterpreterError if it is not an i32, or was not written."""
    update(state, op, address, _ARRIVAL, lambda value: int(value) + 1)


def leave(state: AgentState, op: Described, address: int, last: int) -> None:
    """Add one, or set to zero a value of at least `last` (PTX ISA, "red", .inc). Releases nothing."""
    update(state, op, address, _LEAVE, lambda value: 0 if value >= last else int(value) + 1)


def wait(state: AgentState, op: Described, address: int, count: int) -> Steps:
    """Wait until the value is at least `count`, then acquire. Raises InterpreterError as `arrive`."""
    memory, lane = state.machine.memory, acting(state)

    def value() -> int:
        return int(memory.peek(state.access(op), address, _TYPE))

    yield Wait(lambda: value() >= count, lambda: f"a semaphore is {value()}, not yet {count}")
    if state.machine.order is not None:
        state.machine.order.count(op, address, awaited=count)
        state.machine.order.acquire(state.key, address)
    place = Place(memory, address, ELEMENT_BYTES[_TYPE])
    memory.load(_strong(state, op, lane, _WAIT, place), np.array([address]), _TYPE)
    patterns.read(state.cta.shared.clocks, state.warp, lane, place.word, _WAIT)


def reset(state: AgentState, op: Described, address: int) -> None:
    """Set a semaphore to zero by a plain store of the acting lane. Accesses that are not ordered before it race."""
    access = state.access(op, np.array([acting(state)]))
    state.machine.memory.store(access, np.array([address]), np.zeros((1, 1)), _TYPE)
