"""Stages of scales of blocks: what a slot of the ring holds of the scales of a tile's rows, or columns, in a K step.

A stage is a box of the array of scales, as TMA copies it: of (⌈K / 128⌉, M) a row with an element for each row of the
tile; of (⌈M / 128⌉, ⌈K / 128⌉) the blocks that the tile reaches into, each with those of several K. A row of a box has
at least 16 bytes, it begins at a multiple of 16, and a stage is a multiple of 128 (CUDA driver API,
cuTensorMapEncodeTiled; PTX ISA, "cp.async.bulk.tensor").
"""

from math import gcd, prod

from lowtide.dialects.tile import OperandKind
from lowtide.passes.support.operand_kinds import SCALES, Scales

ALIGNMENT = 16
"""The alignment in bytes of base and rows of staged scales, as for any tensor map."""

_STAGE_BYTES = 128
_ELEMENT_BYTES = 4  # of f32, the type of scales


def stage_shape(kind: OperandKind, extent: int) -> tuple[int, int]:
    """Rows and columns of a stage, for the rows or columns of a tile of this extent."""
    scales = SCALES[kind]
    if scales.k_dim == 0:
        unit = _STAGE_BYTES // _ELEMENT_BYTES
        return 1, -(-extent // unit) * unit
    blocks = _blocks(scales, extent)
    return blocks, _STAGE_BYTES // _ELEMENT_BYTES // gcd(blocks, _STAGE_BYTES // ALIGNMENT)


def stage_bytes(kind: OperandKind, extent: int) -> int:
    """Bytes of a stage."""
    return prod(stage_shape(kind, extent)) * _ELEMENT_BYTES


def extent_of(kind: OperandKind, tile: tuple[int, int]) -> int:
    """The extent of a tile of D along which it is scaled."""
    return tile[0 if SCALES[kind].rows else 1]


def _blocks(scales: Scales, extent: int) -> int:
    """The most blocks that a tile reaches into, which begins at a multiple of its extent."""
    last = scales.block - gcd(extent, scales.block)  # of a block, where it may begin
    return -(-(last + extent) // scales.block)
