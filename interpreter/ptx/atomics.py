"""Atomic operations on words of global memory, and loads that see others' writes (PTX ISA, "atom", "red", "ld").

A load with .acquire, .relaxed or .volatile may be repeated until it finds a value: a loop of it waits
(machine/branches.py).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from lowtide.interpreter.machine import maxima, semaphores
from lowtide.interpreter.machine.agents import ASK, AgentState, Wait
from lowtide.interpreter.machine.awaited import Asked
from lowtide.interpreter.machine.lanes import active_lane_numbers, by_lane
from lowtide.interpreter.machine.semaphores import Change
from lowtide.interpreter.numbers.registers import Number, canonical, unsigned
from lowtide.interpreter.ptx.binding import Op
from lowtide.interpreter.ptx.table import Form, Table

TABLE = Table()

_SECTION = "Parallel Synchronization and Communication Instructions"
_TYPES = "b32 u32 s32 b64 u64 s64"
_SCOPES = "gpu sys cluster cta"

# The new value of a word, from the old one and the operands, in the instruction's type.
_CHANGES: Mapping[str, Callable[..., int]] = MappingProxyType(
    {
        "add": lambda value, other: value + other,
        "inc": lambda value, last: 0 if value >= last else value + 1,
        "dec": lambda value, last: last if value == 0 or value > last else value - 1,
        "min": min,
        "max": max,
        "and": lambda value, other: value & other,
        "or": lambda value, other: value | other,
        "xor": lambda value, other: value ^ other,
        "exch": lambda value, other: other,
        "cas": lambda value, compared, other: other if value == compared else value,
    }
)


@dataclass(frozen=True)
class _Atomic:
    """An atomic operation, and the new value of a word from the old one and the operands, in the instruction's type."""

    change: Change
    function: Callable[..., int]
    bits: int
    is_signed: bool

    def seen(self, value: Any) -> int:
        """A word in the instruction's type."""
        return int(canonical(int(value), self.bits) if self.is_signed else unsigned(int(value), self.bits))

    def changed(self, others: tuple[int, ...], value: int) -> int:
        return int(canonical(self.function(self.seen(value), *map(self.seen, others)), self.bits))


def _prepare(form: Form) -> _Atomic:
    if "global" not in form.words:
        raise form.instruction.error(
            "atomic operations on global memory are interpreted; name the space: .global [atomic-space]"
        )
    names = [name for name in _CHANGES if name in form.words]
    if len(names) != 1:
        raise form.instruction.error(f"an atomic operation is one of {', '.join(_CHANGES)} [atomic-kind]")
    orders = form.words & {"acq_rel", "release", "acquire"}
    change = Change(
        names[0],
        bool(orders & {"acq_rel", "release"}),
        bool(orders & {"acq_rel", "acquire"}),
        f"i{form.bits}",
        form.row.results > 0,
    )
    return _Atomic(change, _CHANGES[names[0]], form.bits, form.type[0] == "s")


@TABLE.effects(
    "atom",
    types=_TYPES,
    words=f"global relaxed release acquire acq_rel {_SCOPES} {' '.join(_CHANGES)}",
    section=f"{_SECTION}: atom",
    results=1,
    prepare=_prepare,
)
def atom(state: AgentState, op: Op, address: Any, *operands: Any) -> Any:
    """For each active lane in turn, the old value of the word."""
    atomic: _Atomic = op.data
    found: Any = np.zeros(len(state.lanes), f"i{atomic.bits // 8}")
    rows = [by_lane(value) for value in (address, *operands)]
    lanes = active_lane_numbers(state)
    for lane in lanes:
        place, *others = (int(row[lane]) for row in rows)
        found[lane] = semaphores.update(state, op, place, atomic.change, partial(atomic.changed, tuple(others)))
    return int(found[lanes[0]]) if len(lanes) == 1 else found


@TABLE.effects(
    "red",
    types=_TYPES,
    words=f"global relaxed release {_SCOPES} {' '.join(name for name in _CHANGES if name not in ('exch', 'cas'))}",
    section=f"{_SECTION}: red",
    prepare=_prepare,
)
def red(state: AgentState, op: Op, address: Any, operand: Any) -> None:
    """As `atom`. A non-negative f32, or NaN, may be raised as its bits."""
    if isinstance(operand, Number):
        if op.data.change.how != "max" or op.data.is_signed or operand.dtype != "f32":
            raise state.violation(op, ".max.u32 finds the larger f32 only if none is negative [atomic-max-sign]")
        rows, values = by_lane(address), np.broadcast_to(operand.payload, 32)
        for lane in active_lane_numbers(state):
            maxima.lift(state, op, int(rows[lane]), values[lane : lane + 1])
        return
    atom(state, op, address, operand)


@TABLE.effects(
    "ld.acquire",
    "ld.relaxed",
    "ld.volatile",
    types=_TYPES,
    words=f"global {_SCOPES}",
    section="Data Movement and Conversion Instructions: ld",
    results=1,
    acts=False,
    prepare=lambda form: form.bits,
)
def ld_strong(state: AgentState, op: Op, address: Any) -> Any:
    """The current word, for each active lane; with .acquire, the writes released with it are known."""
    rows, dtype = by_lane(address), f"i{op.data}"
    found: Any = np.zeros(len(state.lanes), dtype.replace("i", "int"))
    lanes = active_lane_numbers(state)
    for lane in lanes:
        place = int(rows[lane])
        if place < state.machine.memory.origin:
            raise state.violation(op, f"{place:#x} is not an address in global memory [strong-load-space]")
        state.touch(place, ASK)
        found[lane] = seen = semaphores.read(state, op, place, dtype)
        if op.instruction.name.startswith("ld.acquire"):
            semaphores.acquire(state, place)
            if state.machine.order is not None and len(lanes) == 1:
                state.asked = Asked(op, place, seen)
        now = partial(semaphores.read, state, op, place, dtype)
        state.polls.append(Wait(partial(_is_other, now, seen), partial(_why, now), op))
    return int(found[lanes[0]]) if len(lanes) == 1 else found


def _is_other(now: Callable[[], int], seen: int) -> bool:
    return now() != seen


def _why(now: Callable[[], int]) -> str:
    return f"for a semaphore, which is {now()}, to change"
