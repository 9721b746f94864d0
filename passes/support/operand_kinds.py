"""Kinds of operands of a `tile.gemm`: what they become in Dᵀ, and which act in the sum."""

from dataclasses import dataclass

from mlir import ir

from lowtide.dialects.tile import OperandKind
from lowtide.elements import SCALE_BLOCK

# What of a tile.gemm's operands acts in the sum, and has no argument in the epilogue.
_IN_THE_SUM = frozenset(
    {
        OperandKind.group_scale,
        OperandKind.group_zero,
        OperandKind.row_scale,
        OperandKind.column_scale,
        OperandKind.row_block_scale,
        OperandKind.column_block_scale,
    }
)
_SWAPPED_KINDS = {
    OperandKind.per_row: OperandKind.per_column,
    OperandKind.per_column: OperandKind.per_row,
    OperandKind.row_scale: OperandKind.column_scale,
    OperandKind.column_scale: OperandKind.row_scale,
    OperandKind.row_block_scale: OperandKind.column_block_scale,
    OperandKind.column_block_scale: OperandKind.row_block_scale,
}


def swapped_kind(kind: OperandKind) -> OperandKind:
    """The kind, in Dᵀ, of an operand of D."""
    return _SWAPPED_KINDS.get(kind, kind)


def acts_in_the_sum(kind: OperandKind) -> bool:
    """Whether an operand of tile.gemm is none of the epilogue's: scales and zero points of groups of K."""
    return kind in _IN_THE_SUM


def is_read_by_the_region(kind: OperandKind) -> bool:
    """Whether the epilogue's region has an argument for an operand of this kind."""
    return kind is not OperandKind.amax and not acts_in_the_sum(kind)


@dataclass(frozen=True)
class Scales:
    """What a scale belongs to: `rows` or columns of D, in blocks of so many of them and of so many of K.

    `k_dim` is the dimension of the array that counts blocks of K; the other one counts those of rows or columns.
    """

    rows: bool
    block: int
    k_block: int
    k_dim: int

    @property
    def outer_dim(self) -> int:
        return 1 - self.k_dim


SCALES = {
    OperandKind.row_scale: Scales(True, 1, SCALE_BLOCK, 0),
    OperandKind.column_scale: Scales(False, 1, SCALE_BLOCK, 0),
    OperandKind.row_block_scale: Scales(True, SCALE_BLOCK, SCALE_BLOCK, 1),
    OperandKind.column_block_scale: Scales(False, SCALE_BLOCK, SCALE_BLOCK, 1),
}

#: Dimensions of an operand of the epilogue without a batch
_KIND_RANKS = {OperandKind.full: 2, OperandKind.per_row: 1, OperandKind.per_column: 1} | dict.fromkeys(SCALES, 2)


def operand_is_batched(operand: ir.Value, kind: OperandKind) -> bool:
    """Whether an operand of the epilogue has a dimension for the batch; a scalar has none."""
    return kind in _KIND_RANKS and ir.MemRefType(operand.type).rank > _KIND_RANKS[kind]
