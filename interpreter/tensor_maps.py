"""Tensor maps as values, and what TMA does with them: boxes of a matrix into shared memory.

A box lies in shared memory row after row, without gaps, then its 16-byte units are permuted by the bits of the shared
memory address (`hardware.tma_swizzle`), not by anything that a buffer's layout says.
"""

from dataclasses import dataclass

import numpy as np

from lowtide.interpreter import hardware, mbarriers
from lowtide.interpreter.agents import AgentState, spawn
from lowtide.interpreter.ir_types import Scalar
from lowtide.interpreter.matrices import Matrix
from lowtide.interpreter.mbarriers import Mbarrier
from lowtide.interpreter.memory import start_copy
from lowtide.interpreter.program import DecodedOp, Steps, violation

UNIT = 16  # bytes that a swizzle keeps together
ALIGNMENT = 128  # of a box in shared memory (PTX ISA, "cp.async.bulk.tensor")


@dataclass(frozen=True)
class TensorMap:
    """Boxes (rows, columns) of a matrix; `span` is the swizzle's, 32, 64 or 128 bytes, or 0 for none."""

    matrix: Matrix
    box: tuple[int, int]
    span: int

    @property
    def element(self) -> Scalar:
        return self.matrix.element

    @property
    def bytes(self) -> int:
        """Of one box, which are what an mbarrier counts wherever the box lies."""
        return self.box[0] * self.box[1] * self.element.bytes


def encode(
    state: AgentState, op: DecodedOp, matrix: Matrix, box: tuple[int, int], swizzle: tuple[int, int, int] | None
) -> TensorMap:
    """As cuTensorMapEncodeTiled, on a box that the type's verifier has passed.

    Raises InterpreterError for a matrix that TMA cannot read.
    """
    stride = matrix.row_stride * matrix.element.bytes
    if matrix.address % UNIT or stride % UNIT:
        raise violation(
            state,
            op,
            f"{matrix.name} at address {matrix.address:#x} with rows {stride} bytes apart: TMA needs multiples of "
            f"{UNIT}",
        )
    return TensorMap(matrix, box, UNIT << swizzle[0] if swizzle and swizzle[0] else 0)


def load_box(
    state: AgentState,
    op: DecodedOp,
    map: TensorMap,
    corner: tuple[int, int],
    address: int,
    barrier: Mbarrier,
) -> None:
    """cp.async.bulk.tensor: the box at `corner` (row, column) begins to land at a shared address and signals a barrier.

    Elements outside the matrix become zero. It lands at any time later, the full box's bytes are then counted.
    """
    if address % ALIGNMENT:
        raise violation(state, op, f"a box at shared memory address {address:#x}; TMA needs a multiple of {ALIGNMENT}")
    unit = _unit(map, corner)
    rows, columns = (part.reshape(-1) for part in np.mgrid[: map.box[0], : map.box[1] : unit])
    width, size = map.element.bytes, unit * map.element.bytes
    offset = (rows * map.box[1] + columns) * width
    destination = hardware.tma_swizzle(address + offset, map.span)
    first, inside = rows + corner[0], map.matrix.shape
    held = (first >= 0) & (first < inside[0]) & (columns + corner[1] >= 0)
    used = np.where(held, np.clip((inside[1] - corner[1] - columns) * width, 0, size), 0)
    source = np.where(used > 0, map.matrix.addresses(first, columns + corner[1]), map.matrix.address)
    memory, shared = state.machine.memory, state.cta.shared
    flight = start_copy(memory, shared, state.access(op), destination, source, size, used, barrier.source)
    mbarriers.note_load(state, op, barrier)
    phase = barrier.completed

    def landing(aside: AgentState) -> Steps:
        yield from ()
        shared.land(flight, epoch=phase)
        mbarriers.complete_bytes(aside, op, barrier, phase, map.bytes)

    spawn(state, f"TMA load by {state.seat.name}", op, landing)


def _unit(map: TensorMap, corner: tuple[int, int]) -> int:
    """Elements that are read together: 16 bytes of them where the box begins at a multiple of that."""
    elements = UNIT // map.element.bytes
    return elements if corner[1] >= 0 and corner[1] % elements == 0 else 1
