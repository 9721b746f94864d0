"""Matrices in global memory as values, and the windows that `tile.view` cuts from them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.numbers.accesses import Described
from lowtide.interpreter.program.types import MemRef, Scalar

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Matrix:
    """A memref in global memory: byte address, extents, and strides in elements of all dimensions but the last.

    It is a matrix, a vector (one extent), or a batch of these with the batch as first dimension. If a matrix
    `is_column_major`, the stride is between columns, and rows are contiguous.
    """

    name: str
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    element: Scalar
    is_column_major: bool = False
    index: "Matrix | None" = None
    source_rows: int = 0
    """`index`: a vector, or None. If it is given, the matrix in memory has `source_rows` rows, and row i is row
    `index[i]` of it. If there is no such row, row i is read as zeros, and is not stored."""
    is_list: bool = False
    """Whether it is a list of matrices. Then the table of the list is at the address. The table has a row of 64-bit
    integers for each matrix: its address, rows, columns and row stride in elements (`dialects/tile/lists.py`)."""

    @property
    def shape_as_it_lies(self) -> tuple[int, ...]:
        """The shape of the array in memory: its last dimension is contiguous."""
        return MemRef.turned(self.shape) if self.is_column_major else self.shape

    @property
    def row_stride(self) -> int:
        """Elements between rows of a matrix; a vector has one row."""
        return self.strides[-1] if self.strides else 0

    def part(self, number: int) -> "Matrix":
        """A matrix, or vector, of a batch."""
        address = self.address + number * self.strides[0] * self.element.bytes
        return replace(self, address=address, shape=self.shape[1:], strides=self.strides[1:])

    def listed(self, entries: Sequence[int]) -> "Matrix":
        """A matrix of a list, from its row of the table. It is clipped to the extents of the list."""
        address, *own, stride = entries
        shape = tuple(map(min, own, self.shape[1:]))
        return replace(self, address=address, shape=shape, strides=(stride,), is_list=False)

    def names_of_parts(self) -> tuple[str, ...]:
        """The names of its arrays in memory: one, or for a list one for each matrix."""
        return tuple(part_name(self.name, at) for at in range(self.shape[0])) if self.is_list else (self.name,)

    def rows(self, first: int, end: int) -> "Matrix":
        """Some rows of a matrix, or some elements of a vector."""
        if self.index is not None:
            return replace(self, index=self.index.rows(first, end), shape=(end - first, *self.shape[1:]))
        apart = 1 if self.is_column_major else self.row_stride or 1
        address = self.address + first * apart * self.element.bytes
        return replace(self, address=address, shape=(end - first, *self.shape[1:]))

    def columns(self, first: int, end: int) -> "Matrix":
        """Some columns of a matrix that lies by rows."""
        return replace(self, address=self.address + first * self.element.bytes, shape=(*self.shape[:-1], end - first))

    def taken_at(self, index: "Matrix") -> "Matrix":
        """The rows of a matrix at an index."""
        return replace(self, index=index, source_rows=self.shape[0], shape=(*index.shape, *self.shape[1:]))

    def addresses(self, rows: Any, columns: Any) -> Ints:
        """Byte addresses of elements; for a vector, of its columns."""
        if self.is_column_major:
            rows, columns = columns, rows
        return self.address + (np.asarray(rows, np.int64) * self.row_stride + columns) * self.element.bytes


def part_name(name: str, number: int) -> str:
    """The name in memory of a matrix of a list."""
    return f"{name}[{number}]"


@dataclass(frozen=True, slots=True)
class Window:
    """A window of `shape` whose first element is (row, column) of the matrix.

    `kind` is the dimension of a one-dimensional matrix: "per_row" or "per_column"; otherwise it is "full". If `block`
    rows, or columns, share one element, elements are `step` apart. In a window of halves, the second half of the rows
    is from the matrix `second`, and begins at the same row. If the matrix has an index, `taken` (rows,) is the row in
    memory of each row of the window, or -1 if there is none; `resolved` sets it.
    """

    matrix: Matrix
    row: int
    column: int
    shape: tuple[int, int]
    kind: str = "full"
    block: int = 1
    step: int = 1
    second: Matrix | None = None
    taken: Ints | None = None

    @property
    def halves(self) -> tuple["Window", ...]:
        """Its windows in single matrices: itself, or its two halves."""
        if self.second is None:
            return (self,)
        one = replace(self, second=None, shape=(self.shape[0] // 2, self.shape[1]))
        return one, replace(one, matrix=self.second)

    def inside_of(self, rows: Ints) -> tuple[NDArray[np.bool_], int]:
        """Whether each of these rows of the window is in its matrix, and the number of columns that are."""
        first, *_ = self.halves
        inside_rows, inside_columns = first.inside
        if self.taken is not None:
            return self.taken[rows] >= 0, inside_columns
        return rows % first.shape[0] < inside_rows, inside_columns

    @property
    def inside(self) -> tuple[int, int]:
        """The number of rows and columns of the window, which has no halves, that are in the matrix."""
        shape = self.matrix.shape
        rows, columns = {
            "full": shape,
            "per_row": (shape[0] * self.block, self.column + self.shape[1]),
            "per_column": (self.row + self.shape[0], shape[0] * self.block),
        }[self.kind]
        return _clip(rows - self.row, self.shape[0]), _clip(columns - self.column, self.shape[1])

    def element_addresses(self, rows: Ints, columns: Ints) -> Ints:
        """Byte addresses of the elements at (row, column) of the window."""
        if self.kind == "per_row":
            return self._vector_addresses(self.row + rows + np.zeros_like(columns))
        if self.kind == "per_column":
            return self._vector_addresses(self.column + columns + np.zeros_like(rows))
        if self.second is not None:
            half = self.shape[0] // 2
            places = (x.element_addresses(rows % half, columns) for x in self.halves)
            return np.where(rows < half, *places)
        if self.taken is not None:
            return self.matrix.addresses(np.maximum(self.taken[rows], 0), self.column + columns)
        return self.matrix.addresses(self.row + rows, self.column + columns)

    def _vector_addresses(self, places: Ints) -> Ints:
        return self.matrix.addresses(0, places // self.block * self.step)


def _clip(size: int, limit: int) -> int:
    return max(0, min(size, limit))


def resolved(state: AgentState, op: Described, window: Window) -> Window:
    """The window with `taken`: the agent reads the index. A window without an index is returned unchanged."""
    index = window.matrix.index
    if index is None or window.taken is not None:
        return window
    taken, (rows, _) = np.full(window.shape[0], -1, np.int64), window.inside
    if rows:
        places = index.addresses(0, window.row + np.arange(rows))
        loaded = state.machine.memory.load(state.access(op), places, index.element.name).reshape(-1)
        found = np.array([int(row) for row in loaded.tolist()], np.int64)
        taken[:rows] = np.where((found >= 0) & (found < window.matrix.source_rows), found, -1)
    return replace(window, taken=taken)


def load_inside(state: AgentState, op: Described, window: Window) -> NDArray[Any]:
    """The part of a window that is in its matrix, read by the whole agent: payload (rows, columns) inside.

    A vector's window comes as (rows, 1) or (1, columns), to be broadcast.
    """
    rows, columns = window.inside
    matrix, name = window.matrix, window.matrix.element.name
    if rows == 0 or columns == 0:
        empty = (1 if window.kind == "per_column" else rows, 1 if window.kind == "per_row" else columns)
        return np.zeros(empty, state.machine.domain.payload)
    start, run = (window.column, columns) if window.kind == "per_column" else (window.row, rows)
    if window.kind == "full" and not matrix.is_column_major:
        addresses, run = matrix.addresses(window.row + np.arange(rows), window.column), columns
    elif window.kind == "full":
        addresses = matrix.addresses(window.row, window.column + np.arange(columns))
    elif (window.block, window.step) == (1, 1):
        addresses = matrix.addresses(0, np.array([start]))
    else:
        addresses, run = window.element_addresses(np.arange(run), np.arange(run)), 1
    align = _alignment(addresses, matrix.element.bytes)
    loaded = state.machine.memory.load(state.access(op), addresses, name, run, align=align)
    if window.kind != "full":
        return loaded.reshape((-1, 1) if window.kind == "per_row" else (1, -1))
    return loaded.T if matrix.is_column_major else loaded


def load_window(state: AgentState, op: Described, window: Window) -> NDArray[Any]:
    """A window read by the whole agent: payload of its shape, zero outside the matrix."""
    result = np.zeros(window.shape, state.machine.domain.payload)
    if window.matrix.index is not None:
        return _load_taken(state, op, resolved(state, op, window), result)
    for number, part in enumerate(window.halves):
        (rows, columns), first = part.inside, number * part.shape[0]
        result[first : first + rows, :columns] = load_inside(state, op, part)
    return result


def _load_taken(state: AgentState, op: Described, window: Window, result: NDArray[Any]) -> NDArray[Any]:
    """Read the rows of a resolved window that exist in memory into `result`, and return it. Its other rows are not
    written."""
    assert window.taken is not None
    exist, (_, columns) = np.flatnonzero(window.taken >= 0), window.inside
    if exist.size and columns:
        addresses, element = window.matrix.addresses(window.taken[exist], window.column), window.matrix.element
        align = _alignment(addresses, element.bytes)
        result[exist, :columns] = state.machine.memory.load(
            state.access(op), addresses, element.name, columns, align=align
        )
    return result


def store_inside(state: AgentState, op: Described, window: Window, payload: Any) -> None:
    """Write the part of a full window that is in its matrix: the agent writes its share of the rows."""
    window, (rows, columns) = resolved(state, op, window), window.inside
    if rows and columns:
        element, share = window.matrix.element, np.arange(rows)[state.share]
        share = share if window.taken is None else share[window.taken[share] >= 0]
        if window.matrix.is_column_major:  # one element at a time: the share need not be contiguous
            addresses = window.matrix.addresses(window.row + share[:, None], window.column + np.arange(columns))
            addresses, payload, run = addresses.reshape(-1), payload[share].reshape(-1, 1), 1
        else:
            in_memory = window.row + share if window.taken is None else window.taken[share]
            addresses, payload, run = window.matrix.addresses(in_memory, window.column), payload[share], columns
        if not addresses.size:
            return
        align = _alignment(addresses, element.bytes) if run > 1 else element.bytes
        state.machine.memory.store(state.access(op), addresses, payload, element.name, run, align=align)


def load_elements(state: AgentState, op: Described, window: Window, rows: Ints, columns: Ints) -> NDArray[Any]:
    """Each lane reads its elements of a window, zero outside: payload (32, values) at coordinates (32, values)."""
    result = np.zeros(rows.shape, state.machine.domain.payload)
    chosen, lanes = _chosen(state, window, rows, columns)
    if lanes.size:
        addresses = window.element_addresses(rows[chosen], columns[chosen])
        loaded = state.machine.memory.load(state.access(op, lanes), addresses, window.matrix.element.name)
        result[chosen] = loaded[:, 0]
    return result


def store_elements(
    state: AgentState, op: Described, window: Window, rows: Ints, columns: Ints, payload: NDArray[Any]
) -> None:
    """Each lane writes its elements of a window; those outside the matrix are dropped."""
    window = resolved(state, op, window)
    chosen, lanes = _chosen(state, window, rows, columns)
    if lanes.size:
        addresses = window.element_addresses(rows[chosen], columns[chosen])
        state.machine.memory.store(
            state.access(op, lanes), addresses, payload[chosen][:, None], window.matrix.element.name
        )


def is_inside(window: Window, rows: Ints, columns: Ints) -> NDArray[np.bool_]:
    """Which elements of a window are in its matrix."""
    inside_rows, inside_columns = window.inside_of(rows)
    return inside_rows & (columns < inside_columns)


def _chosen(state: AgentState, window: Window, rows: Ints, columns: Ints) -> tuple[NDArray[np.bool_], NDArray[Any]]:
    """Which elements are in the matrix and belong to active lanes, and the lane of each of them."""
    chosen = is_inside(window, rows, columns)
    if state.mask is not None:
        chosen &= state.mask[:, None]
    return chosen, np.broadcast_to(state.lanes[:, None], chosen.shape)[chosen]


def _alignment(addresses: Ints, width: int) -> int:
    """The largest power of two up to 16 that divides all addresses, at least the element's bytes."""
    bits = int(np.bitwise_or.reduce(addresses)) | 16
    return max(bits & -bits, width)
