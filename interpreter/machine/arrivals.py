"""Waits for shards that other devices write. The flag of a shard is an epoch. A status says which shard was late.

Time does not pass in the interpreter, so no wait reaches its time limit: if nobody writes the flag, it is a deadlock.
Only a limit of 0 has passed at once.
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
    """The flag of a shard that an agent waits for: its address, the epoch that it must reach, the time limit in ms, and
    the address of the status."""

    address: int
    shard: int
    epoch: int
    limit: int
    status: int


def wait(state: AgentState, op: Described, flag: Flag, *, fences: bool = True) -> Steps:
    """Wait for a shard. Returns whether the wait has ended without it. With `fences`, a proxy fence follows, so that
    TMA loads see what the wait has acquired. Raises InterpreterError for an address without a written i32."""
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
    """Whether any wait has ended without its shard. Raises InterpreterError as `wait` does."""
    return _load(state, op, status, _RELAXED) != 0


def _distance(seen: int, epoch: int) -> int:
    """`seen` - `epoch` in 32 bits."""
    return (seen - epoch + 2**31) % 2**32 - 2**31


def _lanes(state: AgentState) -> list[int]:
    """The active lanes; or one lane that stands for all lanes of the agent, if the agent acts as a whole."""
    return [patterns.EVERY_LANE] if state.mask is None else active_lane_numbers(state)


def _load(state: AgentState, op: Described, address: int, ordering: Ordering, lanes: list[int] | None = None) -> int:
    """A strong load by these lanes, by default by those of `_lanes`."""
    memory, place = state.machine.memory, Place(state.machine.memory, address, _BYTES)
    found = 0
    for lane in _lanes(state) if lanes is None else lanes:
        own = None if lane == patterns.EVERY_LANE else np.array([lane])
        access = replace(state.access(op, own), strong=Strong(ordering.scope, _BYTES))
        found = int(memory.load(access, np.array([address]), _TYPE)[0, 0])
        patterns.read(state.cta.shared.clocks, state.warp, lane, place.word, ordering)
    return found


def _report(state: AgentState, op: Described, flag: Flag, seen: int, lane: int) -> None:
    """Set the status, unless another thread has set it."""
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
