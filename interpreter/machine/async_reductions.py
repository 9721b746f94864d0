"""Reductions of registers onto words of shared memory of the cluster, which land later (PTX ISA, "red.async").

They signal an mbarrier with their bytes. A landed one counts as a write of that mbarrier's phase, like that of a bulk
copy.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.interpreter.machine import mbarrier_objects, mbarriers
from lowtide.interpreter.machine.agents import AgentState, Steps
from lowtide.interpreter.machine.clusters import address_in, owner
from lowtide.interpreter.machine.lanes import active_rows, by_lane
from lowtide.interpreter.machine.mbarriers import Mbarrier
from lowtide.interpreter.machine.scheduling import spawn
from lowtide.interpreter.machine.tensor_stores import Change
from lowtide.interpreter.numbers.accesses import Described
from lowtide.interpreter.numbers.codes import ELEMENT_BYTES


@dataclass(frozen=True)
class _Landing:
    """Words that are about to be changed by values, one after the other, and the phase of the mbarrier that counts
    them."""

    barrier: Mbarrier
    phase: int
    addresses: list[int]
    values: list[Any]
    dtype: str
    change: Change


def reduce(
    state: AgentState, op: Described, addresses: Any, values: NDArray[Any], barrier: Any, how: tuple[str, Change]
) -> None:
    """Each active lane changes the word at its address, of the type in `how`, by the function there of its value, array
    (32,), and of the old one. Raises InterpreterError if the word and the mbarrier are in different CTAs."""
    dtype, change = how
    _, words = active_rows(state, op, by_lane(addresses))
    _, signals = active_rows(state, op, by_lane(barrier))
    given = values if state.mask is None else values[state.mask]
    for signal in np.unique(signals).tolist():
        chosen, home = signals == signal, owner(state, op, signal)
        own = words[chosen].tolist()
        if any(owner(state, op, each) is not home for each in own):
            raise state.violation(
                op, "the word and the mbarrier are in different CTAs; give those of one CTA [reduced-home]"
            )
        signalled = mbarrier_objects.in_cta(state, op, home, signal)
        mbarriers.note_load(state, op, signalled)
        places = [address_in(home, each) for each in own]
        landing = _Landing(signalled, signalled.completed, places, list(given[chosen]), dtype, change)
        spawn(state, f"reduction by {state.seat.name}", op, partial(_land, op, landing))


def _land(op: Described, landing: _Landing, aside: AgentState) -> Steps:
    yield from ()
    barrier, width = landing.barrier, ELEMENT_BYTES[landing.dtype]
    assert barrier.home is not None
    shared, access = barrier.home.shared, aside.access(op)
    for address, value in zip(landing.addresses, landing.values, strict=True):
        span = shared.span(access, np.array([address]), width)
        new = landing.change(value, shared.numbers(access, span, landing.dtype))
        shared.land_numbers(span, new, landing.dtype, barrier.source, landing.phase)
    mbarriers.complete_bytes(aside, op, barrier, landing.phase, width * len(landing.addresses))
