"""Streams: the data of an operand that each K step of a product reads, on its way from memory to registers of an mma.

A datum is one element in memory: an element of A or B, a byte of packed weights, or the scale of a block. For a tile
and a step of K, a stream has a box of data, in their order in memory. Slots of a ring hold boxes.
"""

from dataclasses import dataclass
from math import gcd

from lowtide.elements import element_type

ALIGNMENT = 16
"""The alignment in bytes of base and rows of what TMA copies (CUDA driver API, cuTensorMapEncodeTiled)."""

_STAGE_BYTES = 128  # a stage of scales is a multiple (PTX ISA, "cp.async.bulk.tensor")


@dataclass(frozen=True)
class Stream:
    """The meaning of a datum, and the layout of data."""

    of_rows: bool
    """Whether data go along the rows of D, as A does, or along its columns."""
    element: str
    """The type of a datum in memory and in shared memory."""
    rows: int = 1
    """The number of rows, or columns, of D that share a datum."""
    k: int = 1
    """The number of elements of K that share a datum: several share a scale."""
    k_is_last: bool = True
    """Whether K is the last dimension of the array, which is contiguous."""

    @property
    def k_dim(self) -> int:
        """The dimension of the array along K; the other one is along rows, or columns, of D."""
        return int(self.k_is_last)

    @property
    def together(self) -> int:
        """The elements of 16 bytes: a box of scales begins at a multiple of them."""
        return ALIGNMENT // element_type(self.element).bytes

    def box(self, tile: tuple[int, int, int], *, anywhere: bool = False) -> tuple[int, int]:
        """The shape in memory of the data that a tile of D needs in a K step; `tile` is (M, N, K). `anywhere`: tiles
        begin at any row of D, as those of groups do.

        TMA copies scales in rows of at least 16 bytes that begin at multiples of 16, and a stage of them is a multiple
        of 128. So a row may hold scales of more rows of D, or of more of K.
        """
        outer, k = _reached(tile[0 if self.of_rows else 1], self.rows), _reached(tile[2], self.k)
        if anywhere and self.of_rows and not self.k_is_last:
            outer += self.together - 1
        rows, columns = (outer, k) if self.k_is_last else (k, outer)
        if self.k == 1:
            return rows, columns
        unit = _STAGE_BYTES // element_type(self.element).bytes // gcd(rows, _STAGE_BYTES // ALIGNMENT)
        return rows, -(-columns // unit) * unit


def _reached(extent: int, together: int) -> int:
    """The most data that a tile needs if `together` elements share one. A tile begins at a multiple of its extent."""
    return -(-(together - gcd(extent, together) + extent) // together)
