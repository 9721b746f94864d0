"""Registers that are undefined in some lanes: what a shuffle reads from a lane that is no member.

PTX ISA, "shfl.sync". Such a value may be computed with, moved and dropped. It is an error when it reaches an address,
a store, a branch, a guard, or another instruction with an effect.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.numbers.cells import Described

Lanes = NDArray[np.bool_]


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
        raise state.violation(
            op,
            f"uses an undefined register in lanes {np.flatnonzero(active).tolist()}: it depends on what "
            f"{source.describe()} read from a lane outside of its member mask [undefined-used]",
        )


def before(state: AgentState, op: Any) -> tuple[Lanes, Lanes, Any]:
    """Checks an instruction with an effect. Returns the lanes that execute it, those in which the result of one without
    is undefined, and the source of that."""
    lanes = executing(state, op)
    undefined, source = np.zeros(lanes.shape, np.bool_), None
    name = op.instruction.name
    for place, slot in enumerate(op.sources):
        found = state.undefined.get(slot)
        if found is None:
            continue
        mask, source = found
        if name.startswith("selp.") and place < 2:
            condition = np.broadcast_to(np.asarray(state.values[op.sources[-1]], np.bool_), lanes.shape)
            mask = mask & (condition if place == 0 else ~condition)
        undefined = undefined | mask
        if not op.computes and not (name.startswith("shfl.") and place == 0):
            check(state, op, slot, lanes)
    return lanes, undefined if op.computes else np.zeros(lanes.shape, np.bool_), source


def after(state: AgentState, op: Any, lanes: Lanes, undefined: Lanes, source: Any) -> None:
    """Note the lanes in which the results are undefined; other lanes keep what they were."""
    if state.made_undefined is not None:
        (undefined, source), state.made_undefined = state.made_undefined, None
    for slot in op.results:
        old = state.undefined.pop(slot, None)
        now = undefined & lanes
        if old is not None:
            now = now | (old[0] & ~lanes)
        if now.any():
            state.undefined[slot] = now, source if source is not None else old[1] if old is not None else op
