"""Requirements of TMA on the operands that it loads: boxes, swizzles, whole panels."""

from collections.abc import Iterator

from lowtide.dialects.tile.layouts import SwizzleBits
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.errors import ScheduleError
from lowtide.passes.schedules.facts.resources import swizzle_base
from lowtide.passes.support.agents.atoms import TMA_RANKS, is_transposed
from lowtide.passes.support.agents.clusters import sharing
from lowtide.passes.support.problem.problem import Problem
from lowtide.passes.support.streams.panels import panel_width
from lowtide.targets import Target
from lowtide.targets.atoms import WGMMA_ROWS, Operand

MOST_TMA_RANK = 5  # of a tensor map (CUDA driver API, cuTensorMapEncodeTiled)
_OPERANDS: tuple[Operand, ...] = ("a", "b")
MAX_BOX_SIDE = 256  # elements (PTX ISA, "Tensor maps")
_SWIZZLE_SHIFT = 3  # in units of 16 bytes: the xor uses the number of the row of 128 bytes


def boxes(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """TMA moves boxes of at most 256 elements per side; wgmma reads rows as long as their swizzle."""
    for operand in _OPERANDS:
        rows, columns = problem.stream(operand).box(schedule.tile_mnk)
        swizzle = schedule.mainloop.operand(operand).swizzle
        assert swizzle is not None
        bits, base, shift = swizzle
        element = problem.stream(operand).element
        row_bytes = columns * element_type(element).bits // 8
        at = f"operand {operand}: rows of {row_bytes} bytes with {operand}.swizzle = <{bits},{base},{shift}>"
        rows //= sharing(operand, schedule.cluster)[1]
        if rows > MAX_BOX_SIDE and operand not in schedule.copied_by_threads:
            smallest = rows == WGMMA_ROWS * schedule.agents.consumer.warpgroups
            fewer = f", of at most cooperative({MAX_BOX_SIDE // WGMMA_ROWS})" if smallest else ""
            yield (
                f"operand {operand}: a TMA box of {rows} rows; at most {MAX_BOX_SIDE}: take a smaller CTA tile{fewer}"
                " [tma-box]"
            )
        if (base, shift) != (swizzle_base(element), _SWIZZLE_SHIFT) or bits not in (1, 2, 3):
            three, two, one = (f"<{bits},{swizzle_base(element)},{_SWIZZLE_SHIFT}>" for bits in (3, 2, 1))
            yield (
                f"{at}; TMA and wgmma have {three}, {two} and {one}: take {_swizzle_text(columns, element)}"
                " [tma-swizzle]"
            )
            return
        try:
            width = panel_width(columns, swizzle)
            is_whole = width * element_type(element).bits // 8 == 16 << bits
        except ScheduleError:
            is_whole = False
        if not is_whole:
            yield (
                f"{at}; they must be whole panels of {16 << bits} bytes: take {_swizzle_text(columns, element)}"
                " [tma-panels]"
            )
            return
    yield from _ranks(schedule, problem)
    yield from _whole_panels(schedule, problem)


def _ranks(schedule: Schedule, problem: Problem) -> Iterator[str]:
    """A tensor map has at most five dimensions, one of them the batch's."""
    for operand in _OPERANDS if problem.is_batched else ():
        copy = schedule.mainloop.operand(operand).copy
        if TMA_RANKS.get(str(copy), 2) == MOST_TMA_RANK:
            yield (
                f"{operand}.copy = {copy}: a tensor map has at most {MOST_TMA_RANK} dimensions, and one is the batch; "
                f"take {operand}.copy = tma or tma.3d [tma-rank]"
            )


def _swizzle_text(columns: int, element: str) -> str:
    """The way out: the swizzle for rows of `columns` elements, or another tile if there is none."""
    swizzle = panel_swizzle(columns, element)
    if swizzle is None:
        return f"a tile whose contiguous side is a multiple of {2 << swizzle_base(element)}, not {columns}"
    return f"<{','.join(map(str, swizzle))}>"


def panel_swizzle(columns: int, element: str) -> SwizzleBits | None:
    """The widest swizzle of TMA and wgmma whose row divides `columns` elements; None if there is none."""
    base = swizzle_base(element)
    return next(((bits, base, _SWIZZLE_SHIFT) for bits in (3, 2, 1) if columns % (1 << base + bits) == 0), None)


def _whole_panels(schedule: Schedule, problem: Problem) -> Iterator[str]:
    """A tensor map of rank 3 to 5 views a matrix as panels, so their width must divide its contiguous extent."""
    for operand in _OPERANDS:
        copy, swizzle = schedule.mainloop.operand(operand).copy, schedule.mainloop.operand(operand).swizzle
        if TMA_RANKS.get(str(copy), 2) == 2:
            continue
        assert swizzle is not None
        _, columns = problem.stream(operand).box(schedule.tile_mnk)
        width = panel_width(columns, swizzle)
        letter, extent = contiguous_extent(operand, problem)
        if extent is not None and extent % width:
            yield (
                f"{operand}.copy = {copy} sees operand {operand} as panels of {width} elements, which do not divide "
                f"{letter} = {extent}; take {operand}.copy = tma, or pad {letter} to {-(-extent // width) * width}"
                " [panels-divide]"
            )


def contiguous_extent(operand: Operand, problem: Problem) -> tuple[str, int | None]:
    """The contiguous dimension of A or B in global memory, its letter and its extent (None: known at run time)."""
    if not is_transposed(operand, problem.layout):
        return "K", problem.k
    return ("M", problem.m) if operand == "a" else ("N", problem.n)
