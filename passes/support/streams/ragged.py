"""Ragged tensor maps: each load says where the rows of the matrix end, and reads zeros from there on.

The map of a matrix with rows S bytes apart has four dimensions: two outer ones, with strides of 2³⁴ − S and S, then
rows and columns. The rows have an extent of R = 2³⁰. A load of the box at (row, column) of the rows before `end` has
the coordinates (R, end, R − end + row, column): rows from `end` on are outside of the extent. Its address is that of
the matrix plus R · (2³⁴ − S) + end · S + (R − end + row) · S = 2⁶⁴ + row · S, and addresses have 64 bits. The PTX ISA
does not say that the sum wraps around (docs/ptx.md, Reliances); Triton's ragged tensor descriptors rely on it too.
"""

from mlir import ir

from lowtide.dialects import sm
from lowtide.passes.support.ir.builder import Builder

RAGGED = "ragged"  # the attribute of such a map and its loads
ROWS = 2**30  # the extent of the rows


def is_ragged(op: sm.TensorMapOp | sm.TmaLoadOp) -> bool:
    """Whether an op makes a ragged map, or loads through one."""
    return RAGGED in op.operation.attributes


def mark_ragged(op: sm.TensorMapOp | sm.TmaLoadOp) -> None:
    op.operation.attributes[RAGGED] = ir.UnitAttr.get()


def coordinates(build: Builder, end: ir.Value, row: ir.Value) -> tuple[ir.Value, tuple[ir.Value, ir.Value]]:
    """The coordinate of a row, and those of the outer dimensions, innermost first."""
    return build.add(build.sub(ROWS, end), row), (end, build.constant(ROWS))
