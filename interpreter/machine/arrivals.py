"""Waits for shards that other devices write: a flag with an epoch for each, and a status if one is late.

A wait blocks until the flag is there: time does not pass in the interpreter, so a flag that never comes is a deadlock.
A time limit of 0 has passed at once.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lowtide.interpreter.machine import patterns, semaphores
from lowtide.interpreter.machine.agents import AgentState, Steps, Wait
from lowtide.interpreter.machine.lanes import active_lane_numbers
from lowtide.interpreter.machine.patterns import Ordering
from lowtide.interpreter.machine.semaphores import Change, Place
from lowtide.interpreter.machine.views import Scope, Strong
from lowtide.interpreter.numbers.accesses import Described
from lowtide.interpreter.numbers.codes import ELEMENT_BYTES

_TYPE = "i32"
_BYTES = ELEMENT_BYTES[_TYPE]
_ACQUIRE, _RELAXED = Ordering(Scope.sys, acquires=True), Ordering(Scope.sys)
_SET = Change("cas", _RELAXED, asks=True)


@dataclass(frozen=True)
class Flag:
    """What an agent waits for: the address of the flag of a shard, the epoch that it must reach, the time limit in ms,
    and the address of the status."""

    address: int
    shard: int
    epoch: int
    limit: int
    status: int


def wait(state: AgentState, op: Described, flag: Flag, *, fences: bool = True) -> Steps:
    """Wait for a shard; `fences`: TMA loads then come after what is acquired. Returns whether it is late. Raises
    InterpreterError for addresses that hold no written i32."""
    memory = state.machine.memory

    def now(address: int) -> int:
        return int(memory.peek(state.access(op), address, _TYPE))

    def has_arrived() -> bool:
        return _distance(now(flag.address), flag.epoch) >= 0

    def why() -> str:
        return f"shard {flag.shard} has not arrived: its flag is {now(flag.address)}, and the epoch is {flag.epoch}"

    if flag.limit and not (has_arrived() or now(flag.status)):
        yield Wait(lambda: has_arrived() or now(flag.status) != 0, why)
    seen = _load(state, op, flag.address, _ACQUIRE)
    if fences:
        memory.fence_proxy(state.cta.index, state.warp)
    if _distance(seen, flag.epoch) >= 0:
        return False
    for lane in _lanes(state):
        if _load(state, op, flag.status, _RELAXED, [lane]) == 0:
            _report(state, op, flag, seen, lane)
    return True


def is_late(state: AgentState, op: Described, status: int) -> bool:
    """Whether a wait has ended without its shard. Raises InterpreterError as `wait`."""
    return _load(state, op, status, _RELAXED) != 0


def _distance(seen: int, epoch: int) -> int:
    """`seen` - `epoch` in 32 bits."""
    return (seen - epoch + 2**31) % 2**32 - 2**31


def _lanes(state: AgentState) -> list[int]:
    """The lanes that act; for whole agents, one lane that stands for all."""
    return [patterns.EVERY_LANE] if state.mask is None else active_lane_numbers(state)


def _load(state: AgentState, op: Described, address: int, ordering: Ordering, lanes: list[int] | None = None) -> int:
    """A strong load by these lanes, by default all that act."""
    memory, place = state.machine.memory, Place(state.machine.memory, address, _BYTES)
    found = 0
    for lane in _lanes(state) if lanes is None else lanes:
        own = None if lane == patterns.EVERY_LANE else np.array([lane])
        access = replace(state.access(op, own), strong=Strong(ordering.scope, _BYTES))
        found = int(memory.load(access, np.array([address]), _TYPE)[0, 0])
        patterns.read(state.cta.shared.clocks, state.warp, lane, place.word, ordering)
    return found


def _report(state: AgentState, op: Described, flag: Flag, seen: int, lane: int) -> None:
    """Set the status, unless another thread has: only one says why."""
    acting = semaphores.acting(state) if lane == patterns.EVERY_LANE else lane
    before: list[int] = []

    def set_once(value: Any) -> int:
        before.append(int(value))
        return int(value) or 1

    semaphores.update(state, op, flag.status, _SET, set_once, lane=acting)
    if before == [0]:
        access = state.access(op, np.array([acting]))
        for place, value in enumerate((flag.shard, seen, flag.epoch), 1):
            address = np.array([flag.status + place * _BYTES])
            state.machine.memory.store(access, address, np.array([[value]]), _TYPE)
