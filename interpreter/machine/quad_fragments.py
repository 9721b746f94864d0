"""The fragments of mma.m8n8k4 of f16, by which a warp computes four products at a time.

PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f16 floating point type". Product q belongs to lanes 4 q to 4 q + 3, its
low group, and to lanes 16 + 4 q to 16 + 4 q + 3, its high group. The lanes of a group hold 4 rows or columns each.
"""

import numpy as np

from lowtide.interpreter.machine.hardware import Ints, MmaFragments

_LANE = np.arange(32)[:, None]
_PRODUCT, _IN_GROUP, _HIGH = _LANE % 16 // 4, _LANE % 4, _LANE // 16
_WHOLE = 32  # bits of accumulators with places of their own


def quad_fragments(layouts: tuple[str, str], bits_of_c: int, bits_of_d: int) -> MmaFragments:
    """The places for A and B in these layouts, each "row" or "col", and for C and D of 16 or 32 bits."""
    i = np.arange(4)
    # with .row, a_i: row = %laneid % 4, and 4 more in the high group; col = i.  With .col: row = i, and 4 more; col =
    # %laneid % 4
    along_m = _IN_GROUP + 4 * _HIGH + 0 * i, i + 0 * _LANE
    across_m = i + 4 * _HIGH, _IN_GROUP + 0 * i
    row, col = along_m if layouts[0] == "row" else across_m
    # with .col, b_i: row = i; col = %laneid % 4, and 4 more in the high group.  With .row: row = %laneid % 4; col = i,
    # and 4 more. That is A with rows and columns exchanged.
    n, k = along_m if layouts[1] == "col" else across_m
    c, d = (_accumulators(bits) for bits in (bits_of_c, bits_of_d))
    return MmaFragments((8, 8, 4), (row + 8 * _PRODUCT, col), (k, n + 8 * _PRODUCT), c, None if d is c else d, 4)


def _accumulators(bits: int) -> tuple[Ints, Ints]:
    i = np.arange(8)
    if bits == _WHOLE:
        # c_i: row = (%laneid & 1) + (i & 2), and 4 more in the high group; col = (i & 4) + (%laneid & 2) + (i & 1)
        row, col = (_LANE & 1) + (i & 2), (i & 4) + (_LANE & 2) + (i & 1)
    else:
        # c_i: row = %laneid % 4, and 4 more in the high group; col = i
        row, col = _IN_GROUP + 0 * i, i + 0 * _LANE
    return row + 4 * _HIGH + 8 * _PRODUCT, col
