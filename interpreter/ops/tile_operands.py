"""Operands of tile's ops: parts of batches, groups and lists; windows; scales and packed weights."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from mlir import ir
from numpy.typing import NDArray

from lowtide.dialects.tile import OperandKind
from lowtide.dialects.tile.lists import ENTRY_BYTES, Entry
from lowtide.interpreter.machine import arrivals
from lowtide.interpreter.machine.agents import AgentState, Steps
from lowtide.interpreter.machine.matrices import Matrix, Window
from lowtide.interpreter.machine.shared_buffers import SharedBuffer
from lowtide.interpreter.machine.staged_scales import SharedScales
from lowtide.interpreter.program.decoded import DecodedOp

#: For a scale: whether it is for rows, the number of rows (or columns) that share one, the dimension of blocks of K
SCALES = {
    OperandKind.row_scale: (True, 1, 0),
    OperandKind.column_scale: (False, 1, 0),
    OperandKind.row_block_scale: (True, 128, 1),
    OperandKind.column_block_scale: (False, 128, 1),
}
IN_THE_SUM = (OperandKind.group_scale, OperandKind.group_zero, *SCALES)
ARRIVALS = (OperandKind.arrived, OperandKind.turn, OperandKind.status)
SENDS = (OperandKind.peers, OperandKind.sent)
WHOLE = (OperandKind.ends, *ARRIVALS, *SENDS)  # the kinds of operands that a batch has once, for all of its products
NOT_OF_EPILOGUE = (*IN_THE_SUM, *WHOLE, OperandKind.target, OperandKind.a_rows, OperandKind.d_rows)
SCALED_TOGETHER = 128  # K of the products that share a scale

#: Dimensions of an operand without a batch
RANKS = {
    OperandKind.full: 2,
    OperandKind.per_row: 1,
    OperandKind.per_column: 1,
    OperandKind.scalar: 0,
    OperandKind.target: 1,
}
RANKS |= dict.fromkeys(IN_THE_SUM, 2)


def part_of(state: AgentState, op: DecodedOp, operand: Any, kind: OperandKind, number: int) -> Any:
    """The part of an epilogue operand for one product of a batch; the whole operand if the products share it."""
    if kind is OperandKind.scalar or len(operand.shape) == RANKS.get(kind):
        return operand
    return matrix_at(state, op, operand, number)


def turn_of(state: AgentState, op: DecodedOp, turn: Matrix) -> tuple[int, int, int]:
    """The rank, the epoch and the time limit in ms, read from the operand `turn`."""
    loaded = state.machine.memory.load(state.access(op), turn.addresses(0, np.array([0])), "i32", turn.shape[0])
    rank, epoch, limit = (int(each) for each in loaded[0])
    return rank, epoch, limit


def await_shard(state: AgentState, op: DecodedOp, shard: int, arriving: Sequence[Matrix]) -> Steps:
    """Wait for a shard of A. `arriving`: the operands `arrived`, `turn` and `status`. Returns whether the wait has
    ended without the shard."""
    arrived, turn, status = arriving
    _, epoch, limit = turn_of(state, op, turn)
    flag = arrivals.Flag(int(arrived.addresses(0, shard)), shard, epoch, limit, int(status.addresses(0, 0)))
    return (yield from arrivals.wait(state, op, flag))


def _ends(state: AgentState, op: DecodedOp, ends: Matrix) -> list[int]:
    loaded = state.machine.memory.load(state.access(op), ends.addresses(0, np.array([0])), "i32", ends.shape[0])
    return [int(end) for end in loaded.reshape(-1).tolist()]


def groups_of_k(state: AgentState, op: DecodedOp, ends: Matrix, k: int, block: int = 1) -> list[tuple[int, int]]:
    """The range (first, end) of K of each group. The end of the group before is clamped to [0, K], and then the group's
    own end to [that, K]. Both are then rounded down to a multiple of `block`, except if they are K."""
    given = _ends(state, op, ends)
    firsts = [0, *(min(max(end, 0), k) for end in given[:-1])]
    spans = [(first, min(max(end, first), k)) for first, end in zip(firsts, given, strict=True)]
    return [(_rounded(first, k, block), _rounded(end, k, block)) for first, end in spans]


def _rounded(end: int, k: int, block: int) -> int:
    return end if end == k else end // block * block


def groups_of_rows(state: AgentState, op: DecodedOp, ends: Matrix, rows: int) -> list[tuple[int, int]]:
    """The range (first, end) of rows of each group. Each end is clamped to [the end before, rows]."""
    spans, first = [], 0
    for end in _ends(state, op, ends):
        spans.append((first, min(max(end, first), rows)))
        first = spans[-1][1]
    return spans


def rows_of_matrices(state: AgentState, op: DecodedOp, ends: Matrix, rows: int) -> list[tuple[int, int]]:
    """The range (0, count) of rows of each padded group. Counts are clamped to [0, rows]."""
    return [(0, min(max(end, 0), rows)) for end in _ends(state, op, ends)]


def matrix_at(state: AgentState, op: DecodedOp, batch: Matrix, number: int) -> Matrix:
    """A matrix, or vector, of a batch or of a list, whose table is read. Raises InterpreterError for a number outside
    of the batch."""
    if not 0 <= number < batch.shape[0]:
        raise state.violation(op, f"matrix {number} of {batch.name}, a batch of {batch.shape[0]} [matrix-of-batch]")
    if not batch.is_list:
        return batch.part(number)
    count = len(Entry)
    place = np.array([batch.address + number * count * ENTRY_BYTES])
    halves = state.machine.memory.load(state.access(op), place, "i32", 2 * count, align=ENTRY_BYTES)
    return batch.listed(halves.reshape(-1).astype(np.int32).view(np.int64).tolist())


def window_at(matrix: Matrix, kind: OperandKind, offsets: Sequence[int], shape: tuple[int, int]) -> Window:
    """The window of a matrix, or of a vector by kind, at offsets: two, or one for a vector; for scales, (row or column,
    K)."""
    if kind in SCALES:
        return _scale_window(matrix, kind, (offsets[0], offsets[1]), shape)
    row, column = {
        OperandKind.full: lambda: (offsets[0], offsets[1]),
        OperandKind.per_row: lambda: (offsets[0], 0),
        OperandKind.per_column: lambda: (0, offsets[0]),
    }[kind]()
    return Window(matrix, row, column, shape, kind.name)


def _scale_window(matrix: Matrix, kind: OperandKind, offsets: tuple[int, int], shape: tuple[int, int]) -> Window:
    """A window of the vector with the scales for one block of K."""
    (outer, k), (by_row, block, k_dim) = offsets, SCALES[kind]
    number, stride = k // SCALED_TOGETHER, matrix.row_stride
    apart, step = (stride, 1) if k_dim == 0 else (1, stride)
    address = matrix.address + number * apart * matrix.element.bytes
    extent = matrix.shape[1 - k_dim] if number < matrix.shape[k_dim] else 0  # past the last block of K there are none
    vector = Matrix(matrix.name, address, (extent,), (), matrix.element)
    place = (outer, 0) if by_row else (0, outer)
    return Window(vector, *place, shape, "per_row" if by_row else "per_column", block, step)


def staged_window(
    buffer: SharedBuffer, kind: OperandKind, offsets: Sequence[int], shape: tuple[int, int]
) -> SharedScales:
    """The window of scales in shared memory at (row or column, K), relative to the start of the buffer."""
    (outer, k), (by_row, block, k_dim) = offsets, SCALES[kind]
    return SharedScales(buffer, by_row, block, k_dim, outer, k // SCALED_TOGETHER, shape)


def weights_of(op: DecodedOp) -> str:
    """The MLIR type of the packed weights that an op converts."""
    return str(ir.TypeAttr(op.source.attributes["weights"]).value)


def scale_and_add(
    state: AgentState, partial: NDArray[Any], total: NDArray[Any], scales: list[NDArray[Any]], dtype: str
) -> NDArray[Any]:
    """partial · (row scale · column scale) + total: the product of the scales is rounded, then the sum."""
    domain = state.machine.domain
    return domain.fma(partial, domain.multiply(scales[0], scales[1], dtype), total, dtype)


def as_mk(a: NDArray[Any], layout: str) -> NDArray[Any]:
    return {"t": a, "n": a.T}[layout[0]]


def as_nk(b: NDArray[Any], layout: str) -> NDArray[Any]:
    return {"n": b, "t": b.T}[layout[1]]
