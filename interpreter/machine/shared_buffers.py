"""Buffers in shared memory as values, read and written as a whole by an agent that is a whole CTA."""

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.memory import InFlight
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.program import Program
from lowtide.interpreter.program.types import MemRef

Ints = NDArray[np.int64]


class Right(Protocol):
    """The temporary right of an agent to use the buffers of a ring's slot (`rings.SlotRight`)."""

    def check(self, state: AgentState, op: DecodedOp, use: str) -> None:
        """Raise InterpreterError unless the slot may now be used in this way ("read", "write")."""

    def start(self, copy: InFlight) -> None:
        """A copy into the slot has started; it is in flight until the slot is waited for."""


@dataclass(frozen=True, slots=True)
class SharedBuffer:
    """A memref in shared memory: its first byte, its type and, in a slot of a ring, the right to use it."""

    address: int
    type: MemRef
    right: Right | None = None

    def check(self, state: AgentState, op: DecodedOp, use: str) -> None:
        """Raise InterpreterError if a slot's buffer may not be used ("read", "write") now."""
        if self.right is not None:
            self.right.check(state, op, use)

    def chunks(self) -> tuple[Ints, int]:
        """Byte addresses of runs of contiguous elements, in coordinate order, and the elements of a run."""
        layout = self.type.layout
        assert layout is not None
        starts, length = layout.runs
        return self.address + starts * self.type.element.bytes, length

    def addresses(self, rows: Ints, columns: Ints) -> Ints:
        """Byte addresses of elements."""
        assert self.type.layout is not None
        return self.address + self.type.layout.table[rows, columns] * self.type.element.bytes


def load_buffer(state: AgentState, op: DecodedOp, buffer: SharedBuffer) -> NDArray[Any]:
    """A whole buffer, read by the whole agent: payload of its shape."""
    buffer.check(state, op, "read")
    addresses, length = buffer.chunks()
    payload = state.cta.shared.load(state.access(op), addresses, buffer.type.element.name, length)
    return payload.reshape(buffer.type.shape)


def store_buffer(
    state: AgentState, op: DecodedOp, buffer: SharedBuffer, payload: NDArray[Any], first_row: int = 0
) -> None:
    """Write the rows of a buffer from `first_row` on; the agent writes its share of them. `payload` has all rows."""
    buffer.check(state, op, "write")
    addresses, length = buffer.chunks()
    skipped = first_row * len(addresses) // (buffer.type.shape[0] or 1)
    addresses, runs = addresses[skipped:], payload.reshape(-1, length)[skipped:]
    mine = state.share
    state.cta.shared.store(state.access(op), addresses[mine], runs[mine], buffer.type.element.name, length)


def reserve(op: DecodedOp, program: Program, name: str, size: int, at: int | None, align: int = 128) -> int:
    """Reserve a buffer of `size` bytes: returns its offset, `at` if given, else a multiple of `align`.

    Raises InterpreterError if it overlaps another.
    """
    taken = program.buffers
    start = at if at is not None else -(-max((begin + held for _, begin, held in taken), default=0) // align) * align
    for other, begin, held in taken:
        if start < begin + held and begin < start + size:
            raise InterpreterError(
                f"{op.describe()}: {name} at bytes [{start}, {start + size}) overlaps {other} at [{begin}, "
                f"{begin + held}); buffers share storage by sm.ring_reuse only [buffers-overlap]"
            )
    taken.append((name, start, size))
    return start


def alignment_of(type: MemRef) -> int:
    """The default alignment of a buffer: its swizzle's pattern, at least 128 bytes."""
    swizzle = type.layout.swizzle if type.layout else None
    return max(128, type.element.bytes << sum(swizzle)) if swizzle else 128
