"""Rules of pairs of columns, whose epilogue takes two accumulators for each element of D.

A tile of accumulators has the first columns of the pairs in its first half, and the second columns in its second half.
So each thread holds both columns of a pair. The parts of the epilogue are parts of D, which has half as many columns.
"""

from collections.abc import Iterator
from types import MappingProxyType

from lowtide.dialects.tile import EpilogueMath, EpilogueStart, OperandsKind
from lowtide.dialects.tile.division import Adder
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.schedules.rules.required import Table, not_taken
from lowtide.passes.support.agents.atoms import TMA_RANKS
from lowtide.passes.support.problem.matrix_layouts import b_is_nk
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target

# The values of fields that pairs support; the first is the default. None: the field is left out.
WITH_PAIRS: Table = MappingProxyType(
    {
        "grid.operands": (None, OperandsKind.as_given),
        "epilogue.math": (EpilogueMath.registers,),
        "epilogue.start": (None, EpilogueStart.all_sums),
    }
)
WHY = "the epilogue takes both accumulators of a pair from the registers of one thread"
_COLUMNS_TOGETHER = 16  # columns of accumulators: a thread has runs of 8 columns in each half


def pairs(schedule: Schedule, problem: Problem, target: Target) -> Iterator[str]:
    """The rules that pairs of columns set for the given fields."""
    if problem.pairs is None:
        return
    if problem.swapped or not b_is_nk(problem.layout) or problem.d_is_column_major:
        yield (
            f"pairs of columns with layout {problem.layout}: K must be B's last dimension, and D must lie by rows; "
            "take layout tn or nn, and D by rows [pairs-of-columns]"
        )
    for field, way_out in not_taken(WITH_PAIRS, schedule):
        yield f"{field}: {WHY}; {way_out} [pairs-field]"
    tile, division = schedule.grid.tile, schedule.k_division
    if tile is not None and tile[1] % _COLUMNS_TOGETHER:
        yield (
            f"grid.tile N = {tile[1]}: with pairs of columns, N is a multiple of {_COLUMNS_TOGETHER}; nearest is "
            f"{max(1, tile[1] // _COLUMNS_TOGETHER) * _COLUMNS_TOGETHER} [pairs-tile]"
        )
    is_stepped = schedule.multiply.permutation is not None and not schedule.multiply.by_warpgroups
    step = schedule.multiply.step[1] if is_stepped else 1
    if tile is not None and tile[1] // 2 % step:
        yield (
            f"grid.tile N = {tile[1]}: with pairs of columns, N is a multiple of {2 * step}, two steps of the tiled "
            f"mma; nearest is {max(1, tile[1] // (2 * step)) * 2 * step} [pairs-step]"
        )
    if division is not None and division.is_scattered:
        yield (
            f"k_division = {division}: each CTA stores a share of the columns, and the two columns of a pair may be in "
            f"different shares; take {division.added_by(Adder.first)} [pairs-share]"
        )
    if schedule.cluster[0] > 1:
        yield (
            f"grid.cluster = {list(schedule.cluster)}: with pairs of columns, CTAs cannot share B; take [1, "
            f"{schedule.cluster[1]}] [pairs-cluster]"
        )
    copy = schedule.mainloop.b.copy
    if copy is not None and TMA_RANKS.get(str(copy), 2) > 2:
        yield f"b.copy = {copy}: a box has rows of one column of the pairs only; take tma, which has both [pairs-copy]"
    if schedule.multiply.atoms is not None and schedule.multiply.atoms[2] > 1:
        yield (
            f"multiply.atoms = {list(schedule.multiply.atoms)}: with pairs of columns, warps cannot divide K; take 1 "
            "along K [pairs-warps]"
        )
