"""Loads of unwritten bytes. Their registers are undefined (undefined.py).

The PTX ISA does not define the value of such a load, but a program may discard it. So it is an error only where the
value is used. If such a register is stored to shared or local memory, the bytes count as unwritten. In global memory,
the load itself is an error, because the user says which arrays are unwritten.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.agents import AgentState, Causes
from lowtide.interpreter.machine.lanes import by_lane
from lowtide.interpreter.machine.undefined import add, bits_of, stored_slots
from lowtide.interpreter.machine.undefined import lacking as undefined_lanes
from lowtide.interpreter.numbers.accesses import Access, Ints
from lowtide.interpreter.numbers.cells import Cells
from lowtide.interpreter.numbers.codes import UNWRITTEN, ZERO

_CODE = "uninitialised-read"


def load_any(
    state: AgentState, ops: Sequence[Any], cells: Cells, access: Access, rows: Ints, widths: tuple[int, int, int]
) -> tuple[NDArray[Any], str]:
    """As `Cells.load_any`. `widths`: the bytes of an element, the bytes of a register, and the number of registers.

    With the option `unwritten_values`, unwritten bytes are read as zeros, and each register with such a byte becomes
    undefined. Raises the errors of `Cells.load_any`.
    """
    size, width, count = widths
    try:
        return cells.load_any(access, rows, size, width * count // size)
    except InterpreterError as error:
        is_value = state.machine.options.unwritten_values and cells is not state.machine.memory
        if error.code != _CODE or not is_value or len(ops) > 1 or not access.is_plain:
            raise
    at = (rows - cells.origin)[:, None] + np.arange(width * count)
    unwritten = cells.codes[at] == UNWRITTEN
    cells.codes[at[unwritten]] = ZERO
    try:
        found = cells.load_any(access, rows, size, width * count // size)
    finally:
        cells.codes[at[unwritten]] = UNWRITTEN
    first = int(at[unwritten][0])
    _mark(state, ops[0], unwritten, cells.erased.get(first, ops[0]))
    return found


def _mark(state: AgentState, op: Any, unwritten: NDArray[np.bool_], source: Any) -> None:
    """Mark registers of an op that have `unwritten` bytes, an array (rows, bytes), as undefined because of `source`."""
    registers = len(op.results)
    undefined = np.zeros((len(state.lanes), registers), np.bool_)
    active = slice(None) if state.mask is None else state.mask
    undefined[active] = unwritten.reshape(len(unwritten), registers, -1).any(-1)
    for place, slot in enumerate(op.results):  # another part of the lanes may have loaded from another CTA
        add(state.made_undefined.setdefault(slot, Causes()), source, bits_of(undefined[:, place]))


def lacking(state: AgentState, op: Any, values: Sequence[Any]) -> NDArray[np.bool_] | None:
    """The lanes in which each register of a store is undefined or was never written: an array (32, registers).

    None if there are none, and if an undefined register must not be stored there.
    """
    if not state.undefined and all(value is not None for value in values):
        return None
    slots = stored_slots(state, op)
    found = np.zeros((len(state.lanes), len(slots)), np.bool_)
    for place, (slot, value) in enumerate(zip(slots, values, strict=False)):
        if value is None:
            found[:, place] = True
        elif slot is not None and slot in state.undefined:
            found[:, place] = undefined_lanes(state, slot)
    return found if found.any() else None


def erase(state: AgentState, op: Any, cells: Cells, address: Any, width: int, lacks: NDArray[np.bool_]) -> None:
    """After a store of registers of `width` bytes, mark the bytes of undefined registers as unwritten."""
    active = slice(None) if state.mask is None else state.mask
    rows = by_lane(address)[active] - cells.origin
    at = rows[:, None] + np.arange(width * lacks.shape[1])
    lost = at[np.repeat(lacks[active], width, axis=1)]
    cells.codes[lost] = UNWRITTEN
    stored = (slot for slot in stored_slots(state, op) if slot is not None and undefined_lanes(state, slot).any())
    known = next((next(iter(state.undefined[slot])) for slot in stored), op)
    cells.erased.update(dict.fromkeys(lost.tolist(), known))
