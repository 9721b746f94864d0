"""Addresses of elements in shared and global memory, bounds checks for global memory, and loads of what exists."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache, reduce

import numpy as np
from mlir import ir
from mlir.dialects import llvm, scf
from tensor_layouts import Layout, compose, mode

from lowtide.dialects.tile.layouts import layout_of
from lowtide.errors import ScheduleError
from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.nvvm.thread.thread_offsets import ThreadOffset
from lowtide.passes.nvvm.thread.values import GlobalMatrix, SharedBuffer, Window
from lowtide.passes.support.ir.arithmetic import number
from lowtide.passes.support.ir.builder import Builder, Scalar, constant_of
from lowtide.passes.support.problem.element_types import element_bits
from lowtide.targets.tv import flat_modes, offsets

_DYNAMIC = -(2**31)  # llvm.getelementptr's marker for an index that is an operand


def element_pointer(base: ir.Value, index: Scalar, element: ir.Type) -> ir.Value:
    """base + index elements."""
    known = index if isinstance(index, int) else constant_of(index)
    if known == 0:
        return base
    if known is not None and abs(known) < 2**31:  # what the op holds as an attribute
        return llvm.GEPOp(base.type, base, [], [known], element, None).result
    return llvm.GEPOp(base.type, base, [index], [_DYNAMIC], element, None).result


def place_pointer(
    build: Builder, matrix: GlobalMatrix, place: Sequence[ir.Value], column: ir.Value | None = None
) -> ir.Value:
    """The address of an element: number of the matrix, left out or not needed without a batch, row, and column."""
    coordinates = place[-len(matrix.strides) :]
    steps = [
        build.mul(build.zext(coordinate, build.i64), stride)
        for coordinate, stride in zip(coordinates, matrix.strides, strict=True)
    ]
    if column is not None:
        steps.append(build.zext(column, build.i64))
    return element_pointer(matrix.pointer, reduce(build.add, steps), matrix.element)


def load_element(element: ir.Type, pointer: ir.Value) -> ir.Value:
    """The element at an address."""
    return llvm.LoadOp(element, pointer, alignment=element_bits(element) // 8).result


def where(
    exists: ir.Value | None,
    type_: ir.Type,
    load: Callable[[], ir.Value],
    otherwise: Callable[[], ir.Value] | None = None,
) -> ir.Value:
    """What `load` loads if `exists` is true or None. Else what `otherwise` gives; by default zero, and nothing is
    loaded."""
    if exists is None:
        return load()
    branch = scf.IfOp(exists, [type_], has_else=True)
    with ir.InsertionPoint(branch.then_block):
        scf.YieldOp([load()])
    with ir.InsertionPoint(branch.else_block):
        scf.YieldOp([number(type_, 0) if otherwise is None else otherwise()])
    return branch.results[0]


def copy_elements(
    build: Builder, element: ir.Type, row: ir.Value, target: ir.Value, places: Sequence[ir.Value], columns: ir.Value
) -> None:
    """Copies the elements at these places of a row to consecutive places. The row has at least one element. For a place
    outside the row, the nearest element is loaded, and nothing is stored. All loads stand before the first store, so
    that they are in flight at once."""
    last = build.sub(columns, 1)
    nearest = [build.sext(build.smin(build.smax(place, 0), last), build.i64) for place in places]
    values = [load_element(element, element_pointer(row, place, element)) for place in nearest]
    for index, (place, value) in enumerate(zip(places, values, strict=True)):
        branch = scf.IfOp(build.ult(place, columns))
        with ir.InsertionPoint(branch.then_block):
            llvm.StoreOp(value, element_pointer(target, index, element), alignment=element_bits(element) // 8)
            scf.YieldOp([])


@dataclass(frozen=True)
class Axis:
    """One dimension of a buffer: its layout, and the coordinates along it that the threads of an access have."""

    layout: Layout
    thread: Layout
    threads: int

    @property
    def thread_offset(self) -> Layout:
        """The offset of each thread."""
        return _composed(self.layout, self.thread)


@lru_cache(maxsize=2048)
def _composed(layout: Layout, thread: Layout) -> Layout:
    return compose(layout, thread)


@lru_cache(maxsize=4096)  # an access has many (row, column) pairs, but few rows and columns
def _offset(axis: Axis, value: int) -> int:
    """The offset that a step of `value` elements adds. Raises ScheduleError if it differs between threads."""
    places = offsets(axis.thread, np.arange(axis.threads))
    steps = offsets(axis.layout, places + value) - offsets(axis.layout, places)
    if np.any(steps != steps[0]):
        raise ScheduleError(
            f"from threads at {axis.thread}, a step of {value} elements crosses panels of {axis.layout} in some "
            "threads but not in others [panel-crossed]"
        )
    return int(steps[0])


@dataclass(frozen=True)
class SharedAccess:
    """Offsets of a thread's values in a buffer: a run-time part for the thread, a constant for each value."""

    buffer: SharedBuffer
    thread: ThreadOffset
    axes: tuple[Axis, Axis]
    element_bytes: int

    def pointer(self, context: Context, row: int, column: int) -> ir.Value:
        """The address of the element that lies (row, column) beyond the thread's own, as !llvm.ptr<3>."""
        build = context.build
        offset, constant = self.thread.at(build, _offset(self.axes[0], row) + _offset(self.axes[1], column))
        # The run-time part first, the constant last: then it folds into the instruction's address.
        start = element_pointer(self.buffer.pointer, build.mul(offset, self.element_bytes), build.i8)
        return element_pointer(start, constant * self.element_bytes, build.i8)


def shared_access(context: Context, buffer: SharedBuffer, row_thread: Layout, col_thread: Layout) -> SharedAccess:
    """Access to a buffer by the thread's row and column. Dimensions may be nested, as those of panels are."""
    layout, swizzle = layout_of(buffer.type.layout)
    rows, columns = (
        Axis(mode(layout, dim), thread, context.threads) for dim, thread in enumerate((row_thread, col_thread))
    )
    thread = _sum(rows.thread_offset, columns.thread_offset)
    offset = ThreadOffset.of(context.build, thread, context.threads, context.tid, swizzle)
    return SharedAccess(buffer, offset, (rows, columns), element_bits(buffer.type.element_type) // 8)


def _sum(first_part: Layout, second_part: Layout) -> Layout:
    """The layout t -> first(t) + second(t), over the common refinement of their shapes."""
    first, second = [*flat_modes(first_part)], [*flat_modes(second_part)]
    modes: list[tuple[int, int]] = []
    while first and second:
        (s, d), (t, e) = first.pop(0), second.pop(0)
        step = min(s, t)
        if max(s, t) % step:
            raise ScheduleError(
                f"thread layouts {first_part} and {second_part} have no common refinement [common-refinement]"
            )
        modes.append((step, d + e))
        if s > step:
            first.insert(0, (s // step, d * step))
        if t > step:
            second.insert(0, (t // step, e * step))
    shape, stride = zip(*modes, *first, *second, strict=True)
    return Layout(shape, stride)


class Inside(Enum):
    """What is known of a window along one dimension: fully inside the matrix, all or nothing, or neither."""

    ALL = 0
    ALL_OR_NOTHING = 1
    PARTLY = 2


def inside(window: Window, dim: int) -> Inside:
    extent, offset, shape = window.matrix.extents[dim], window.offsets[dim], window.shape[dim]
    if not isinstance(extent, int) or extent % offset.multiple:
        return Inside.PARTLY
    if offset.room is not None and shape <= offset.room:
        return Inside.ALL_OR_NOTHING if extent % offset.span else Inside.ALL
    whole = offset.multiple % shape == 0 and offset.shift % shape == 0
    return Inside.ALL_OR_NOTHING if whole else Inside.PARTLY


def is_before_edge(context: Context, window: Window, dim: int, index: ir.Value) -> ir.Value | None:
    """Whether `index` is inside the matrix along one dimension; None if it always is."""
    known = inside(window, dim)
    if known is Inside.ALL:
        return None
    probe = window.offsets[dim].value if known is Inside.ALL_OR_NOTHING else index
    return context.build.ult(probe, window.matrix.extents[dim])


def both(context: Context, x: ir.Value | None, y: ir.Value | None) -> ir.Value | None:
    """The conjunction of two conditions, None being true."""
    if x is None or y is None:
        return y if x is None else x
    return context.build.and_(x, y)


def global_pointer(context: Context, window: Window, row: ir.Value, column: ir.Value) -> ir.Value:
    """The address of element (row, column) of the matrix, in 64 bits since the row stride may be large."""
    matrix, build = window.matrix, context.build
    start = build.mul(build.zext(row, build.i64), matrix.row_stride)
    return element_pointer(matrix.pointer, build.add(start, build.zext(column, build.i64)), matrix.element)


def pointer_beyond(context: Context, window: Window, start: ir.Value, rows: int, columns: int) -> ir.Value:
    """The address of the element that lies (rows, columns) beyond the one at `start`.

    Rows are stepped over by a product that is the same for all threads and in every round of a loop, so an address
    costs one addition in 64 bits wherever `start` changes.
    """
    matrix, build = window.matrix, context.build
    row = element_pointer(start, build.mul(matrix.row_stride, rows), matrix.element) if rows else start
    return element_pointer(row, columns, matrix.element)
