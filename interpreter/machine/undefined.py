"""Registers that are undefined in some lanes: after a shuffle from a lane outside its member mask (PTX ISA,
"shfl.sync"), and after a load of unwritten memory (unwritten.py).

A program may compute with such a value, move it and discard it. It is an error if an address, a store, a branch, a
guard, or another instruction with an effect uses it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.numbers.accesses import Described

Lanes = NDArray[np.bool_]

_BITS = (int, bool, np.ndarray, np.generic)
_CHOOSING = ("selp", "and", "or")
_OWN = frozenset({"shared", "shared::cta", "local"})
_STRONG = frozenset({"relaxed", "release", "volatile", "async", "bulk"})


def flatten(op: Any) -> tuple[Any, ...]:
    """The instructions of a batch, or the instruction."""
    ops: tuple[Any, ...] = getattr(op, "ops", (op,))
    return ops


def executing(state: AgentState, op: Any) -> Lanes:
    """The lanes that execute an instruction, by its guard too. Raises InterpreterError for an undefined guard."""
    lanes = np.ones(len(state.lanes), np.bool_) if state.mask is None else state.mask
    slot = getattr(op, "guard", None)
    if slot is None:
        return lanes
    check(state, op, slot, lanes)
    holds = np.broadcast_to(np.asarray(state.values[slot], np.bool_), lanes.shape)
    return lanes & (holds != op.instruction.guard.negated)


def check(state: AgentState, op: Described, slot: int, lanes: Lanes | None = None) -> None:
    """Raise InterpreterError if the register in a slot is undefined in some of these lanes, by default the active."""
    found = state.undefined.get(slot)
    if found is None:
        return
    mask, source = found
    running = state.mask if lanes is None else lanes
    active = mask if running is None else mask & running
    if active.any():
        used = f"uses an undefined register in lanes {np.flatnonzero(active).tolist()}: it depends on what "
        if source.name.startswith("shfl."):
            raise state.violation(
                op, f"{used}{source.describe()} read from a lane outside of its member mask [undefined-used]"
            )
        stores = source.name.startswith("st.")
        did = "stored from a register that was never written" if stores else "read from unwritten memory"
        raise state.violation(op, f"{used}{source.describe()} {did} [unwritten-used]")


def stored_slots(state: AgentState, op: Any) -> list[int | None]:
    """The slot of each register that a weak store to shared or local memory stores; None for a constant.

    It is no error if such a register is undefined: the memory then counts as unwritten. Empty for other instructions.
    """
    words = op.instruction.name.split(".")
    if not state.machine.options.unwritten_values or words[0] != "st" or not _OWN.intersection(words):
        return []
    if _STRONG.intersection(words) or len(op.instruction.operands) != 2:
        return []
    address, value = op.instruction.operands
    slots = iter(op.sources[int(hasattr(address.base, "slot")) :])
    return [next(slots) if hasattr(each, "slot") else None for each in getattr(value, "elements", (value,))]


def before(state: AgentState, op: Any) -> tuple[Lanes, Lanes, Any]:
    """Checks an instruction with an effect. Returns the lanes that execute it, those in which the result of one without
    is undefined, and the source of that."""
    lanes = executing(state, op)
    undefined, source = np.zeros(lanes.shape, np.bool_), None
    words, kept = op.instruction.name.split("."), stored_slots(state, op)
    places = _operands(op) if words[0] in _CHOOSING else []
    for place, slot in enumerate(op.sources):
        found = state.undefined.get(slot)
        if found is None:
            continue
        mask, source = found
        if places:
            mask = mask & _matters(state, op, words, places, slot)
        undefined = undefined | mask
        if not op.computes and not (words[0] == "shfl" and place == 0) and slot not in kept:
            check(state, op, slot, lanes)
    return lanes, undefined if op.computes else np.zeros(lanes.shape, np.bool_), source


def _operands(op: Any) -> list[int | None]:
    """The slot of each operand of an instruction that computes; None for a constant."""
    registers = [getattr(each, "register", each) for each in op.instruction.operands[1:]]
    slots = iter(op.sources)
    return [next(slots) if hasattr(each, "slot") else None for each in registers]


def _matters(state: AgentState, op: Any, words: list[str], places: list[int | None], slot: int) -> Lanes:
    """The lanes in which the result of `selp`, `and` or `or` depends on the operand in `slot`."""
    values = [read(state.values) for read in op.readers]
    if words[0] == "selp":
        condition = np.broadcast_to(np.asarray(values[2], np.bool_), state.lanes.shape)
        taken = condition if slot == places[0] else np.zeros_like(condition)
        return taken | (~condition if slot == places[1] else False) | (slot == places[2])
    decides: Any = 0 if words[0] == "and" else 1 if words[-1] == "pred" else -1
    matters = np.ones(state.lanes.shape, np.bool_)
    for value, other in zip(values, places, strict=True):
        if other != slot and other not in state.undefined and isinstance(value, _BITS):
            matters &= np.asarray(value) != decides
    return matters


def after(state: AgentState, op: Any, lanes: Lanes, undefined: Lanes | None = None, source: Any = None) -> None:
    """Note the lanes in which the results are undefined; other lanes keep what they were."""
    made, state.made_undefined = state.made_undefined, {}
    nowhere = np.zeros(lanes.shape, np.bool_) if undefined is None else undefined
    for slot in op.results:
        old = state.undefined.pop(slot, None)
        here, why = made.get(slot, (nowhere, source))
        now = here & lanes
        if old is not None:
            now = now | (old[0] & ~lanes)
        if now.any():
            state.undefined[slot] = now, why if why is not None else old[1] if old is not None else op
