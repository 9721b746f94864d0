"""Rows of a matrix at an index: the rows that a thread copies, which it reads from the index once for each tile, or the
rows to which it stores, which it reads for each store of a fragment."""

from collections.abc import Mapping

from mlir import ir
from mlir.dialects import llvm

from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.nvvm.thread.memory import element_pointer
from lowtide.passes.nvvm.thread.thread_offsets import layout_offset
from lowtide.passes.nvvm.thread.values import Window
from lowtide.targets import SplitCoordinates


def taken_rows(context: Context, window: Window, split: SplitCoordinates) -> Mapping[int, tuple[ir.Value, ir.Value]]:
    """For each offset in rows of a thread's values: the row of the matrix in memory, and whether it exists. If it does
    not, the row is 0. An index is read only if the window has the row. It is read at the insertion point."""
    matrix, build, found = window.matrix, context.build, {}
    assert matrix.index is not None
    first = build.add(window.offsets[0].value, layout_offset(build, split.row_thread, context.tid))
    for step in dict.fromkeys(split.row_values):
        row = build.add(first, step)
        exists = build.ult(row, matrix.extents[0])
        place = build.zext(build.select(exists, row, 0), build.i64)
        pointer = element_pointer(matrix.index.pointer, place, build.i32)
        taken = llvm.LoadOp(build.i32, pointer, alignment=4).result
        exists = build.and_(exists, build.ult(taken, matrix.source_rows))  # negative rows are large unsigned ones
        found[step] = build.select(exists, taken, 0), exists
    return found
