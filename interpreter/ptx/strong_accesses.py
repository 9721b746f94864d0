"""Strong loads and stores: .acquire, .release, .relaxed, .volatile (PTX ISA, "ld", "st", "Operation Types").

Each orders threads by its ordering and scope (machine/patterns.py). A strong load may be repeated until it finds
another value: a loop of it waits (machine/branches.py).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from lowtide.interpreter.machine import patterns
from lowtide.interpreter.machine.agents import ASK, AgentState, Wait
from lowtide.interpreter.machine.awaited import Asked
from lowtide.interpreter.machine.lanes import active_lane_numbers, by_lane
from lowtide.interpreter.machine.patterns import Ordering
from lowtide.interpreter.machine.semaphores import Place
from lowtide.interpreter.machine.views import Scope, Strong
from lowtide.interpreter.numbers.codes import ELEMENT_BYTES
from lowtide.interpreter.ptx import memory
from lowtide.interpreter.ptx.orders import SCOPES, ordering_of
from lowtide.interpreter.ptx.running import Op
from lowtide.interpreter.ptx.spaces import by_memory, cells_of
from lowtide.interpreter.ptx.table import Form, Table

TABLE = Table()

_SPACES = "global shared shared::cta shared::cluster local const"


def now(place: Place) -> tuple[Any, ...]:
    """The present contents of a word."""
    start = place.address - place.cells.origin
    return tuple(place.cells.payload[start : start + place.size].tolist())


def is_other(place: Place, seen: tuple[Any, ...]) -> bool:
    return now(place) != seen


def why(place: Place) -> str:
    at = place.address - place.cells.origin
    held = next((each for each in place.cells.buffers if each.start <= at < each.end and each.dtype), None)
    name = "" if held is None else f" ({held.name}[{(at - held.start) // ELEMENT_BYTES[held.dtype]}])"
    return f"for a semaphore, which is {now(place)[0]:g}, to change{name}"


@contextmanager
def strongly(state: AgentState, strong: Strong) -> Iterator[None]:
    """Accesses of the agent are strong."""
    state.strong = strong
    try:
        yield
    finally:
        state.strong = None


@dataclass(frozen=True)
class _Move:
    """A strong load or store: its ordering, and the data of the weak one (memory.py)."""

    ordering: Ordering
    weak: tuple[Any, ...]

    @property
    def size(self) -> int:
        """Bytes of an element."""
        return int(self.weak[1])


def _strong(prepare: Callable[[Form], tuple[Any, ...]]) -> Callable[[Form], _Move]:
    """Makes the data of an instruction, with that of the weak one, which `prepare` makes."""

    def made(form: Form) -> _Move:
        is_volatile = "volatile" in form.row.name
        if form.words & {"local", "const"}:
            raise form.instruction.error(
                f"{form.row.name} is of .global or .shared memory; take a load or store without it [strong-space]"
            )
        return _Move(ordering_of(form, Scope.sys if is_volatile else Scope.gpu), prepare(form))

    return made


def _places(state: AgentState, op: Op, space: str, address: Any) -> list[tuple[int, Place]]:
    """The words that a load or store accesses, each with its lane; if all lanes load the same ones, with that of the
    whole agent. None for the memory of one thread."""
    _, width, count, *_ = op.data.weak
    cells, place = cells_of(state, op, space, address)
    if cells.words is None:
        return []
    if state.mask is None and not isinstance(place, np.ndarray):
        each = [(patterns.EVERY_LANE, int(place))]
    else:
        rows = by_lane(place)
        each = [(lane, int(rows[lane])) for lane in active_lane_numbers(state)]
    return [(lane, Place(cells, at + width * n, width)) for lane, at in each for n in range(count)]


@TABLE.effects(
    "ld.acquire",
    "ld.relaxed",
    "ld.volatile",
    "ld.mmio.relaxed",
    types=memory.TYPES,
    words=f"{_SPACES} {memory.HINTS} {SCOPES} v2 v4 v8",
    section="Data Movement and Conversion Instructions: ld",
    results=1,
    acts=False,
    prepare=_strong(memory.load_form),
)
def ld_strong(state: AgentState, op: Op, address: Any, hint: Any = None) -> Any:
    """The current value, for each active lane; with .acquire, the accesses released with it are known."""
    space = op.data.weak[0]
    has_run, loaded = by_memory(state, op, space, address, lambda own, there: _load(state, op, own, there))
    return loaded if has_run else _load(state, op, space, address)


def _load(state: AgentState, op: Op, space: str, address: Any) -> Any:
    """`ld_strong` from a state space. If `state.remote` is set, it is the shared memory of that CTA."""
    move, clocks, order = op.data, state.cta.shared.clocks, state.machine.order
    with strongly(state, Strong(move.ordering.scope, move.size)):
        loaded = memory.load(state, op, (space, *move.weak[1:]), address)
    places = _places(state, op, space, address)
    for lane, place in places:
        state.touch(place.key(state), ASK)
        patterns.read(clocks, state.warp, lane, place.word, move.ordering)
        seen = now(place)
        if move.ordering.acquires and order is not None:
            order.acquire(state.key, place.key(state))
            if len(places) == 1 and place.is_global and isinstance(loaded, int | np.ndarray):
                state.asked = Asked(op, place.address, int(seen[0]))
        state.polls.append(Wait(partial(is_other, place, seen), partial(why, place), op))
    if state.mask is None:
        clocks.settle(state.warp, state.count)
    return loaded


@TABLE.effects(
    "st.release",
    "st.relaxed",
    "st.volatile",
    "st.mmio.relaxed",
    types=memory.TYPES,
    words=f"{_SPACES} {memory.HINTS} {SCOPES} v2 v4 v8",
    section="Data Movement and Conversion Instructions: st",
    prepare=_strong(memory.access_form),
)
def st_strong(state: AgentState, op: Op, address: Any, value: Any, hint: Any = None) -> None:
    """The store of each active lane; with .release, what precedes it is released with the value."""
    space = op.data.weak[0]
    has_run, _ = by_memory(state, op, space, address, lambda own, there: _store(state, op, own, there, value))
    if not has_run:
        _store(state, op, space, address, value)


def _store(state: AgentState, op: Op, space: str, address: Any, value: Any) -> None:
    """`st_strong` to a state space. If `state.remote` is set, it is the shared memory of that CTA."""
    move, clocks, order = op.data, state.cta.shared.clocks, state.machine.order
    with strongly(state, Strong(move.ordering.scope, move.size)):
        memory.store(state, op, (space, *move.weak[1:]), by_lane(address), value)
    for lane, place in _places(state, op, space, by_lane(address)):
        patterns.write(clocks, state.warp, lane, place.word, move.ordering)
        state.touch(place.key(state), "store")
        if move.ordering.releases and order is not None:
            order.release(state.key, place.key(state))
