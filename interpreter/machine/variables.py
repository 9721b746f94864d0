"""Variables of modules in global memory, and the memory of each thread (PTX ISA, "State Spaces").

A variable without an initializer is zero. Constant memory is a part of global memory.
"""

from typing import Any

import numpy as np

from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.global_memory import GlobalMemory
from lowtide.interpreter.machine.lanes import by_lane
from lowtide.interpreter.numbers.accesses import Described
from lowtide.interpreter.numbers.cells import Cells
from lowtide.interpreter.numbers.codes import CODES, CONTINUED, ELEMENT_BYTES, ZERO
from lowtide.interpreter.program.program import GlobalVariable, Program

_POINTER = 8
_WORD = 4  # bytes of the largest integers that a memory with floats as payload holds


def addresses(memory: GlobalMemory, program: Program) -> dict[str, int]:
    """The addresses of a program's variables in global memory, which it places there before the first launch."""
    known, missing = memory.variables, [each for each in program.globals.values() if each.key not in memory.variables]
    for each in missing:
        known[each.key] = start = memory.allocate_bytes(each.name, each.size)
        memory.constants += [range(start, start + each.size)] if each.space == "const" else []
    found = {name: known[each.key] for name, each in program.globals.items()}
    for each in missing:
        _fill(memory, each, found)
    return found


def _fill(memory: GlobalMemory, variable: GlobalVariable, found: dict[str, int]) -> None:
    """Write the initial contents."""
    start = memory.variables[variable.key] - memory.origin
    width = ELEMENT_BYTES[variable.type] if variable.type else 1
    codes = np.full(variable.size, CONTINUED if variable.type else ZERO, np.uint8)
    codes[::width] = CODES[variable.type] if variable.type else ZERO
    payload = np.zeros(variable.size, memory.payload.dtype)
    if any(variable.contents):
        is_float = variable.type[:1] == "f" and payload.dtype.kind == "f"  # else bits, read as numbers later
        unit = min(width, _WORD) if not is_float else width
        values = np.frombuffer(variable.contents, f"{'f' if is_float else 'i'}{unit}")
        codes[:] = CONTINUED
        codes[::unit] = CODES[variable.type if is_float else f"i{8 * unit}"]
        payload[::unit] = values
    for offset, name, further in variable.pointers:
        words = np.array([found[name] + further], np.int64).view(np.int32)
        codes[offset : offset + _POINTER] = CONTINUED
        codes[offset : offset + _POINTER : _WORD] = CODES["i32"]
        payload[offset : offset + _POINTER : _WORD] = words
    memory.codes[start : start + variable.size] = codes
    memory.payload[start : start + variable.size] = payload


class LocalMemory(Cells):
    """The memory of each thread of an agent: `size` bytes for each of its lanes, one after the other."""

    def __init__(self, size: int, lanes: int, payload: Any) -> None:
        super().__init__("local memory", 0, size * lanes, payload)
        self.each = size


def local_rows(state: AgentState, op: Described, address: Any) -> tuple[LocalMemory, Any]:
    """The agent's local memory, and the address there for each lane's address in its own. Raises InterpreterError."""
    memory: LocalMemory | None = state.local
    rows = by_lane(address)
    active = rows if state.mask is None else rows[state.mask]
    size = 0 if memory is None else memory.each
    if memory is None or ((active < 0) | (active >= size)).any():
        wrong = int(active[(active < 0) | (active >= size)][0])
        raise state.violation(
            op, f"out of bounds: byte {wrong} of a thread's local memory of {size} bytes [local-out-of-bounds]"
        )
    return memory, rows + state.lanes.astype(np.int64) * size
