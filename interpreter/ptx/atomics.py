"""Atomic operations on words of memory (PTX ISA, "atom", "red").

Each orders threads by its ordering and scope (machine/patterns.py). An atomic operation that changes
nothing may be repeated until it finds another value: a loop of it waits (machine/branches.py).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine import maxima, register_memory, semaphores
from lowtide.interpreter.machine.agents import AgentState, Wait
from lowtide.interpreter.machine.lanes import active_lane_numbers, by_lane
from lowtide.interpreter.machine.semaphores import Change, Place
from lowtide.interpreter.machine.views import Scope, Strong
from lowtide.interpreter.numbers.blending import blend
from lowtide.interpreter.numbers.cells import Cells
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.numbers.registers import SIGNED, Number, canonical, is_raw, raw, unsigned
from lowtide.interpreter.ptx.floats import of_floats
from lowtide.interpreter.ptx.orders import SCOPES, ordering_of
from lowtide.interpreter.ptx.running import Op
from lowtide.interpreter.ptx.spaces import by_memory, cells_of, space_of
from lowtide.interpreter.ptx.strong_accesses import is_other, now, strongly, why
from lowtide.interpreter.ptx.table import Form, Table

TABLE = Table()

_SECTION = "Parallel Synchronization and Communication Instructions"
_SPACES = "global shared shared::cta shared::cluster"
_FURTHER = "L2::cache_hint v2 v4 v8"
_HALVES = "f16 f16x2 bf16 bf16x2"
_TYPES = f"b16 b32 u32 s32 b64 u64 s64 b128 f32 f64 {_HALVES}"
_EXTREMA = "u32 s32 u64 s64"

# The new value of a word, from the old one and the operands: arrays (32,) in the instruction's type.
_CHANGES: Mapping[str, tuple[str, Callable[..., Any]]] = MappingProxyType(
    {
        "add": ("u32 s32 u64 s64", lambda value, other: value + other),
        "inc": ("u32", lambda value, last: np.where(value >= last, np.zeros_like(value), value + 1)),
        "dec": ("u32", lambda value, last: np.where((value == 0) | (value > last), last, value - 1)),
        "min": (_EXTREMA, np.minimum),
        "max": (_EXTREMA, np.maximum),
        "and": ("b32 b64", lambda value, other: value & other),
        "or": ("b32 b64", lambda value, other: value | other),
        "xor": ("b32 b64", lambda value, other: value ^ other),
    }
)
# The same of floats: functions of payloads and a type. If one of two is NaN, the extremum is the other.
_OF_FLOATS: Mapping[str, Callable[[Domain], Callable[..., Any]]] = MappingProxyType(
    {
        "add": lambda domain: domain.add,
        "min": lambda domain: lambda value, other, dtype: domain.min_number(value, other),
        "max": lambda domain: lambda value, other, dtype: domain.max_number(value, other),
    }
)
_FLOATS = f"f32 f64 {_HALVES}"
_MOVES: Mapping[str, str] = MappingProxyType({"exch": "b32 b64 b128", "cas": "b16 b32 b64 b128"})
_NAMES = (*_CHANGES, *_MOVES)
_VECTOR = 128  # bits
_WORD = 4  # bytes of the largest integer that memory holds as one element


@dataclass(frozen=True)
class _Atomic:
    """An atomic operation on words of a state space ("" for generic addresses), and the new value of a register from
    the old one and the operands. `in_turn` does the same for the word of one lane, if it is an integer. `count`: the
    number of elements of a vector, 0 for a scalar. `has_hint`: the last operand is a cache policy. `bits`: of a
    register; 128 bits are in two registers, and registers of them are tuples."""

    change: Change
    function: Callable[..., Any]
    space: str
    bits: int
    type: str
    in_turn: Callable[..., int] | None
    count: int = 0
    has_hint: bool = False

    @property
    def size(self) -> int:
        return self.bits // 8

    @property
    def parts(self) -> int:
        """Registers for one word."""
        return 2 if self.type == "b128" else 1


def _prepare(form: Form) -> _Atomic:
    names = [name for name in _NAMES if name in form.words]
    if len(names) != 1:
        raise form.instruction.error(f"an atomic operation is one of {', '.join(_NAMES)} [atomic-kind]")
    (name,) = names
    count = next((int(word[1:]) for word in form.words if word in ("v2", "v4", "v8")), 0)
    types = (_MOVES[name] if name in _MOVES else _CHANGES[name][0]).split() + _FLOATS.split() * (name == "add")
    types += _HALVES.split() * (count > 0 and name in ("min", "max"))
    if form.type not in types:
        raise form.instruction.error(f".{name} takes {', '.join(types)}, not {form.type} [atomic-type]")
    if ("noftz" in form.words) != (form.type in _HALVES.split()):
        halves = _HALVES.replace(" ", ", ")
        raise form.instruction.error(f"operations on {halves} have .noftz, others do not [atomic-noftz]")
    elements = ("f32",) * (name == "add") + tuple(_HALVES.split()) * (name in ("add", "min", "max"))
    if count and (form.type not in elements or count * form.bits > _VECTOR):
        raise form.instruction.error(
            f".{name} of a vector of {count} {form.type} does not exist; vectors have .add, elements of f32, or .add, "
            f".min, .max, elements of {_HALVES.replace(' ', ', ')}, and at most {_VECTOR // 8} bytes: take scalars"
            " [atomic-vector]"
        )
    change = Change(name, ordering_of(form), form.row.results > 0)
    functions = _function(form, name), _one_by_one(form, name)
    has_hint = "L2::cache_hint" in form.words
    bits = min(form.bits, 64)
    return _Atomic(change, functions[0], space_of(form), bits, form.type, functions[1], count, has_hint)


def _function(form: Form, name: str) -> Callable[..., Any]:
    """Of the values of registers."""
    domain, bits = form.domain, form.bits
    if name == "exch":
        return lambda old, new: new
    if name == "cas" and form.type == "b128":
        return partial(_swapped, domain)
    if name == "cas":
        return lambda old, wanted, new: blend(_raw(old, bits, domain) == _raw(wanted, bits, domain), new, old)
    if form.type in _FLOATS.split():
        return of_floats(form, _OF_FLOATS[name](domain))

    def compute(*values: Any) -> Any:
        words = [_raw(value, bits, domain) for value in values]
        if form.type[0] == "u":
            words = [unsigned(word, bits) for word in words]
        return canonical(_CHANGES[name][1](*words), bits)

    return compute


def _swapped(domain: Any, old: tuple[Any, ...], wanted: tuple[Any, ...], new: tuple[Any, ...]) -> tuple[Any, ...]:
    """.cas of words of two registers."""
    low, high = (_raw(x, 64, domain) == _raw(y, 64, domain) for x, y in zip(old, wanted, strict=True))
    return tuple(blend(low & high, x, y) for x, y in zip(new, old, strict=True))


def _raw(value: Any, bits: int, domain: Any) -> NDArray[Any]:
    """The bits of a register for each lane: array (32,)."""
    words: NDArray[Any] = canonical(by_lane(raw(value, bits, domain)), bits)
    return words


@TABLE.effects(
    "atom",
    types=_TYPES,
    words=f"{_SPACES} relaxed release acquire acq_rel noftz {_FURTHER} {SCOPES} {' '.join(_NAMES)}",
    section=f"{_SECTION}: atom",
    results=1,
    prepare=_prepare,
)
def atom(state: AgentState, op: Op, address: Any, *operands: Any) -> Any:
    """The old value of the word, for the active lanes in turn; together if their words differ."""
    atomic: _Atomic = op.data
    operands = operands[:-1] if atomic.has_hint else operands
    if not atomic.count:
        return _atom_at(state, op, address, operands)
    elements = enumerate(zip(*operands, strict=True))
    return tuple([_atom_at(state, op, address + at * atomic.size, each) for at, each in elements])


def _atom_at(state: AgentState, op: Op, address: Any, operands: tuple[Any, ...]) -> Any:
    """`atom` of one element for each lane."""
    atomic: _Atomic = op.data
    has_run, old = by_memory(
        state, op, atomic.space, address, lambda space, there: _atom(state, op, space, there, operands)
    )
    return old if has_run else _atom(state, op, atomic.space, address, operands)


def _atom(state: AgentState, op: Op, space: str, address: Any, operands: tuple[Any, ...]) -> Any:
    """`atom` on words of a state space. If `state.remote` is set, they are in the shared memory of that CTA."""
    cells, rows = cells_of(state, op, space, by_lane(address))
    if cells.words is None:
        raise state.violation(op, "atomic operations are on global and shared memory [atomic-space]")
    outer, found = state.mask, None
    lanes = active_lane_numbers(state)
    if len({*rows[lanes].tolist()}) < len(lanes):
        found = _apply_in_turn(state, op, cells, rows, operands)
    try:
        for mask in _turns(state, rows) if found is None else ():
            state.mask = mask
            old = _apply(state, op, cells, rows, operands)
            found = old if found is None else _blended(mask, old, found)
    finally:
        state.mask = outer
    if outer is None:
        state.cta.shared.clocks.settle(state.warp, state.count)
    return found


def _blended(mask: Any, old: Any, found: Any) -> Any:
    if isinstance(old, tuple):
        return tuple(blend(mask, x, y) for x, y in zip(old, found, strict=True))
    return blend(mask, old, found)


def _apply_in_turn(state: AgentState, op: Op, cells: Cells, rows: NDArray[Any], operands: tuple[Any, ...]) -> Any:
    """As `_apply` for each active lane in turn, with one load and one store of all words. Returns the old values.

    Returns None if `_apply` must be used: for operands that are not integers, or if a rule is broken.
    """
    atomic: _Atomic = op.data
    size, change, lanes = atomic.size, atomic.change, active_lane_numbers(state)
    is_narrow = change.ordering.scope < Scope.gpu  # then what a lane acquires may order the access of the next one
    if atomic.in_turn is None or is_narrow or not all(map(is_raw, operands)):
        return None
    old, ends = np.zeros(len(state.lanes), SIGNED[atomic.bits]), np.zeros(len(state.lanes), SIGNED[atomic.bits])
    try:
        with strongly(state, Strong(change.ordering.scope, size, is_atomic=True)):
            ((loaded,),) = register_memory.load(state, (op,), cells, (rows,), size, 1)
            given = [_raw(operand, atomic.bits, state.machine.domain).tolist() for operand in operands]
            words = _raw(loaded, atomic.bits, state.machine.domain)
            present = {int(rows[lane]): int(words[lane]) for lane in lanes}
            for lane in lanes:
                at = int(rows[lane])
                old[lane], present[at] = present[at], atomic.in_turn(present[at], *(each[lane] for each in given))
                ends[lane] = present[at]
            if not (ends[lanes].all() or change.ordering.releases) or (change.asks and size > _WORD):
                return None
            changed = ends != old
            for lane in lanes:
                ends[lane] = present[int(rows[lane])]
            register_memory.store(state, (op,), cells, (rows,), ((ends,),), size)
    except InterpreterError:
        return None
    for lane in lanes:
        place = Place(cells, int(rows[lane]), size)
        semaphores.before(state, place, lane, change)
        semaphores.after(state, op, place, lane, change)
        if change.asks and not changed[lane]:
            seen = (float(old[lane]), *now(place)[1:])
            state.polls.append(Wait(partial(is_other, place, seen), partial(why, place), op))
    state.changes += bool(changed[lanes].any())
    return old


def _one_by_one(form: Form, name: str) -> Callable[..., int] | None:
    """The new value of an integer word, signed, from the old one and the operands; None for floats and cas."""
    bits, is_unsigned = form.bits, form.type[0] == "u"
    if name == "cas" or form.type == "b128":
        return None
    if name == "exch":
        return lambda old, new: new
    if form.type in _FLOATS.split():
        return None
    function = _CHANGES[name][1]

    def compute(*words: int) -> int:
        return int(canonical(int(function(*(unsigned(word, bits) if is_unsigned else word for word in words))), bits))

    return compute


def _turns(state: AgentState, rows: NDArray[Any]) -> Iterator[Any]:
    """The masks of lanes that act at once: all if their words differ, else one after the other."""
    lanes = active_lane_numbers(state)
    if len({*rows[lanes].tolist()}) == len(lanes):
        yield state.mask
        return
    for lane in lanes:
        yield np.arange(len(state.lanes)) == lane


def _apply(state: AgentState, op: Op, cells: Cells, rows: NDArray[Any], operands: tuple[Any, ...]) -> Any:
    """Change a word for each active lane; returns the old values."""
    atomic: _Atomic = op.data
    size, change, parts = atomic.size, atomic.change, atomic.parts
    lanes = active_lane_numbers(state)
    places = [(lane, Place(cells, int(rows[lane]) + size * part, size)) for lane in lanes for part in range(parts)]
    before = [now(place) for _, place in places]
    with strongly(state, Strong(change.ordering.scope, size, is_atomic=True)):
        (loaded,) = register_memory.load(state, (op,), cells, (rows,), size, parts)
        for lane, place in places:
            semaphores.before(state, place, lane, change)
        old = loaded if parts > 1 else loaded[0]
        new = atomic.function(old, *operands)
        stored = [
            register_memory.narrowed(x, atomic.bits, state.machine.domain) for x in (new if parts > 1 else (new,))
        ]
        register_memory.store(state, (op,), cells, (rows,), (stored,), size)
    for number, (lane, place) in enumerate(places):
        semaphores.after(state, op, place, lane, change)
        word = slice(number - number % parts, number - number % parts + parts)
        is_same = all(now(each) == seen for (_, each), seen in zip(places[word], before[word], strict=True))
        state.changes += not is_same
        if change.asks and is_same:
            state.polls.append(Wait(partial(is_other, place, before[number]), partial(why, place), op))
    return old


@TABLE.effects(
    "red",
    types=_TYPES,
    words=f"{_SPACES} relaxed release noftz {_FURTHER} {SCOPES} {' '.join(_CHANGES)}",
    section=f"{_SECTION}: red",
    prepare=_prepare,
)
def red(state: AgentState, op: Op, address: Any, operand: Any, *hint: Any) -> None:
    """As `atom`. A non-negative f32, or NaN, may be raised as its bits."""
    atomic: _Atomic = op.data
    if isinstance(operand, Number) and atomic.type not in _FLOATS.split():
        if atomic.change.how != "max" or atomic.type != "u32" or operand.dtype != "f32":
            raise state.violation(op, ".max.u32 finds the larger f32 only if none is negative [atomic-max-sign]")
        rows, values = by_lane(address), np.broadcast_to(operand.payload, 32)
        for lane in active_lane_numbers(state):
            maxima.lift(state, op, int(rows[lane]), values[lane : lane + 1], lane)
        return
    atom(state, op, address, operand, *hint)
