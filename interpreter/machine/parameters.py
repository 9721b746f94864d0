"""Parameters of a kernel as memory, for code that takes their addresses (PTX ISA, "Parameter State Space", "cvta").

Their bytes are in global memory from the start of a launch on, as those of constants are. A tensor map has an address
of its own, or one in the struct that holds it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lowtide.interpreter.machine.agents import Machine
from lowtide.interpreter.numbers.cells import CODES, CONTINUED
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.numbers.registers import Number
from lowtide.interpreter.program.program import Program

_WORD = 4  # bytes of the integers by which memory holds them


def places(machine: Machine, program: Program, arguments: Sequence[Any]) -> dict[int, Any]:
    """The addresses of those parameters whose addresses the kernel takes, by number; placed once for a launch. None for
    a tensor map that is not in memory."""
    known = machine.parameters
    for number, size in program.placed.items():
        value = arguments[number]
        if number not in known and isinstance(value, int | Number):  # else a tensor map
            known[number] = _placed(machine, number, value, size)
    return {number: known[number].start if number in known else arguments[number].at for number in program.placed}


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
