"""Loads of scales: one for each row or column of a thread's values, or for each block of these."""

from collections.abc import Callable, Sequence
from functools import partial
from math import gcd

from mlir import ir
from mlir.dialects import llvm
from tensor_layouts import Layout, cosize

from lowtide.dialects import sm
from lowtide.dialects.enums import operand_kind
from lowtide.dialects.tile.layouts import tv_of
from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.nvvm.thread.control import offset_of
from lowtide.passes.nvvm.thread.memory import element_pointer
from lowtide.passes.nvvm.thread.thread_offsets import layout_offset
from lowtide.passes.nvvm.thread.values import GlobalMatrix, Offset, Repeated, SharedBuffer
from lowtide.passes.support.problem.element_types import element_bits
from lowtide.passes.support.problem.operand_kinds import SCALES
from lowtide.passes.support.streams.streams import Stream
from lowtide.targets import SplitCoordinates, split_coordinates


def lower_load_scales(context: Context, op: sm.LoadScalesOp) -> None:
    """The scales of a fragment in global memory, or those that a slot of the ring holds.

    In global memory a row or a column beyond the last one gets the last one's: what it scales is not stored.
    """
    source, scales, type_ = context.get(op.source), SCALES[operand_kind(op)], op.result.type
    assert isinstance(source, GlobalMatrix | SharedBuffer)
    split, of_k = split_coordinates(tv_of(type_.tv), type_.shape), context.build.udiv(context.scalar(op.k), scales.k)
    load = partial(_load, context, source, scales, of_k)
    context.values[op.result] = _loaded(context, op, scales, offset_of(context, op.first), split, load)


def _loaded(
    context: Context,
    op: sm.LoadScalesOp,
    scales: Stream,
    outer: Offset,
    split: SplitCoordinates,
    load: Callable[[ir.Value], ir.Value],
) -> Repeated:
    """Each scale that a thread needs, loaded once: those of rows, or columns, from `outer` on."""
    layout, places = (split.row_thread, split.row_values) if scales.of_rows else (split.col_thread, split.col_values)
    own = layout_offset(context.build, layout, context.tid)
    loaded: list[ir.Value] = []
    found: list[int] = []
    numbers: dict[int, int] = {}  # of what is loaded, by key
    for place, shared in zip(places, _shared(outer, scales.rows, layout, places), strict=True):
        key = place if shared is None else -1 - shared
        if key not in numbers:
            first = context.build.add(outer.value, context.build.add(own, place) if shared is None else shared)
            loaded.append(load(context.build.udiv(first, scales.rows)))
            numbers[key] = len(numbers)
        found.append(numbers[key])
    return Repeated(tuple(loaded), tuple(found), op.result.type)


def _shared(outer: Offset, block: int, layout: Layout, places: Sequence[int]) -> list[int | None]:
    """For each place the first row, or column, of the tile that has its scale for all threads; None where each thread
    works out its own.

    Work tiles begin at multiples of their extent, so as many rows as divide both that and a block lie within a block.
    """
    together = 1 if outer.shift else gcd(outer.multiple, block)
    farthest = cosize(layout) - 1
    return [
        place // together * together if place // together == (place + farthest) // together else None
        for place in places
    ]


def _load(
    context: Context, source: GlobalMatrix | SharedBuffer, scales: Stream, of_k: ir.Value, index: ir.Value
) -> ir.Value:
    """The element for a block of rows, or columns, and a block of K."""
    build = context.build
    if isinstance(source, SharedBuffer):
        element, stride = source.type.element_type, source.type.shape[1]
    else:
        element, stride = source.element, source.row_stride
        index = build.umin(index, build.sub(source.extents[1 - scales.k_dim], 1))
        index, of_k = build.zext(index, build.i64), build.zext(of_k, build.i64)
    far, near = (index, of_k) if scales.k_is_last else (of_k, index)
    pointer = element_pointer(source.pointer, build.add(build.mul(far, stride), near), element)
    return llvm.LoadOp(element, pointer, alignment=element_bits(element) // 8).result
