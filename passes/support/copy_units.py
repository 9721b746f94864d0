"""The units by which a matrix is copied: what one thread moves, aligned in the target.

The launch counts them (`launch-copies`), and each thread finds its own (`nvvm`).
"""

from mlir import ir

from lowtide.passes.support.builder import Builder, Scalar

UNIT_BYTES = 16


def units_of_row(build: Builder, columns: Scalar, per_unit: int) -> ir.Value:
    """The most units of a row of the target that hold some of it: it may begin and end within a unit."""
    return build.udiv(build.add(columns, 2 * per_unit - 2), per_unit)
