"""Arrays in host memory with guards around them, and the bytes that a kernel must not have written, or must have."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from lowtide.elements import element_type
from lowtide.runtime.checks import pad_row
from lowtide.runtime.dtypes import from_bits, stored_dtype, to_bits

GUARD_BYTES = 4096
POISON = 0xFF  # NaN in every float type
WIDEST = 16  # bytes of the widest access


@dataclass(frozen=True)
class HostArray:
    """One operand in host memory: its bytes with guards, and the positions of its elements."""

    stored: np.ndarray  # uint8, GUARD_BYTES before and after the rows, and `offset` more before
    shape: tuple[int, ...]
    row_stride: int  # elements
    dtype: str
    offset: int = 0

    @property
    def start(self) -> int:
        """The byte at which the rows begin."""
        return GUARD_BYTES + self.offset

    @property
    def strides(self) -> tuple[int, ...]:
        """Strides in elements; the matrices of a batch are consecutive."""
        return (*(math.prod(self.shape[axis + 1 : -1]) * self.row_stride for axis in range(len(self.shape) - 1)), 1)

    def elements(self) -> np.ndarray:
        """The rows of all matrices with their padding, shape (rows, row_stride), in `stored_dtype`."""
        rows = math.prod(self.shape[:-1])
        size = rows * self.row_stride * element_type(self.dtype).bytes
        whole = self.stored[self.start : self.start + size]
        return whole.view(stored_dtype(self.dtype)).reshape(rows, self.row_stride)

    def values(self) -> np.ndarray:
        """The elements in float64, in `shape`."""
        columns = self.shape[-1]
        return from_bits(np.ascontiguousarray(self.elements()[:, :columns]), self.dtype).reshape(self.shape)


def host_array(
    shape: tuple[int, ...],
    dtype: str,
    alignment: int,
    values: np.ndarray | None,
    padding: int = 0,
    base_alignment: int = WIDEST,
) -> HostArray:
    """A poisoned array that holds `values`, its rows padded to `alignment` bytes and by `padding` units more.

    Its base is not aligned to more than `base_alignment`, up to 16.
    """
    row_stride = pad_row(shape[-1], dtype, alignment)
    if len(shape) > 1:
        row_stride += padding * max(1, alignment // element_type(dtype).bytes)
    rows = math.prod(shape[:-1])
    offset = base_alignment if base_alignment < WIDEST else 0
    size = 2 * GUARD_BYTES + offset + rows * row_stride * element_type(dtype).bytes
    array = HostArray(np.full(size, POISON, dtype=np.uint8), shape, row_stride, dtype, offset)
    if values is not None:
        array.elements()[:, : shape[-1]] = to_bits(values.reshape(rows, shape[-1]), dtype)
    return array


def check_written(result: HostArray, wanted: np.ndarray | None = None) -> str:
    """A message if bytes outside of D were written, or an element of D was not; "" otherwise. `wanted`: whether each
    element must be written, broadcast to D; None: all elements.

    In an integer D all bits are valid: unwritten elements show as wrong values.
    """
    columns, elements = result.shape[-1], result.elements()
    guards = np.concatenate([result.stored[: result.start], result.stored[-GUARD_BYTES:]])
    if (guards != POISON).any():
        return "bytes before or after D were written"
    if (np.ascontiguousarray(elements[:, columns:]).view(np.uint8) != POISON).any():
        return "the padding of D's rows was written"
    inside = np.broadcast_to(True if wanted is None else wanted, result.shape).reshape(-1, columns)
    bits = np.dtype(f"u{element_type(result.dtype).bytes}")
    poison = np.full(bits.itemsize, POISON, dtype=np.uint8).view(bits)
    untouched = np.ascontiguousarray(elements[:, :columns]).view(bits) == poison
    if not (untouched | inside).all():
        return "rows of D were written that belong to no group, or that d_rows does not name"
    untouched &= inside
    if element_type(result.dtype).is_float and untouched.any():
        place = np.unravel_index(np.flatnonzero(untouched)[0], result.shape)
        return f"{int(untouched.sum())} elements of D were not written, first D[{', '.join(map(str, place))}]"
    return ""
