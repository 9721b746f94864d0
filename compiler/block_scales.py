"""Scales of blocks: how the scales of A and of B are laid out, and which operands they make."""

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
    """f32 scales of blocks of A and of B: D = epilogue(Σ scale_a · scale_b · (A · B of 128 of K), operands…).

    `a`: the rows of A, and its columns along K, that share a scale: (1, 128) or (128, 128). `b`: likewise the columns
    of B = (K, N). Kernels take the scales by name, `scale_a` and `scale_b`, last dimension contiguous, rows possibly
    padded. Of blocks (1, 128) these are arrays (⌈K / 128⌉, M) and (⌈K / 128⌉, N); of blocks (128, 128) they are
    (⌈M / 128⌉, ⌈K / 128⌉) and (⌈N / 128⌉, ⌈K / 128⌉). The last blocks may be shorter.

    Raises `SpecError` for other blocks.
    """

    a: Block = (1, SCALE_BLOCK)
    b: Block = (SCALE_BLOCK, SCALE_BLOCK)

    def __post_init__(self) -> None:
        for name, block in (("a", self.a), ("b", self.b)):
            if not isinstance(block, tuple) or block not in _BLOCKS:
                raise SpecError(
                    f"scales of {name} by blocks of {block!r}: a block is {' or '.join(map(str, _BLOCKS))}, of rows or "
                    "columns and of K; take one of these, and the epilogue for scales of whole rows, columns or tensors"
                    " [block-extents]"
                )

    @property
    def operands(self) -> tuple[Operand, Operand]:
        """`scale_a` and `scale_b`."""
        by_row = OperandKind.ROW_SCALE if self.a[0] == 1 else OperandKind.ROW_BLOCK_SCALE
        by_column = OperandKind.COLUMN_SCALE if self.b[0] == 1 else OperandKind.COLUMN_BLOCK_SCALE
        return Operand("scale_a", by_row, EPILOGUE_TYPE), Operand("scale_b", by_column, EPILOGUE_TYPE)


def of_rows(scales: BlockScales | None) -> BlockScales | None:
    """The same with a scale for each row of A."""
    return None if scales is None else BlockScales(b=scales.b)


def scales_of(kinds: list[str]) -> BlockScales | None:
    """The scales that these kinds of operands say; None where none of them is a scale."""
    found = {kind: OperandKind(kind) for kind in kinds}
    rows = [kind for kind in found.values() if kind in (OperandKind.ROW_SCALE, OperandKind.ROW_BLOCK_SCALE)]
    columns = [kind for kind in found.values() if kind in (OperandKind.COLUMN_SCALE, OperandKind.COLUMN_BLOCK_SCALE)]
    if not rows or not columns:
        return None
    return BlockScales(
        a=_BLOCKS[rows[0] is OperandKind.ROW_BLOCK_SCALE], b=_BLOCKS[columns[0] is OperandKind.COLUMN_BLOCK_SCALE]
    )
