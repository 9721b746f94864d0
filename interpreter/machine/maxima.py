"""An element of global memory that CTAs raise to the largest of their values by atomic operations."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.interpreter.machine import semaphores
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.patterns import Ordering
from lowtide.interpreter.machine.semaphores import Change
from lowtide.interpreter.numbers.accesses import Described

_DTYPE = "f32"
_RAISE = Change("max", Ordering())


def largest(state: AgentState, values: NDArray[Any]) -> NDArray[Any]:
    """The largest absolute value of each row of values; NaN if one is NaN, 0 for an empty row."""
    domain = state.machine.domain
    sizes = domain.apply("absf", _DTYPE, values)
    while sizes.shape[1] > 1:
        half = sizes.shape[1] // 2
        sizes = np.concatenate(
            [domain.maximum(sizes[:, :half], sizes[:, half : 2 * half]), sizes[:, 2 * half :]], axis=1
        )
    return sizes[:, 0] if sizes.size else domain.full(len(values), 0, _DTYPE)


def lift(state: AgentState, op: Described, address: int, values: NDArray[Any], lane: int | None = None) -> None:
    """Raise an f32 to the largest of non-negative values, or NaN; others may do so in any order."""
    own = largest(state, np.asarray(values).reshape(1, -1))[0]
    semaphores.update(state, op, address, _RAISE, lambda found: state.machine.domain.maximum(found, own), _DTYPE, lane)


def clear(state: AgentState, op: Described, address: int) -> None:
    """Set an f32 to zero, as a store does."""
    zero = state.machine.domain.full((1, 1), 0, _DTYPE)
    state.machine.memory.store(state.access(op), np.array([address]), zero, _DTYPE)
