"""Small memories, and accesses to them, for the tests of memory's rules."""

from collections.abc import Iterable

import numpy as np

from lowtide.interpreter.machine.global_memory import GlobalMemory
from lowtide.interpreter.machine.memory import SharedMemory
from lowtide.interpreter.numbers.accesses import Access

LANES = np.arange(32)


class NamedOp:
    def describe(self) -> str:
        return "the op"


def by(warp: int = 0, lanes: Iterable[int] = range(32), cta: int = 0) -> Access:
    return Access(cta, warp, np.array(list(lanes)), NamedOp())


def together(warp: int = 0, cta: int = 0) -> Access:
    return Access(cta, warp, None, NamedOp())


def shared(warps: int = 4) -> SharedMemory:
    memory = SharedMemory(warps, 4096)
    memory.place("tile", 0, 2048)
    return memory


def written(warp: int = 0) -> SharedMemory:
    """16 bytes by each lane of a warp: lane l holds 8 l … 8 l + 7."""
    memory = shared()
    memory.store(by(warp), LANES * 16, np.arange(256.0).reshape(32, 8), "bf16", 8)
    return memory


def matrix_of_rows() -> tuple[GlobalMemory, int]:
    """16 rows of 24 bf16, 32 from row to row."""
    memory = GlobalMemory()
    return memory, memory.allocate("a", 16, 24, 32, "bf16", np.arange(16.0 * 24).reshape(16, 24))
