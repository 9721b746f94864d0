"""Matrices of a list in one thread's program: read from the list's table in memory (`dialects/tile/lists.py`)."""

from dataclasses import replace

from mlir import ir
from mlir.dialects import arith, llvm

from lowtide.dialects.tile.lists import ENTRY_BYTES, Entry
from lowtide.passes.nvvm.thread.context import Context
from lowtide.passes.nvvm.thread.lanes import of_first_lane
from lowtide.passes.nvvm.thread.memory import element_pointer
from lowtide.passes.nvvm.thread.values import GlobalMatrix
from lowtide.passes.support.ir.builder import Builder

_OF_DIM = (Entry.rows, Entry.columns)


def listed_matrix(context: Context, matrices: GlobalMatrix, number: ir.Value) -> GlobalMatrix:
    """A matrix of a list, from its row of the table, which each thread loads once in a block."""
    build, key, block = context.build, (matrices, number), ir.InsertionPoint.current.block
    there, found = context.listed.get(key, (None, None))
    if found is not None and there == block:
        return found
    pointer = llvm.IntToPtrOp(matrices.pointer.type, entry(build, matrices, number, Entry.address)).result
    extents = tuple(
        most if isinstance(most, int) else listed_extent(build, matrices, number, dim)
        for dim, most in enumerate(matrices.extents[1:])
    )
    strides = (entry(build, matrices, number, Entry.row_stride),)
    found = replace(matrices, pointer=pointer, strides=strides, extents=extents, is_list=False)
    context.listed[key] = block, found
    return found


def uniform_extent(context: Context, matrices: GlobalMatrix, number: ir.Value, dim: int) -> ir.Value:
    """As `listed_extent`, if all lanes of a warp ask for the same matrix."""
    extent = listed_extent(context.build, matrices, number, dim)
    return extent if context.elected else of_first_lane(context.build, extent)


def listed_extent(build: Builder, matrices: GlobalMatrix, number: ir.Value, dim: int) -> ir.Value:
    """The extent of a matrix along its dimension `dim`, at most that of the list."""
    most, own = matrices.extents[1 + dim], arith.trunci(build.i32, entry(build, matrices, number, _OF_DIM[dim]))
    return build.umin(own, build.constant(most) if isinstance(most, int) else most)


def entry(build: Builder, matrices: GlobalMatrix, number: ir.Value, which: Entry) -> ir.Value:
    """An integer of 64 bits in the table's row of a matrix."""
    row = element_pointer(matrices.pointer, build.mul(build.zext(number, build.i64), len(Entry)), build.i64)
    return llvm.LoadOp(build.i64, element_pointer(row, which.value, build.i64), alignment=ENTRY_BYTES).result
