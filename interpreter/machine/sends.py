"""The flags of a shard that a kernel sends: the CTAs count themselves, and the last one writes the epoch."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from lowtide.interpreter.machine import patterns, semaphores
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.patterns import Ordering
from lowtide.interpreter.machine.semaphores import Change, Place
from lowtide.interpreter.machine.views import Scope, Strong
from lowtide.interpreter.numbers.accesses import Described
from lowtide.interpreter.numbers.codes import ELEMENT_BYTES

_TYPE = "i32"
_COUNT = Change("inc", Ordering(releases=True, acquires=True), asks=True)
_RELEASE = Ordering(Scope.sys, releases=True)


@dataclass(frozen=True)
class Telling:
    """The counter of CTAs, the number that its last CTA finds there, the flag, and the epoch that it writes."""

    counter: int
    last: int
    flag: int
    epoch: int


def tell_last(state: AgentState, op: Described, telling: Telling) -> None:
    """Count a CTA, by one lane. The last one sets the counter to zero, and releases the flag at the scope .sys. Raises
    InterpreterError for an address without an i32, or a race."""
    before: list[int] = []

    def count(value: Any) -> int:
        before.append(int(value))
        return 0 if before[-1] >= telling.last else before[-1] + 1

    semaphores.update(state, op, telling.counter, _COUNT, count)
    if before == [telling.last]:
        lane, size, memory = semaphores.acting(state), ELEMENT_BYTES[_TYPE], state.machine.memory
        access = replace(state.access(op, np.array([lane])), strong=Strong(_RELEASE.scope, size))
        memory.store(access, np.array([telling.flag]), np.array([[telling.epoch]]), _TYPE)
        word = Place(memory, telling.flag, size).word
        patterns.write(state.cta.shared.clocks, state.warp, lane, word, _RELEASE)
