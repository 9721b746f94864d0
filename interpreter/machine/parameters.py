"""Parameters of a kernel as memory, for code that takes their addresses (PTX ISA, "Parameter State Space", "cvta").

Their bytes are in global memory from the start of a launch on, as those of constants are. A tensor map has an address
of its own, or one in the struct that holds it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lowtide.interpreter.machine.agents import AgentState, Machine
from lowtide.interpreter.machine.lanes import by_lane
from lowtide.interpreter.machine.teams import WARP
from lowtide.interpreter.numbers.accesses import Described
from lowtide.interpreter.numbers.codes import CODES, CONTINUED
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.numbers.registers import Number
from lowtide.interpreter.program.program import Program

_WORD = 4  # bytes of the integers by which memory holds them
_NEAR = 1 << 15  # bytes; a wrong address up to here after the start of a parameter is said by its distance


def places(machine: Machine, program: Program, arguments: Sequence[Any]) -> dict[int, Any]:
    """The addresses of those parameters whose addresses the kernel takes, by number; placed once for a launch. None for
    a tensor map that is not in memory."""
    known = machine.parameters
    for number, size in program.placed.items():
        value = arguments[number]
        if number in known:
            continue
        if isinstance(value, int | Number):
            known[number] = _placed(machine, number, value, size)
        elif value.at is not None:  # a tensor map
            known[number] = range(value.at, value.at + size)
    return {number: known[number].start if number in known else None for number in program.placed}


def inside_parameters(state: AgentState, op: Described, address: Any) -> Any:
    """The address of an access by ld.param. Raises InterpreterError if it is in no parameter in an active lane."""
    rows = by_lane(address, len(state.lanes))
    outside = np.ones(len(rows), np.bool_) if state.mask is None else state.mask.copy()
    for each in state.machine.parameters.values():
        outside &= (rows < each.start) | (rows >= each.stop)
    if outside.any():
        lane, wrong = int(np.argmax(outside)) % WARP, int(rows[outside][0])
        before = [each for each in state.machine.parameters.items() if 0 <= wrong - each[1].start < _NEAR]
        number, at = max(before, key=lambda each: each[1].start, default=(0, range(wrong, wrong)))
        where = f"byte {wrong - at.start} of parameter {number}, which has {len(at)}" if before else f"address {wrong}"
        rule = "ld.param reads bytes of parameters whose addresses the kernel takes, and no others [parameter-outside]"
        raise state.violation(op, f"lane {lane}: reads {where}; {rule}")
    return address


def _placed(machine: Machine, number: int, value: Any, size: int) -> range:
    """Write the bytes of a parameter to a new place in memory; returns their addresses."""
    memory = machine.memory
    address = memory.allocate_bytes(f"parameter {number}", -(-size // _WORD) * _WORD)
    data = _bits(value, machine.domain) & (1 << 8 * size) - 1
    words = np.frombuffer(data.to_bytes(-(-size // _WORD) * _WORD, "little"), f"i{_WORD}")
    at = slice(address - memory.origin, address - memory.origin + _WORD * len(words))
    memory.codes[at] = CONTINUED
    memory.codes[at][::_WORD] = CODES[f"i{8 * _WORD}"]
    memory.payload[at][::_WORD] = words
    memory.parameter_maps.update({address + offset: map for offset, map in getattr(value, "maps", {}).items()})
    return range(address, address + size)


def _bits(value: Any, domain: Domain) -> int:
    return int(domain.to_bits(np.array([value.payload]), value.dtype)[0]) if isinstance(value, Number) else int(value)
