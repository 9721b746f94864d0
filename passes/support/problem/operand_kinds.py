"""Kinds of operands and results of a `tile.gemm`: their kinds in Dᵀ, and the operands that the epilogue does not
read."""

from mlir import ir

from lowtide.dialects.tile import OperandKind, ResultKind
from lowtide.elements import EPILOGUE_TYPE, SCALE_BLOCK
from lowtide.passes.support.streams.streams import Stream
from lowtide.reductions import REDUCTIONS

#: The kinds of operands that are indices of rows; and those whose elements are numbers of rows, or of K
ROW_INDICES = (OperandKind.a_rows, OperandKind.d_rows)
POSITIONS = (OperandKind.ends, *ROW_INDICES)
#: The kinds of the operands for shards of A that arrive
ARRIVALS = (OperandKind.arrived, OperandKind.turn, OperandKind.status)
#: The kinds of the operands of a kernel that can send this GPU's shard
SENDS = (OperandKind.peers, OperandKind.sent)
#: The kinds whose elements are integers that only the device reads, and no epilogue converts
INTEGERS = (*POSITIONS, *ARRIVALS, *SENDS)
# The operands of a tile.gemm that act in the sum.
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


def swapped_result(kind: ResultKind) -> ResultKind:
    """The kind, in Dᵀ, of a result: a reduction over rows is one over columns there."""
    reduction = REDUCTIONS.get(str(kind))
    return kind if reduction is None else ResultKind[reduction.swapped.word]


def acts_in_the_sum(kind: OperandKind) -> bool:
    """Whether an operand of tile.gemm is a scale of sums, or a zero point."""
    return kind in _IN_THE_SUM


def is_of_epilogue(kind: OperandKind) -> bool:
    """Whether the region reads an operand of tile.gemm. Other operands act in the sum, or are ends of groups, targets,
    indices of rows of A or D, or those for shards that arrive or are sent."""
    return not acts_in_the_sum(kind) and kind not in (OperandKind.target, *INTEGERS)


SCALES = {
    OperandKind.row_scale: Stream(True, EPILOGUE_TYPE, k=SCALE_BLOCK, k_is_last=False),
    OperandKind.column_scale: Stream(False, EPILOGUE_TYPE, k=SCALE_BLOCK, k_is_last=False),
    OperandKind.row_block_scale: Stream(True, EPILOGUE_TYPE, SCALE_BLOCK, SCALE_BLOCK),
    OperandKind.column_block_scale: Stream(False, EPILOGUE_TYPE, SCALE_BLOCK, SCALE_BLOCK),
}

#: Dimensions of an operand without a batch
_KIND_RANKS = {
    OperandKind.full: 2,
    OperandKind.per_row: 1,
    OperandKind.per_column: 1,
    OperandKind.target: 1,
} | dict.fromkeys(_IN_THE_SUM, 2)


def operand_is_batched(operand: ir.Value, kind: OperandKind) -> bool:
    """Whether an operand has a dimension for the batch, or for the groups of rows; a scalar has none."""
    return kind in _KIND_RANKS and ir.MemRefType(operand.type).rank > _KIND_RANKS[kind]
