"""Loads of an mma operand's fragment from memory without ldmatrix: the values that each ld of a thread fills.

Values that a thread holds next to each other along the contiguous dimension form one load, at any place in the order of
its registers. So the plan follows from the fragment's TV layout alone. A permutation of the tiled mma that makes a
thread's elements adjacent makes its loads wider.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from tensor_layouts import Layout, coalesce, compose, flatten, mode

from lowtide.errors import ScheduleError
from lowtide.targets.tv import Shape, coordinates, extents, offsets

_WIDEST_BYTES = 16


@dataclass(frozen=True)
class FragmentLoads:
    """Loads of `vector` elements each, for a fragment of the tile `shape`.

    `starts` maps (thread, load) to the column-major index of the first element. The others follow along the columns, or
    with `trans` along the rows of the tile (memory then holds it as (columns, rows)). `values` maps (element of a load,
    load) to the index in the fragment's value mode.
    """

    shape: Shape
    trans: bool
    vector: int
    starts: Layout
    value_layout: Layout

    @property
    def values(self) -> NDArray[np.int64]:
        """The indices into the value mode that each load fills: array (loads, vector), ordered by the first index."""
        loads = extents(self.starts)[1]
        return offsets(self.value_layout, np.arange(loads * self.vector)).reshape(loads, self.vector)


@lru_cache(maxsize=512)
def widest_loads(tv: Layout, shape: Shape, trans: bool, element_bits: int) -> FragmentLoads:
    """The widest loads, up to 16 bytes, that fill the fragment. Raises ScheduleError if `tv` exceeds `shape`."""
    vector = _WIDEST_BYTES * 8 // element_bits
    while vector > 1:
        try:
            return fragment_loads(tv, shape, trans, vector)
        except ScheduleError:
            vector //= 2
    return fragment_loads(tv, shape, trans, 1)


@lru_cache(maxsize=512)
def fragment_loads(tv: Layout, shape: Shape, trans: bool, vector: int) -> FragmentLoads:
    """The loads of `vector` elements. Raises ScheduleError if a thread does not hold such runs, aligned."""
    threads, _ = extents(tv)
    run, rest = _runs(tv, shape[0], trans, vector)
    value_layout = Layout(run, rest)
    starts = compose(tv, _times(rest, threads))
    starts = Layout(coalesce(mode(tv, 0)), coalesce(starts))
    plan = FragmentLoads(shape, trans, vector, starts, value_layout)
    held = coordinates(tv, shape)[:, plan.values]  # [thread, load, element, coordinate]
    step = np.where(np.arange(2) == (0 if trans else 1), 1, 0)
    if np.any(held != held[:, :, :1] + np.arange(vector)[:, None] * step) or np.any(held[:, :, 0] @ step % vector):
        raise _no_runs(tv, shape, trans, vector)
    return plan


def _runs(tv: Layout, rows: int, trans: bool, vector: int) -> tuple[Layout, Layout]:
    """The value mode as (elements of a load, loads), in values."""
    unit = 1 if trans else rows  # distance of elements adjacent in memory, in the tile's column-major index
    modes = _value_modes(tv)
    run: list[tuple[int, int]] = []
    count = 1
    while count < vector:
        found = next((entry for entry in modes if entry[1] == unit * count and entry[0] > 1), None)
        if found is None or vector // count % min(found[0], vector // count):
            raise _no_runs(tv, (rows, -1), trans, vector)
        extent, stride, step = found
        taken = min(extent, vector // count)
        run.append((taken, step))
        count *= taken
        place = modes.index(found)
        if extent % taken:
            raise _no_runs(tv, (rows, -1), trans, vector)
        modes[place : place + 1] = [(extent // taken, stride * taken, step * taken)] if extent > taken else []
    return _layout(run), _layout([(extent, step) for extent, _, step in modes])


def _value_modes(tv: Layout) -> list[tuple[int, int, int]]:
    """The value mode's modes: extent, stride in the tile, stride in values."""
    flat = flatten(mode(tv, 1))
    shapes = (flat.shape,) if isinstance(flat.shape, int) else flat.shape
    strides = (flat.stride,) if isinstance(flat.stride, int) else flat.stride
    modes, step = [], 1
    for extent, stride in zip(shapes, strides, strict=True):
        modes.append((extent, stride, step))
        step *= extent
    return modes


def _layout(modes: list[tuple[int, int]]) -> Layout:
    if not modes:
        return Layout(1, 0)
    return Layout(tuple(extent for extent, _ in modes), tuple(step for _, step in modes))


def _times(layout: Layout, factor: int) -> Layout:
    """In the linear domain of the TV layout, values are `factor` threads apart."""
    flat = flatten(layout)
    if isinstance(flat.shape, int):
        return Layout(flat.shape, flat.stride * factor)
    return Layout(flat.shape, tuple(stride * factor for stride in flat.stride))


def _no_runs(tv: Layout, shape: Shape, trans: bool, vector: int) -> ScheduleError:
    along = "rows" if trans else "columns"
    return ScheduleError(
        f"no thread of {tv} holds aligned runs of {vector} elements along the {along} of its tile; take narrower "
        "loads, or a permutation that makes the elements adjacent [no-runs]"
    )
