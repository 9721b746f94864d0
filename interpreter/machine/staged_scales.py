"""Scales of blocks in shared memory: the contents of a ring slot for a matrix of scales."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.shared_buffers import SharedBuffer, load_buffer
from lowtide.interpreter.program.decoded import DecodedOp

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class SharedScales:
    """A window of scales of rows or of columns that begins at scale number `first` of the buffer. `block` of them share
    an element; dimension `k_dim` of the buffer counts blocks of K, and the window is in block `k`."""

    buffer: SharedBuffer
    by_row: bool
    block: int
    k_dim: int
    first: int
    k: int
    shape: tuple[int, int]

    def places(self, op: DecodedOp, rows: Ints, columns: Ints) -> tuple[Ints, Ints]:
        """The positions in the buffer of the scales of elements (row, column) of the window.

        Raises InterpreterError for a scale outside of the buffer.
        """
        outer = (self.first + (rows if self.by_row else columns)) // self.block
        of_k = np.full_like(outer, self.k)
        found = (of_k, outer) if self.k_dim == 0 else (outer, of_k)
        for place, extent in zip(found, self.buffer.type.shape, strict=True):
            if place.size and not 0 <= place.min() <= place.max() < (extent or 0):
                raise InterpreterError(
                    f"{op.describe()}: reads scale {place.max()} of a buffer of {self.buffer.type.shape}"
                    " [scale-outside]"
                )
        return found

    def load(self, state: AgentState, op: DecodedOp) -> NDArray[Any]:
        """The whole window, read by the whole agent."""
        rows, columns = np.indices(self.shape)
        return load_buffer(state, op, self.buffer)[self.places(op, rows, columns)]
