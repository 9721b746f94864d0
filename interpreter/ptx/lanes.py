"""Registers exchanged between the lanes of a warp (PTX ISA, "shfl.sync", "vote.sync", "match.sync", "redux.sync").

Lowtide's own kernels read only their own lane (`sm.ptx_keep_pair`); kernels of other compilers use the rest.
"""

import operator
from collections.abc import Callable, Mapping
from functools import reduce
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.interpreter.machine.agents import AgentState, Causes
from lowtide.interpreter.machine.barriers import elect
from lowtide.interpreter.machine.convoys import Convoy
from lowtide.interpreter.machine.lanes import by_lane
from lowtide.interpreter.machine.members import Groups, bits_of_lanes, groups_of
from lowtide.interpreter.machine.teams import WARP
from lowtide.interpreter.machine.undefined import add, bits_of
from lowtide.interpreter.numbers import registers
from lowtide.interpreter.numbers.registers import Number, canonical, number, raw, unsigned
from lowtide.interpreter.program.batches import NotTogether
from lowtide.interpreter.ptx.running import Op
from lowtide.interpreter.ptx.syntax import Group, Register
from lowtide.interpreter.ptx.table import Form, Table

TABLE = Table()

_SECTION = "Data Movement and Conversion Instructions"
_PARALLEL = "Parallel Synchronization and Communication Instructions"

# Of two registers, in the instruction's type.
_REDUCTIONS: Mapping[str, Callable[[int, int], int]] = MappingProxyType(
    {
        "min": min,
        "max": max,
        "add": operator.add,
        "and": operator.and_,
        "or": operator.or_,
        "xor": operator.xor,
    }
)


def _is_pair(form: Form) -> bool:
    """Whether an instruction has two results: a|p."""
    return isinstance(form.instruction.operands[0], Group)


# Shuffles -------------------------------------------------------------------------------------------------------------


def _shuffle(form: Form) -> tuple[str, bool, bool]:
    mode = next(word for word in ("up", "down", "bfly", "idx") if word in form.words)
    return mode, _is_pair(form), form.are_places


@TABLE.effects(
    "shfl.sync",
    types="b32",
    words="up down bfly idx",
    section=f"{_SECTION}: shfl.sync",
    results=1,
    acts=False,
    is_wide=True,
    prepare=_shuffle,
)
def shfl(state: AgentState, op: Op, value: Any, offset: Any, clamp: Any, members: Any) -> Any:
    """Each lane reads the register of another lane of its segment; outside of it, its own, and the predicate, if there
    is one, is false. If all read one lane, the result is uniform."""
    groups = groups_of(state, op, members)
    count, (mode, is_pair, are_places) = len(state.lanes), op.data
    if groups is not None and count > WARP:
        raise NotTogether
    lane = np.arange(count) % WARP
    offset, clamp = by_lane(offset, count) & 31, by_lane(clamp, count).astype(np.int64)
    segment, limit = clamp >> 8 & 31, clamp & 31
    first, last = lane & segment, (lane & segment) | (limit & ~segment)
    source = {"up": lane - offset, "down": lane + offset, "bfly": lane ^ offset, "idx": first | (offset & ~segment)}
    found = source[mode]
    inside = found >= last if mode == "up" else found <= last
    chosen = np.where(inside, found, lane)
    if count > WARP:  # several warps
        result = registers.of_lanes(value, chosen + np.arange(count) // WARP * WARP)
        return (result, inside) if is_pair else result
    chosen = _defined(state, op, chosen, groups, are_places)
    if groups is None and (chosen == chosen[0]).all():
        result = registers.of_lane(value, int(chosen[0]))
    else:
        result = registers.of_lanes(value, chosen)
    return (result, inside) if is_pair else result


def _defined(state: AgentState, op: Op, chosen: NDArray[Any], groups: Groups, are_places: bool) -> NDArray[Any]:
    """The lanes to read. What a lane reads from a lane that is no member, or from an undefined register, is undefined;
    it reads its own register then."""
    lane = state.lanes.astype(np.int64)
    undefined = np.zeros(32, np.bool_) if groups is None else groups.any(axis=1) & ~groups[lane, chosen]
    if undefined.any() and not are_places:
        raise state.violation(
            op, f"lanes {np.flatnonzero(undefined).tolist()} read lanes outside of their member masks [shuffle-outside]"
        )
    chosen = np.where(undefined, lane, chosen)
    causes = Causes({op: bits_of(undefined)} if undefined.any() else {})
    operand = op.instruction.operands[1]
    if state.undefined and isinstance(operand, Register):
        for source, origins in state.undefined.get(op.sources[0], {}).items():
            add(causes, source, origins[chosen])
    if causes:
        state.made_undefined = dict.fromkeys(op.results, causes)
    return chosen


# Votes ----------------------------------------------------------------------------------------------------------------


@TABLE.effects(
    "vote.sync",
    words="all any uni ballot pred b32",
    section=f"{_PARALLEL}: vote.sync",
    results=1,
    acts=False,
    prepare=lambda form: next(word for word in ("all", "any", "uni", "ballot") if word in form.words),
)
def vote(state: AgentState, op: Op, condition: Any, members: Any) -> Any:
    return _voted(op.data, np.broadcast_to(np.asarray(condition, np.bool_), (32,)), groups_of(state, op, members))


def _voted(how: str, holds: NDArray[np.bool_], groups: Groups) -> Any:
    if groups is None:
        results = {"all": holds.all(), "any": holds.any(), "uni": holds.all() or not holds.any()}
        return bits_of_lanes(holds) if how == "ballot" else bool(results[how])
    some, every = (groups & holds).any(axis=1), (~groups | holds).all(axis=1)
    if how == "ballot":
        return bits_of_lanes(groups & holds)
    return {"all": every, "any": some, "uni": every | ~some}[how]


@TABLE.effects("activemask", types="b32", section=f"{_PARALLEL}: activemask", results=1, acts=False)
def activemask(state: AgentState, op: Op) -> int:
    """The lanes that execute it now."""
    active = np.ones(32, np.bool_) if state.mask is None else state.mask
    return int(bits_of_lanes(active))


def _elect_together(convoy: Convoy, op: Op) -> None:
    """elect.sync by the warps of a convoy, each with all its lanes."""
    members = op.readers[0](convoy.values)
    if not isinstance(members, int) or not convoy.apart.isdisjoint(op.operands):
        convoy.run_each(op)
        return
    for state in convoy.each(op):
        groups_of(state, op, members)
    convoy.give(op, (0, convoy.lanes % WARP == 0))


@TABLE.effects("elect.sync", by_convoy=_elect_together, section=f"{_PARALLEL}: elect.sync", results=1, acts=False)
def elect_sync(state: AgentState, op: Op, members: Any) -> tuple[Any, Any]:
    """The number of the elected lane, and true only for it."""
    chosen, groups = elect(state, op, members), groups_of(state, op, members)
    return int(np.argmax(chosen)) if groups is None else groups.argmax(axis=1).astype(np.int32), chosen


# Comparisons and reductions -------------------------------------------------------------------------------------------


@TABLE.effects(
    "match.any.sync",
    "match.all.sync",
    types="b32 b64",
    section=f"{_PARALLEL}: match.sync",
    results=1,
    acts=False,
    prepare=lambda form: (form.bits, _is_pair(form)),
)
def match(state: AgentState, op: Op, value: Any, members: Any) -> Any:
    """The lanes of the group that have the same value (any); or all lanes of the group if they have one value, else
    none (all), with a predicate that says whether."""
    bits, is_pair = op.data
    groups = groups_of(state, op, members)
    rows = by_lane(raw(value, bits, state.machine.domain))
    together = np.ones((32, 32), np.bool_) if groups is None else groups
    alike = together & (rows[:, None] == rows[None, :])
    if op.instruction.name.startswith("match.any"):
        return bits_of_lanes(alike)
    whole = (alike == together).all(axis=1)
    found = bits_of_lanes(together & whole[:, None])
    return (found, whole) if is_pair else found


def _redux(form: Form) -> tuple[str, str, frozenset[str]]:
    name, further = next(word for word in _REDUCTIONS if word in form.words), form.words & {"abs", "NaN"}
    return name, form.type, further


@TABLE.effects(
    "redux.sync",
    types="u32 s32 b32 f32",
    words="min max add and or xor abs NaN",
    section=f"{_PARALLEL}: redux.sync",
    results=1,
    acts=False,
    prepare=_redux,
)
def redux(state: AgentState, op: Op, value: Any, members: Any) -> Any:
    """Over the registers of all lanes of a group. Non-negative floats, and NaN, have the order of their bits."""
    groups = groups_of(state, op, members)
    (name, type, _), domain = op.data, state.machine.domain
    if type == "f32":
        return _reduced_floats(state, op, value, groups)
    if isinstance(value, Number):
        if name != "max":
            raise state.violation(op, f"only .max reduces floats to floats, not .{name} [redux-floats]")
        payload = np.broadcast_to(np.asarray(value.payload), (32,))
        return Number(_by_group(payload, groups, lambda part: reduce(domain.maximum, part)), value.dtype)
    lanes = by_lane(raw(value, 32, domain))

    def reduced(part: NDArray[Any]) -> int:
        given = [int(canonical(each, 32) if type[0] == "s" else unsigned(each, 32)) for each in part.tolist()]
        return int(canonical(reduce(_REDUCTIONS[name], given), 32))

    found = _by_group(lanes, groups, reduced)
    return canonical(found, 32) if isinstance(found, np.ndarray) else found


def _reduced_floats(state: AgentState, op: Op, value: Any, groups: Groups) -> Number:
    """The least or greatest f32 of a group, with .abs of magnitudes. A NaN is left out, unless .NaN is given."""
    (name, type, words), domain = op.data, state.machine.domain
    choose = getattr(domain, f"{name}imum" if "NaN" in words else f"{name}_number")
    payload = np.broadcast_to(np.asarray(number(value, type, domain)), (32,))
    payload = np.abs(payload) if "abs" in words else payload
    return Number(_by_group(payload, groups, lambda part: reduce(choose, part)), type)


def _by_group(values: NDArray[Any], groups: Groups, function: Callable[[NDArray[Any]], Any]) -> Any:
    """The function's result for the values of each lane's group: one, or an array (32,)."""
    if groups is None:
        return function(values)
    found = np.zeros(32, values.dtype)
    for row in np.unique(groups[groups.any(axis=1)], axis=0):
        found[row] = function(values[row])
    return found
