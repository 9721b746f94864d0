"""The flag of a shard that a kernel sends: each CTA counts itself, and the last one writes the epoch to the flag."""

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
    """`counter`: the address of the counter of CTAs. `last`: the number that the last CTA finds there. `flag`: the
    address of the flag. `epoch`: the number that the last CTA writes there."""

    counter: int
    last: int
    flag: int
    epoch: int


def tell_last(state: AgentState, op: Described, telling: Telling) -> None:
    """Count a CTA, by one lane. The last CTA sets the counter to zero, and writes the flag by a release at the scope
    .sys. Raises InterpreterError for an address without an i32, or a race."""
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
