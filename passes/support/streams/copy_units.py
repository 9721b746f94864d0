"""The units by which a matrix is copied, and the tiles by which it is transposed.

A thread copies a unit, aligned in the target; a CTA transposes a tile. The launch counts them (`launch-preparations`),
and each thread finds its own (`nvvm`).
"""

from mlir import ir

from lowtide.dialects import tile
from lowtide.passes.support.ir.builder import Builder, Scalar
from lowtide.passes.support.problem.element_types import element_bits

UNIT_BYTES = 16
TRANSPOSING_THREADS = 128  # of a CTA that transposes a tile
TILE_BYTES = 128  # of a row of such a tile, in both matrices
# In shared memory a row has one more unit, since a row of the source may begin within a unit. Rows that threads read
# together have another unit between them, so that they lie in different banks.
STAGED_ROW_BYTES = TILE_BYTES + UNIT_BYTES
# Of a split that transposes, a CTA takes units of as many rows, and as many of each: it writes lines of 128 bytes, and
# reads as long ones of elements of 32 bits.
PATCH_ROWS, PATCH_UNITS = 32, 8


def units_of_row(build: Builder, columns: Scalar, per_unit: int) -> ir.Value:
    """The most units that hold a part of a row of the target, which may begin and end within a unit."""
    return build.udiv(build.add(columns, 2 * per_unit - 2), per_unit)


def side_of_tile(element_bytes: int) -> int:
    """Rows, and columns, of a tile that a CTA transposes."""
    return TILE_BYTES // element_bytes


def staged_offset(row: int, element_bytes: int) -> int:
    """The offset of a row of such a tile in shared memory, in bytes."""
    return row * STAGED_ROW_BYTES + row * element_bytes // UNIT_BYTES * UNIT_BYTES


def staged_bytes(op: tile.PrepareOp) -> int:
    """Bytes of shared memory of a CTA: those of a tile if it transposes one, else 0."""
    if not op.transposed or op.precision is not None:
        return 0
    element_bytes = element_bits(ir.MemRefType(op.source.type).element_type) // 8
    return staged_offset(side_of_tile(element_bytes), element_bytes)


def patches(build: Builder, rows: Scalar, units: Scalar) -> tuple[ir.Value, ir.Value]:
    """The number of patches along the rows, and along the units of each row."""
    return build.ceil_udiv(rows, PATCH_ROWS), build.ceil_udiv(units, PATCH_UNITS)
