"""The memory by which the CTAs of a cooperative launch wait for each other, as `grid.sync()` of CUDA C++ does.

The driver places it, and gives its address in %envreg1 (upper half) and %envreg2 (lower half). It has two words: its
size, and a counter of arrivals, which is zero at the start of a launch. Code finds no workspace at address 0.
"""

from lowtide.interpreter.machine.global_memory import GlobalMemory
from lowtide.interpreter.numbers.codes import CODES, CONTINUED

_BYTES, _WORD = 8, 4


def place_workspace(memory: GlobalMemory) -> int:
    """The address of a new workspace."""
    address = memory.allocate_bytes("grid workspace", _BYTES)
    start = address - memory.origin
    memory.codes[start : start + _BYTES] = CONTINUED
    memory.codes[start : start + _BYTES : _WORD] = CODES[f"i{8 * _WORD}"]
    memory.payload[start : start + _BYTES] = 0
    memory.payload[start] = _BYTES
    return address
