"""Layouts as functions on numbers: the interpreter's own evaluation of shape:stride, swizzles and TV layouts.

Independent of the layout algebra that the passes use, so that the two check each other.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Nested: TypeAlias = Any  # an int, or a tuple of these
Integers: TypeAlias = NDArray[np.int64]


def extent(shape: Nested) -> int:
    """The number of coordinates of a nested shape."""
    return shape if isinstance(shape, int) else int(np.prod([extent(mode) for mode in shape], dtype=np.int64))


def offsets(shape: Nested, stride: Nested, index: Integers) -> Integers:
    """Offset of each colexicographic index: the first of nested modes is the fastest."""
    if isinstance(shape, int):
        return index * stride
    result = np.zeros_like(index)
    for mode, step in zip(shape, stride, strict=True):
        size = extent(mode)
        result += offsets(mode, step, index % size)
        index = index // size
    return result


def cosize(shape: Nested, stride: Nested) -> int:
    """One past the largest offset, before any swizzle."""
    if isinstance(shape, int):
        return (shape - 1) * stride + 1
    return sum(cosize(mode, step) - 1 for mode, step in zip(shape, stride, strict=True)) + 1


@dataclass(frozen=True)
class SharedLayout:
    """A two-dimensional buffer's layout: one top mode per dimension, then `swizzle` (B, M, S) or None. In elements."""

    shape: Nested
    stride: Nested
    swizzle: tuple[int, int, int] | None = None

    @cached_property
    def extents(self) -> tuple[int, ...]:
        return tuple(extent(mode) for mode in self.shape)

    @cached_property
    def cosize(self) -> int:
        """Elements that the buffer occupies; a swizzle permutes whole blocks of 2^(M+S+B) elements."""
        plain = cosize(self.shape, self.stride)
        if self.swizzle is None or self.swizzle[0] == 0:
            return plain
        bits, base, _ = self.swizzle
        block = 1 << (base + bits)
        return -(-plain // block) * block

    @cached_property
    def table(self) -> Integers:
        """Element offset of every coordinate: array of shape `extents`."""
        result: Integers = np.zeros((1,) * len(self.extents), dtype=np.int64)
        for axis, (shape, stride, size) in enumerate(zip(self.shape, self.stride, self.extents, strict=True)):
            along = offsets(shape, stride, np.arange(size, dtype=np.int64))
            result = result + along.reshape([-1 if other == axis else 1 for other in range(len(self.extents))])
        return swizzled(result, self.swizzle)

    @cached_property
    def runs(self) -> tuple[Integers, int]:
        """The coordinates in row-major order as runs of contiguous elements: their starts, and the elements of a
        run."""
        for length in (8, 4, 2):
            if self.extents[-1] % length == 0:
                runs = self.table.reshape(-1, length)
                starts = runs[:, 0]
                if not (starts % length).any() and np.array_equal(runs, starts[:, None] + np.arange(length)):
                    return starts, length
        return self.table.reshape(-1), 1


def swizzled(offset: Integers, swizzle: tuple[int, int, int] | None) -> Integers:
    """x ^ ((x >> S) & (B ones from bit M)): CuTe's Swizzle<B, M, S>."""
    if swizzle is None:
        return offset
    bits, base, shift = swizzle
    return offset ^ ((offset >> shift) & (((1 << bits) - 1) << base))


@dataclass(frozen=True)
class ThreadValue:
    """A TV layout: the element (row + column · rows) of each value of each thread."""

    thread_shape: Nested
    thread_stride: Nested
    value_shape: Nested
    value_stride: Nested

    @cached_property
    def threads(self) -> int:
        return extent(self.thread_shape)

    @cached_property
    def values(self) -> int:
        return extent(self.value_shape)

    @cached_property
    def table(self) -> Integers:
        """Column-major element index: array (threads, values)."""
        thread = offsets(self.thread_shape, self.thread_stride, np.arange(self.threads, dtype=np.int64))
        value = offsets(self.value_shape, self.value_stride, np.arange(self.values, dtype=np.int64))
        return thread[:, None] + value[None, :]

    def coordinates(self, rows: int) -> tuple[Integers, Integers]:
        """(row, column) of each element in a tile of `rows` rows: two arrays (threads, values)."""
        return _coordinates(self, rows)


@lru_cache(maxsize=256)
def _coordinates(layout: ThreadValue, rows: int) -> tuple[Integers, Integers]:
    return layout.table % rows, layout.table // rows
