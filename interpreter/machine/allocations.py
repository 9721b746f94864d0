"""Allocations in global memory: matrices with padding between rows, and bytes of any type; what they hold, and what of
them has changed. Bytes in no allocation cannot be accessed."""

import os
from collections.abc import Collection
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import NotInterpreted
from lowtide.interpreter.numbers.accesses import Access, Ints, Span, Values
from lowtide.interpreter.numbers.cells import Buffer, Cells, padded
from lowtide.interpreter.numbers.codes import CODES, CONTINUED, ELEMENT_BYTES, UNWRITTEN

_ORIGIN = 1 << 20  # the start of global memory: null pointers and shared addresses are out of bounds
_GAP = 256  # bytes: the smallest gap between two allocations, and their alignment


def physical_memory() -> int:
    """Bytes of memory of this machine."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


class Allocations(Cells):
    """Global memory of one GPU: separate allocations, accessible only at the elements of a matrix."""

    def __init__(self, payload: Any = np.float64) -> None:
        super().__init__("global memory", _ORIGIN, 0, payload)
        self._accessible: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self.pointers: dict[str, dict[int, int]] = {}  # addresses in allocations by name, by their byte there
        # An operand that D replaces, and its bytes that were written since.
        self._in_place: Buffer | None = None
        self._replaced: NDArray[np.bool_] = np.zeros(0, np.bool_)

    def allocate(
        self,
        name: str,
        rows: int,
        columns: int,
        row_stride: int,
        dtype: str,
        values: Values | None = None,
        misalign: int = 0,
        batch: tuple[int, int] = (1, 0),
    ) -> int:
        """A matrix (or, with one row, a vector) with rows `row_stride` elements apart; returns its address.

        The address is a multiple of 256 bytes, plus `misalign`. Padding between rows is not accessible. `values`,
        payload (rows, columns), initialises it; otherwise reading it before it is written is an error. `batch` gives
        the number of such matrices and the elements between them; `values` then has the rows of all of them.
        """
        width, (count, batch_stride) = ELEMENT_BYTES[dtype], batch
        start = -(-max(self.size, _GAP) // _GAP) * _GAP + misalign
        end = start + (max(count - 1, 0) * batch_stride + max(rows - 1, 0) * row_stride + columns) * width
        self._grow(end + _GAP)
        buffer = Buffer(name, start, end, dtype, rows, columns, row_stride * width, count, batch_stride * width)
        self.buffers.append(buffer)
        is_dense = (rows <= 1 or row_stride == columns) and (count == 1 or batch_stride == rows * columns)
        for byte in range(width):
            each: Any = slice(start + byte, end, width) if is_dense else _first_bytes(buffer) + byte
            self._accessible[each] = True
            if values is not None:
                self.codes[each] = CONTINUED if byte else CODES[dtype]
        if values is not None:
            self.payload[slice(start, end, width) if is_dense else _first_bytes(buffer)] = (
                values.reshape(-1) if is_dense else values
            )
        return start + self.origin

    def name_elements(self, name: str, sides: tuple[tuple[int, int], ...]) -> None:
        """Name elements of an allocation by their indices in messages. `sides`: as of Buffer."""
        at = next(number for number, buffer in enumerate(self.buffers) if buffer.name == name)
        self.buffers[at] = replace(self.buffers[at], sides=sides)

    def allocate_table(self, name: str, table: NDArray[np.int64]) -> int:
        """A table of 64-bit integers (rows, columns), whose first column has addresses; returns its own address."""
        halves = table.view(np.int32)  # the payload of the float domains cannot hold 64 bits
        rows, columns = halves.shape
        self.pointers[name] = {place * columns * ELEMENT_BYTES["i32"]: int(row[0]) for place, row in enumerate(table)}
        return self.allocate(name, rows, columns, columns, "i32", halves.astype(self.payload.dtype))

    def allocate_bytes(self, name: str, size: int) -> int:
        """Bytes whose elements may be of any type; returns their address, a multiple of 256 bytes."""
        start = -(-max(self.size, _GAP) // _GAP) * _GAP
        self._grow(start + size + _GAP)
        self.buffers.append(Buffer(name, start, start + size))
        self._accessible[start : start + size] = True
        return start + self.origin

    def holds(self, address: int, size: int) -> bool:
        """Whether the bytes are in an allocation that anyone may access."""
        start = address - self.origin
        return bool(self._accessible[start : start + size].all())

    def buffer(self, name: str) -> Buffer:
        """An allocation by its name."""
        return next(buffer for buffer in self.buffers if buffer.name == name)

    def write_in_place(self, name: str) -> None:
        """The output replaces an operand: from now on its reads and writes are recorded."""
        self._in_place = self.buffer(name)
        self._replaced = np.zeros(self._in_place.end - self._in_place.start, np.bool_)

    def contents(self, name: str) -> tuple[Values, NDArray[np.bool_]]:
        """An allocation's payload (rows, columns), and which elements were written: by a kernel, if the output replaces
        an operand. For a batch, the rows of all matrices."""
        buffer = self.buffer(name)
        first = _first_bytes(buffer)
        if buffer is self._in_place:
            return self.payload[first], self._replaced[first - buffer.start]
        return self.payload[first], self.codes[first] != UNWRITTEN

    def snapshot(self) -> tuple[tuple[Buffer, ...], Values]:
        """The state for `changed_since`: the existing matrices with their contents."""
        return tuple(self.buffers), self.payload[: self.size].copy()

    def changed_since(self, snapshot: tuple[tuple[Buffer, ...], Values], outputs: Collection[str]) -> str | None:
        """A change since the snapshot: of an element of a matrix other than the `outputs`, or of a byte in no matrix.
        None if there is none."""
        outside = (self.codes[: self.size] != UNWRITTEN) & ~self._accessible[: self.size]
        if outside.any():
            return f"the byte at offset {int(np.argmax(outside))} of {self.space}, which is in no matrix,"
        buffers, payload = snapshot
        for buffer in buffers:
            if (
                not buffer.dtype
                or buffer.name in outputs
                or np.array_equal(self.payload[buffer.start : buffer.end], payload[buffer.start : buffer.end])
            ):
                continue
            first = _first_bytes(buffer)
            now, then = self.payload[first], payload[first]
            differ = np.argwhere((now != then) & ((now == now) | (then == then)))  # NaN stays NaN
            if len(differ):
                row, column = differ[0].tolist()
                matrix = f"{row // buffer.rows}, " if buffer.count > 1 else ""
                return f"{buffer.name}[{matrix}{row % buffer.rows}, {column}]"
        return None

    def _grow(self, size: int) -> None:
        """Grow the arrays, beyond the size of memory to grow seldom. Raises NotInterpreted if they are too large."""
        arrays = {name: getattr(self, name) for name in ("payload", "codes", "_accessible", *self.state)}
        wanted = {name: self.entries(size) if name in self.state else padded(size) for name in arrays}
        needed = sum(wanted[name] * array.itemsize for name, array in arrays.items())
        if needed > physical_memory():
            raise NotInterpreted(
                f"matrices and workspaces of {size:,} bytes take the interpreter {needed / 2**30:,.0f} GiB, this "
                f"machine has {physical_memory() / 2**30:,.0f}; take a smaller problem, less padding, or fewer SMs"
                " [memory-of-machine]"
            )
        for name, array in arrays.items():
            if len(array) < wanted[name]:
                longer = np.zeros(max(wanted[name], 2 * len(array)), array.dtype)
                longer[: len(array)] = array
                setattr(self, name, longer)
        self.size = size

    def _check_accessible(self, access: Access, span: Span) -> None:
        accessible = span.get(self._accessible)
        if not accessible.all():
            row, byte = (int(index[0]) for index in np.nonzero(~accessible))
            self.fail(
                access,
                span.addresses,
                row,
                byte,
                f"out of bounds: {span.size} bytes, not all of them in a matrix [outside-matrices]",
            )


def _first_bytes(buffer: Buffer) -> Ints:
    """The relative address of each element's first byte: array (rows, columns); for a batch, the rows of all
    matrices."""
    rows = np.arange(buffer.count)[:, None] * buffer.batch_stride + np.arange(buffer.rows) * buffer.stride
    return buffer.start + rows.reshape(-1, 1) + np.arange(buffer.columns) * ELEMENT_BYTES[buffer.dtype]
