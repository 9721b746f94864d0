"""Thread-value (TV) layouts: the elements of a tile that each thread holds, in order.

As in CuTe, a TV layout is a `Layout` of two top modes (thread, value) to the column-major index of an element in a
tile (rows, columns): `index = row + column * rows`.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from tensor_layouts import ComposedLayout, Layout, coalesce, compose, cosize, flatten, mode, size

from lowtide.errors import ScheduleError

Shape = tuple[int, int]
LayoutExpr: TypeAlias = Layout | ComposedLayout


def offsets(layout: Any, index: NDArray[np.int64]) -> NDArray[np.int64]:
    """`layout(i)` for each linear (colexicographic) index of an array; the last mode continues without bound.

    `layout` is a Layout, or a ComposedLayout with a swizzle and an offset.
    """
    if isinstance(layout, ComposedLayout):
        return layout.outer(layout.offset + offsets(layout.inner, index))
    modes = flat_modes(layout)
    result = np.zeros_like(index)
    for position, (extent, stride) in enumerate(modes):
        last = position == len(modes) - 1
        result += stride * (index if last else index % extent)
        index = index // extent
    return result


@lru_cache(maxsize=4096)
def flat_modes(layout: Layout) -> tuple[tuple[int, int], ...]:
    """(extent, stride) of each mode, without nesting."""
    flat = flatten(layout)
    if isinstance(flat.shape, int):
        return ((flat.shape, flat.stride),)
    return tuple(zip(flat.shape, flat.stride, strict=True))


@lru_cache(maxsize=4096)
def extents(tv: Layout) -> tuple[int, int]:
    """(threads, values) of a TV layout. Raises ScheduleError unless it has exactly two top modes."""
    if isinstance(tv.shape, int) or len(tv.shape) != 2:
        raise ScheduleError(f"a TV layout has two top modes (thread, value), but this is {tv} [tv-modes]")
    return size(mode(tv, 0)), size(mode(tv, 1))


def indices(tv: Layout) -> NDArray[np.int64]:
    """The column-major index of each element: array (threads, values)."""
    threads, values = extents(tv)
    return offsets(tv, np.arange(threads * values)).reshape(values, threads).T


@lru_cache(maxsize=512)
def coordinates(tv: Layout, shape: Shape) -> NDArray[np.int64]:
    """The (row, column) of each element: array (threads, values, 2). Raises ScheduleError for one outside `shape`."""
    rows, columns = shape
    if cosize(tv) > rows * columns:
        raise ScheduleError(
            f"TV layout {tv} reaches index {cosize(tv) - 1}, outside its tile {rows}x{columns} [tv-inside]"
        )
    index = indices(tv)
    found = np.stack([index % rows, index // rows], axis=-1)
    found.flags.writeable = False  # shared by callers
    return found


@dataclass(frozen=True)
class Runs:
    """A TV layout whose values are reordered so that each `vector` of them are contiguous: one vector access each.

    `values[i]` is the index of value i of `tv` in the original value mode.
    """

    tv: Layout
    values: tuple[int, ...]

    @property
    def in_order(self) -> bool:
        """Whether the values are in their original order."""
        return self.values == tuple(range(len(self.values)))


@lru_cache(maxsize=512)
def runs(tv: Layout, shape: Shape, vector: int, transposed: bool = False) -> Runs:
    """The values of `tv` in runs of `vector` along the columns of the tile or, `transposed`, along its rows.

    Values that are already contiguous keep their order. Raises ScheduleError if a thread does not hold runs of
    `vector` elements.
    """
    _, count = extents(tv)
    if vector == 1:
        return Runs(tv, tuple(range(count)))
    unit, modes = (1 if transposed else shape[0]), _numbered(_flat_values(tv, shape[0]))
    run: list[tuple[int, int, int]] = []
    length = 1
    while length < vector:
        place = next((i for i, (_, stride, _) in enumerate(modes) if stride == unit * length), None)
        taken = 1 if place is None else math.gcd(modes[place][0], vector // length)
        if place is None or taken == 1:
            line = "rows" if transposed else "columns"
            raise ScheduleError(
                f"a thread does not hold {vector} neighbours along the {line} of the tile {shape[0]}x{shape[1]} by the "
                f"TV layout {tv}; take narrower vectors [tv-neighbours]"
            )
        extent, stride, number = modes[place]
        run.append((taken, stride, number))
        modes[place : place + 1] = [(extent // taken, stride * taken, number * taken)] if extent > taken else []
        length *= taken
    shapes, strides, numbers = zip(*run, *modes, strict=True)
    order = offsets(Layout(shapes, numbers), np.arange(count))
    return Runs(Layout(mode(tv, 0), Layout(shapes, strides)), tuple(order.tolist()))


def neighbours(tv: Layout, shape: Shape, transposed: bool = False) -> int:
    """The number of contiguous elements of a thread, a power of two, along the columns of the tile, or its rows."""
    unit, extent_of = (1 if transposed else shape[0]), {stride: extent for extent, stride in _flat_values(tv, shape[0])}
    held = 1
    while unit * held in extent_of:
        held *= extent_of[unit * held]
    return held & -held


def _numbered(modes: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """(extent, stride) of modes, with the number of values between two elements of the mode."""
    steps = np.cumprod([1, *(extent for extent, _ in modes)]).tolist()
    return [(extent, stride, step) for (extent, stride), step in zip(modes, steps[:-1], strict=True)]


def _flat_values(tv: Layout, rows: int) -> list[tuple[int, int]]:
    """(extent, stride) of each value mode longer than 1; a mode that continues into the next column is cut there."""
    cut: list[tuple[int, int]] = []
    for extent, stride in flat_modes(mode(tv, 1)):
        if 0 < stride < rows < extent * stride and rows % stride == 0 and extent * stride % rows == 0:
            cut += [(rows // stride, stride), (extent * stride // rows, rows)]
        elif extent > 1:
            cut.append((extent, stride))
    return cut or [(1, 0)]


@dataclass(frozen=True)
class SplitCoordinates:
    """A TV layout separated for code generation.

    row(t, v) = row_thread(t) + row_values[v] and column(t, v) = col_thread(t) + col_values[v], so that each thread
    computes its own part once and adds constants.
    """

    row_thread: Layout
    col_thread: Layout
    row_values: tuple[int, ...]
    col_values: tuple[int, ...]

    @property
    def turned(self) -> "SplitCoordinates":
        """The coordinates of the transpose: rows and columns exchanged."""
        return SplitCoordinates(self.col_thread, self.row_thread, self.col_values, self.row_values)


@lru_cache(maxsize=512)
def split_coordinates(tv: Layout, shape: Shape) -> SplitCoordinates:
    """The thread part and the value part of each element's row and column.

    Raises ScheduleError if they do not separate because a sum carries from the row into the column.
    """
    rows, columns = shape
    threads, values = extents(tv)
    thread_part, value_part = mode(tv, 0), mode(tv, 1)
    row_of, column_of = Layout((rows, columns), (1, 0)), Layout((rows, columns), (0, 1))
    row_thread, col_thread = (coalesce(compose(part, thread_part)) for part in (row_of, column_of))
    value_index = offsets(value_part, np.arange(values))
    row_values, col_values = (tuple(part.tolist()) for part in (value_index % rows, value_index // rows))
    split = SplitCoordinates(row_thread, col_thread, row_values, col_values)
    lanes = np.arange(threads)
    row = offsets(row_thread, lanes)[:, None] + np.array(split.row_values)
    column = offsets(col_thread, lanes)[:, None] + np.array(split.col_values)
    if not np.array_equal(np.stack([row, column], axis=-1), coordinates(tv, shape)):
        raise ScheduleError(
            f"TV layout {tv} on a tile {rows}x{columns} does not separate into a thread part and a value part; "
            "give threads and values extents that divide the tile's [tv-separates]"
        )
    return split
