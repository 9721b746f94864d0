"""Tensor maps as values, and their use by TMA: boxes of a matrix into shared memory.

A box is in shared memory row after row, without gaps, its last side fastest. Its 16-byte units are then permuted by the
bits of the shared memory address (`hardware.tma_swizzle`), independently of a buffer's layout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.interpreter.machine import hardware, mbarriers
from lowtide.interpreter.machine.agents import AgentState, Steps
from lowtide.interpreter.machine.matrices import Matrix
from lowtide.interpreter.machine.mbarriers import Mbarrier
from lowtide.interpreter.machine.memory import InFlight
from lowtide.interpreter.machine.reliances import WRAPPED_ADDRESSES
from lowtide.interpreter.machine.scheduling import spawn
from lowtide.interpreter.numbers.accesses import Described
from lowtide.interpreter.numbers.packed import Mixed
from lowtide.interpreter.program.types import Scalar

Ints = NDArray[np.int64]

UNIT = 16  # bytes that a swizzle keeps together
RAGGED_ROWS = 2**30  # the extent of the rows of a ragged map
WRAPPED = 2**64  # addresses are summed modulo it
ALIGNMENT = 128  # of a box in shared memory (PTX ISA, "cp.async.bulk.tensor")


@dataclass(frozen=True)
class TensorMap:
    """Boxes of a matrix or a batch as a tensor; sides, extents and strides outermost first, in elements.

    `span` is the swizzle's, 32, 64 or 128 bytes, or 0 for none. `at` is the address of the map itself, if it is in
    memory.
    """

    matrix: Matrix
    box: tuple[int, ...]
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    span: int
    at: int | None = None

    @property
    def element(self) -> Scalar:
        return self.matrix.element

    @property
    def bytes(self) -> int:
        """Bytes per box, as an mbarrier counts them, also at an edge."""
        return prod(self.box) * self.element.bytes

    @property
    def tile(self) -> tuple[int, int]:
        """Rows and columns of the matrix that a box covers."""
        if len(self.matrix.shape) > 2 and self.box[0] > 1:  # rows of several matrices
            return prod(self.box[:-1]), self.box[-1]
        tile = self.box[-2], prod(self.box[:-2]) * self.box[-1]
        return tile[::-1] if self.matrix.is_column_major else tile

    def blend(self, condition: Any, other: Any) -> Any:
        """This map if the condition holds in each lane, `other` if it holds in none; a mixed value otherwise."""
        if condition.all():
            return self
        return Mixed(condition, self, other) if condition.any() else other

    def corner(self, *place: int) -> tuple[int, ...]:
        """The coordinates of the box that begins at (row, column) of the matrix, or at (matrix, row, column) of a
        batch. In two batches, outer coordinates that are not given are 0: the box has rows of both."""
        place = (*(0,) * (len(self.matrix.shape) - len(place)), *place)
        *matrix, row, column = place
        if self.matrix.is_column_major:
            return (*matrix, column, row)
        if len(self.box) == 2 + len(matrix):
            return place
        panel, within = divmod(column, self.box[-1])
        return (*matrix, *(0,) * (len(self.box) - 3 - len(matrix)), panel, row, within)


class WithMaps(int):
    """A struct that is passed by value, as a number, with the tensor maps in it by their offsets in bytes."""

    maps: Mapping[int, TensorMap]

    @classmethod
    def of(cls, number: int, maps: Mapping[int, TensorMap]) -> WithMaps:
        found = cls(number)
        found.maps = maps
        return found


def map_at(parameter: Any, offset: int) -> Any:
    """The address of the tensor map at an offset of a parameter, or the map itself if it is not in memory; the
    parameter if there is none."""
    found = parameter.maps.get(offset, parameter) if isinstance(parameter, WithMaps) else parameter
    return found.at if isinstance(found, TensorMap) and found.at is not None else found


def encode(
    state: AgentState,
    op: Described,
    matrix: Matrix,
    box: tuple[int, ...],
    swizzle: tuple[int, int, int] | None,
    *,
    ragged: bool = False,
) -> TensorMap:
    """As cuTensorMapEncodeTiled, for a box that the type's verifier has accepted.

    Sides and extents are of the matrix as it lies: columns, rows if it is column-major. With more sides than dimensions
    the matrix is viewed as panels that are as wide as the box. In a batch, the first side is the batch. With `ragged`,
    loads say where the rows end (`ragged_corner`). Raises InterpreterError for a matrix that TMA cannot read, or that
    panels do not divide.
    """
    *batch, rows, columns = matrix.shape_as_it_lies
    stride, width = matrix.row_stride * matrix.element.bytes, box[-1]
    if matrix.address % UNIT or any(each * matrix.element.bytes % UNIT for each in matrix.strides):
        apart = f", and so between the matrices, {matrix.strides[0] * matrix.element.bytes} bytes"
        between = apart if batch else ""
        raise state.violation(
            op,
            f"{matrix.name} at address {matrix.address:#x} with rows {stride} bytes apart: TMA needs multiples of "
            f"{UNIT}{between} [map-address-of-ir]",
        )
    shape: tuple[int, ...] = matrix.shape_as_it_lies
    strides: tuple[int, ...] = (*matrix.strides, 1)
    outer = len(box) - 1 - len(shape)
    if ragged:
        shape = (2 * RAGGED_ROWS - 1, 2 * RAGGED_ROWS - 1, RAGGED_ROWS, columns)
        wrapping = WRAPPED // RAGGED_ROWS // matrix.element.bytes - matrix.row_stride
        strides = (wrapping, matrix.row_stride, *strides)
    elif outer >= 0:
        if columns % width:
            raise state.violation(
                op, f"{matrix.name} has {columns} columns, not whole panels of {width}; pad them [map-panels]"
            )
        shape = (*batch, *(1,) * outer, columns // width, rows, width)
        strides = (*matrix.strides[:-1], *(width,) * outer, width, matrix.row_stride, 1)
    return TensorMap(matrix, box, shape, strides, UNIT << swizzle[0] if swizzle and swizzle[0] else 0)


def ragged_corner(end: int, row: int, column: int) -> tuple[int, ...]:
    """The coordinates of the box at (row, column) of a ragged map whose rows end before row `end`.

    The first two terms of the address, 2³⁰ · (2³⁴ − S) + end · S bytes, wrap around to (end − 2³⁰) · S.
    """
    return RAGGED_ROWS, end, RAGGED_ROWS - end + row, column


@dataclass(frozen=True)
class BoxPlaces:
    """The places of a box: for each run of `size` bytes, in shared memory, in global memory, and the bytes that
    exist."""

    shared: Ints
    globals: Ints
    used: Ints
    size: int


@lru_cache(maxsize=64)
def _runs_of(box: tuple[int, ...], unit: int) -> tuple[list[Ints], Ints]:
    """The runs of `unit` elements of a box: for each dimension, the coordinates of the first element of each run; and
    the number of that element in the box."""
    inside = [part.reshape(-1) for part in np.mgrid[tuple(slice(0, side) for side in box[:-1])]]
    starts = np.arange(0, box[-1], unit)
    runs = [np.repeat(part, len(starts)) for part in inside]
    inner = np.tile(starts, prod(box[:-1]))
    offset = np.zeros_like(inner)
    for side, part in zip(box[:-1], runs, strict=True):
        offset = offset * side + part
    return [*runs, inner], offset * box[-1] + inner


def places(map: TensorMap, corner: tuple[int, ...], address: int) -> BoxPlaces:
    """The box at `corner` (coordinates outermost first) and its image at a shared memory address, swizzled."""
    unit = _unit(map, corner)
    width = map.element.bytes
    runs, offset = _runs_of(map.box, unit)
    offset = offset * width
    found = [part + at for part, at in zip(runs, corner, strict=True)]
    held = found[-1] >= 0
    for part, extent in zip(found[:-1], map.shape[:-1], strict=True):
        held &= (part >= 0) & (part < extent)
    used = np.where(held, np.clip((map.shape[-1] - found[-1]) * width, 0, unit * width), 0)
    element = sum(part * stride for part, stride in zip(found, map.strides, strict=True))
    source = np.where(used > 0, map.matrix.address + element * width, map.matrix.address)
    return BoxPlaces(hardware.tma_swizzle(address + offset, map.span), source, used, unit * width)


def load_box(
    state: AgentState,
    op: Described,
    map: TensorMap,
    corner: tuple[int, ...],
    address: int,
    barriers: Sequence[Mbarrier],
) -> None:
    """cp.async.bulk.tensor: the box at `corner` begins to land at a shared address and signals a barrier.

    With several barriers it lands at that address of the CTA of each, and signals it. Coordinates are outermost first.
    Elements outside the tensor become zero. It lands at any later time and then counts the bytes of the full box.
    """
    if address % ALIGNMENT:
        raise state.violation(
            op, f"a box at shared memory address {address:#x}; TMA needs a multiple of {ALIGNMENT} [box-address]"
        )
    check_corner(state, op, map, corner)
    _note_wrapping(state, op, map, corner)
    box, access = places(map, corner, address), state.access(op)
    codes, payload = state.machine.memory.read_raw(access, box.globals, box.size, box.used)
    state.machine.memory.check_fenced(access, box.globals, box.size, box.used)
    arrive_in(state, op, box.shared, (codes, payload), barriers)


def _note_wrapping(state: AgentState, op: Described, map: TensorMap, corner: tuple[int, ...]) -> None:
    """Notes a reliance if the terms of an address add up to 2^64 or more."""
    relied, terms = state.machine.observers.relied, zip(corner, map.strides, strict=True)
    if relied is not None and sum(at * stride for at, stride in terms) * map.element.bytes >= WRAPPED:
        what = f"the address of a box of {map.matrix.name} at {list(corner)}"
        where = f"the terms of {what} add up to 2^64 or more [box-wraps]"
        relied.on(WRAPPED_ADDRESSES, str(state.violation(op, where)))


def arrive_in(
    state: AgentState,
    op: Described,
    rows: Ints,
    data: tuple[Any, Any],
    barriers: Sequence[Mbarrier],
    by_threads: bool = False,
) -> None:
    """Codes and payload (n, size) begin to land at these addresses of the CTA of each barrier, and signal it with their
    bytes.

    Addresses are those of the agent's own CTA. `by_threads` as in `SharedMemory.start_copy`.
    """
    access = state.access(op)
    for barrier in barriers:
        assert barrier.home is not None
        writer = access if barrier.home is state.cta else replace(access, warp=barrier.home.guest(state))
        shared = barrier.home.shared
        there = rows + (shared.origin - state.cta.shared.origin)
        flight = shared.start_copy(writer, there, *data, barrier.source, by_threads)
        mbarriers.note_load(state, op, barrier)
        spawn(
            state,
            f"TMA load by {state.seat.name}",
            op,
            partial(_land, op, barrier, flight, barrier.completed, data[0].size),
        )


def check_corner(state: AgentState, op: Described, map: TensorMap, corner: tuple[int, ...]) -> None:
    """Check that a box begins at a multiple of 16 bytes of global memory, like base and strides of its map.

    The PTX ISA does not say this for all types; an H200 stops with "illegal instruction" otherwise.
    """
    into = corner[-1] * map.element.bytes
    if into % UNIT:
        where = f"a box that begins {into} bytes into a row of {map.matrix.name}"
        raise state.violation(op, f"{where}; TMA needs multiples of {UNIT} [box-corner]")


def _land(op: Described, barrier: Mbarrier, flight: InFlight, phase: int, size: int, aside: AgentState) -> Steps:
    """A box that was started in a phase of a barrier lands in that barrier's CTA, and signals it."""
    yield from ()
    assert barrier.home is not None
    barrier.home.shared.land(flight, epoch=phase)
    mbarriers.complete_bytes(aside, op, barrier, phase, size)


def load_tile(
    state: AgentState,
    op: Described,
    map: TensorMap,
    origin: Sequence[int],
    tile: tuple[int, int],
    address: int,
    barriers: Sequence[Mbarrier],
    share: tuple[int, int] | None = (0, 1),
) -> None:
    """The boxes of a tile of the matrix, one after the other in shared memory: down the rows, then across.

    `origin` is its row and column, in a batch after the number of the matrix.

    With `share` = (i, n), only the i-th of n parts of its rows, at its place in the whole tile. With None, only its
    first rows, as many as a box has.
    """
    rows, columns = map.tile
    *matrix, first_row, first_column = origin
    part, of = share or (0, 1)
    own = rows if share is None else tile[0] // of
    if share is not None and (tile[0] % of or own % rows):
        raise state.violation(
            op,
            f"{of} CTAs share {tile[0]} rows in boxes of {rows}; each must load whole boxes: take smaller ones"
            " [boxes-shared]",
        )
    for column in range(0, tile[1], columns):
        for row in range(part * own, (part + 1) * own, rows):
            place = address + (column * tile[0] + row * map.box[-1]) * map.element.bytes
            corner = map.corner(*matrix, first_row + row, first_column + column)
            load_box(state, op, map, corner, place, barriers)


def _unit(map: TensorMap, corner: tuple[int, ...]) -> int:
    """Elements that are read together: 16 bytes of them if the box begins at such a multiple."""
    elements = UNIT // map.element.bytes
    return elements if corner[-1] >= 0 and corner[-1] % elements == 0 else 1
