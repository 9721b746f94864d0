"""Runs of a thread's values that lie side by side in memory, and where they begin."""

from dataclasses import replace

import numpy as np
from mlir import ir
from mlir.dialects import arith
from numpy.typing import NDArray
from tensor_layouts import size

from lowtide.dialects import sm
from lowtide.dialects.tile.layouts import tv_of
from lowtide.errors import ScheduleError
from lowtide.passes.base import Refusal
from lowtide.passes.nvvm.thread.context import Context, atom_of
from lowtide.passes.nvvm.thread.memory import Inside, inside
from lowtide.passes.nvvm.thread.thread_offsets import layout_offset
from lowtide.passes.nvvm.thread.values import Window
from lowtide.passes.support.problem.element_types import element_bits
from lowtide.targets import SplitCoordinates, fragment_loads
from lowtide.targets.tv import Runs, extents, offsets, runs


def thread_origin(context: Context, window: Window, split: SplitCoordinates) -> tuple[ir.Value, ir.Value]:
    """Row and column in the matrix of the thread's first element in the window."""
    origin = []
    for offset, layout in zip(window.offsets, (split.row_thread, split.col_thread), strict=True):
        origin.append(context.build.add(offset.value, layout_offset(context.build, layout, context.tid)))
    return origin[0], origin[1]


Origin = tuple[ir.Value, ir.Value]


def in_halves(
    context: Context, op: ir.OpView, window: Window, split: SplitCoordinates
) -> tuple[list[Window], SplitCoordinates, Origin]:
    """For each value of a thread, the window of one matrix with the value; the coordinates in these windows; and
    `thread_origin` there. A window of halves has two such windows.

    Raises Refusal if the values of a thread are in both halves, but not in the same way in all threads.
    """
    origin, parts = thread_origin(context, window, split), window.halves
    if len(parts) == 1:
        return [window] * len(split.row_values), split, origin
    height, build = parts[0].shape[0], context.build
    threads = offsets(split.row_thread, np.arange(size(split.row_thread)))
    halves = (threads[:, None] + np.array(split.row_values)) // height
    if (halves == halves[0]).all():  # each value is in one half in all threads
        rows = tuple(row % height for row in split.row_values)
        return [parts[half] for half in halves[0].tolist()], replace(split, row_values=rows), origin
    if (halves != halves[:, :1]).any():
        raise Refusal(
            op,
            f"copies {threads.max() + 1} rows at a time, which must divide the {height} rows of each half; take "
            "another grid.tile, or another number of threads [halves-of-threads]",
        )
    is_first = build.ult(layout_offset(build, split.row_thread, context.tid), height)
    pointer = arith.select(is_first, *(part.matrix.pointer for part in parts))
    own = replace(parts[0], matrix=replace(parts[0].matrix, pointer=pointer))
    row = build.sub(origin[0], build.select(is_first, 0, height))
    return [own] * len(split.row_values), split, (row, origin[1])


def has_whole_runs(window: Window, run: int) -> bool:
    """Whether each run of columns, `run` long, is known to be inside the matrix as a whole or not at all."""
    columns = window.matrix.extents[1]
    return inside(window, 1) is not Inside.PARTLY or (isinstance(columns, int) and columns % run == 0)


def check_runs(op: ir.OpView, split: SplitCoordinates, run: int, swizzle: tuple[int, int, int]) -> None:
    """Checks that each run of values is contiguous in a row, aligned to its size, and not split by the swizzle."""
    if run < 1 or len(split.row_values) % run:
        raise Refusal(op, f"moves {run} elements at once, but a thread has {len(split.row_values)} [run-of-thread]")
    rows = np.array(split.row_values).reshape(-1, run)
    columns = np.array(split.col_values).reshape(-1, run)
    if np.any(rows != rows[:, :1]) or np.any(columns != columns[:, :1] + np.arange(run)) or np.any(columns[:, 0] % run):
        raise Refusal(
            op, f"moves {run} elements at once, but its thread-value layout does not keep them in one row [run-of-row]"
        )
    if swizzle[0] and run > 1 << swizzle[1]:
        raise Refusal(
            op, f"moves {run} elements at once, but the swizzle permutes units of {1 << swizzle[1]} [run-of-swizzle]"
        )


def loaded_values(op: ir.OpView, fragment: sm.FragmentType, run: int, along_rows: bool) -> NDArray[np.int64]:
    """The values that each load fills, along the columns or the rows of the fragment: array (loads, run)."""
    tv = tv_of(fragment.tv)
    _, held = extents(tv)
    if run < 1 or held % run:
        raise Refusal(op, f"moves {run} elements at once, but a thread has {held} [run-loaded]")
    try:
        return fragment_loads(tv, fragment.shape, along_rows, run).values
    except ScheduleError as error:
        along = "column" if along_rows else "row"
        rule = (
            f"moves {run} elements at once, but its thread-value layout does not keep them in one {along} [run-of-line]"
        )
        raise Refusal(op, rule) from error


def in_runs_of(op: ir.OpView, family: str, fragment: sm.FragmentType, *, along_rows: bool = False) -> tuple[int, Runs]:
    """Elements that an access by the op's atom moves, and the fragment's values in runs of as many: along its columns
    or, where asked, along its rows.

    Values that are no such runs stay in their order, and `check_runs` refuses them.
    """
    run, tv = run_of(op, family, fragment), tv_of(fragment.tv)
    try:
        return run, runs(tv, tuple(fragment.shape), max(run, 1), along_rows)
    except ScheduleError:
        return run, Runs(tv, tuple(range(extents(tv)[1])))


def run_of(op: ir.OpView, family: str, fragment: sm.FragmentType) -> int:
    """Elements that an access by the op's atom moves."""
    return atom_of(op, op.atom.value, family).bytes_per_thread * 8 // element_bits(fragment.element_type)
