"""The layouts of A, B and D of a product in memory."""

from mlir import ir

from lowtide.dialects.tile import GemmLayout
from lowtide.errors import ScheduleError

# Whether A lies as (M, K) and B as (N, K).
_K_IS_LAST = {
    GemmLayout.tn: (True, True),
    GemmLayout.tt: (True, False),
    GemmLayout.nn: (False, True),
    GemmLayout.nt: (False, False),
}
# The layout of Dᵀ = Bᵀ · Aᵀ, by the layout of D = A · B. Its A is B, unchanged in memory.
_SWAPPED = {
    GemmLayout.tn: GemmLayout.tn,
    GemmLayout.tt: GemmLayout.nn,
    GemmLayout.nn: GemmLayout.tt,
    GemmLayout.nt: GemmLayout.nt,
}
# The layout of the same product if A, or B, lies the other way.
_TURNED = {
    "a": {GemmLayout.tn: GemmLayout.nn, GemmLayout.tt: GemmLayout.nt},
    "b": {GemmLayout.tn: GemmLayout.tt, GemmLayout.nn: GemmLayout.nt},
}
_TURNED = {name: there | {value: key for key, value in there.items()} for name, there in _TURNED.items()}


def swapped_layout(layout: GemmLayout) -> GemmLayout:
    """The layout of Dᵀ = Bᵀ · Aᵀ, with A and B unchanged in memory."""
    return _SWAPPED[layout]


def turned_layout(layout: GemmLayout, operands: str) -> GemmLayout:
    """The layout of the same product if these operands, of "ab", lie the other way."""
    for name in operands:
        layout = _TURNED[name][layout]
    return layout


def is_column_major(type_: ir.Type) -> bool:
    """Whether the columns of a matrix, or of each matrix of a batch, are contiguous, and rows are not known to be
    contiguous: `strided<[1, ?]>`."""
    memref = ir.MemRefType(type_)
    if memref.rank < 2 or not isinstance(memref.layout, ir.StridedLayoutAttr):
        return False
    strides, _ = memref.get_strides_and_offset()
    return bool(strides[-2] == 1 and strides[-1] != 1)


def a_is_mk(layout: GemmLayout) -> bool:
    """A lies as (M, K)."""
    return k_is_last(layout)[0]


def b_is_nk(layout: GemmLayout) -> bool:
    """B lies as (N, K)."""
    return k_is_last(layout)[1]


def k_is_contiguous(layout: GemmLayout) -> bool:
    """Whether A and B both lie with K contiguous."""
    return all(k_is_last(layout))


def dims_of_a(layout: GemmLayout) -> tuple[int, int]:
    """The dimensions of A that are M and K, counted from the last one, -1."""
    return (-2, -1) if a_is_mk(layout) else (-1, -2)


def dims_of_b(layout: GemmLayout) -> tuple[int, int]:
    """The dimensions of B that are N and K, counted from the last one, -1."""
    return (-2, -1) if b_is_nk(layout) else (-1, -2)


def k_is_last(layout: GemmLayout) -> tuple[bool, bool]:
    """Whether A lies as (M, K), and B as (N, K)."""
    if layout not in _K_IS_LAST:
        raise ScheduleError(
            f"no pass takes the layout {layout}; take one of {', '.join(map(str, _K_IS_LAST))} [matrix-layout]"
        )
    return _K_IS_LAST[layout]
