"""Block scales of A and B: their layouts, and the operands that they add."""

from dataclasses import dataclass

from lowtide.compiler.epilogue.operands import Operand, OperandKind
from lowtide.elements import EPILOGUE_TYPE, SCALE_BLOCK
from lowtide.errors import SpecError
from lowtide.keywords import check_fields

Block = tuple[int, int]

_BLOCKS: tuple[Block, ...] = ((1, SCALE_BLOCK), (SCALE_BLOCK, SCALE_BLOCK))


@check_fields()
@dataclass(frozen=True, kw_only=True)
class BlockScales:
    """f32 scales for blocks of A and B: D = epilogue(Σ scale_a · scale_b · (A · B over 128 of K), operands…).

    `a`: the block of A that shares a scale, as (rows, columns along K): (1, 128) or (128, 128). `b`: the same for the
    columns of B = (K, N). Kernels take the scales by name, as `scale_a` and `scale_b`. Their last dimension is
    contiguous; rows may be padded. The scales of (1, 128) blocks have shapes (⌈K / 128⌉, M) and (⌈K / 128⌉, N); those
    of (128, 128) blocks have shapes (⌈M / 128⌉, ⌈K / 128⌉) and (⌈N / 128⌉, ⌈K / 128⌉). The last blocks may be shorter.

    Raises `SpecError` for other blocks.
    """

    a: Block = (1, SCALE_BLOCK)
    b: Block = (SCALE_BLOCK, SCALE_BLOCK)

    def __post_init__(self) -> None:
        for name, block in (("a", self.a), ("b", self.b)):
            if not isinstance(block, tuple) or block not in _BLOCKS:
                raise SpecError(
                    f"scales of {name} for blocks {block!r}: blocks (rows or columns, extent along K) are "
                    f"{' or '.join(map(str, _BLOCKS))}; use one of these, or the epilogue for scales of whole rows, "
                    "columns or tensors [block-extents]"
                )

    @property
    def operands(self) -> tuple[Operand, Operand]:
        """`scale_a` and `scale_b`."""
        by_row = OperandKind.ROW_SCALE if self.a[0] == 1 else OperandKind.ROW_BLOCK_SCALE
        by_column = OperandKind.COLUMN_SCALE if self.b[0] == 1 else OperandKind.COLUMN_BLOCK_SCALE
        return Operand("scale_a", by_row, EPILOGUE_TYPE), Operand("scale_b", by_column, EPILOGUE_TYPE)


def of_rows(scales: BlockScales | None) -> BlockScales | None:
    """The same block scales with one scale per row of A."""
    return None if scales is None else BlockScales(b=scales.b)


def scales_of(kinds: list[str]) -> BlockScales | None:
    """The block scales that operands of these kinds make; None if no kind is a block scale."""
    found = {kind: OperandKind(kind) for kind in kinds}
    rows = [kind for kind in found.values() if kind in (OperandKind.ROW_SCALE, OperandKind.ROW_BLOCK_SCALE)]
    columns = [kind for kind in found.values() if kind in (OperandKind.COLUMN_SCALE, OperandKind.COLUMN_BLOCK_SCALE)]
    if not rows or not columns:
        return None
    return BlockScales(
        a=_BLOCKS[rows[0] is OperandKind.ROW_BLOCK_SCALE], b=_BLOCKS[columns[0] is OperandKind.COLUMN_BLOCK_SCALE]
    )
