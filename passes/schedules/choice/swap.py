"""Whether a product of few rows is computed as Dᵀ = Bᵀ · Aᵀ, though its D lies row by row.

A wgmma has 64 rows. If M is smaller, they are better used for the rows of Dᵀ, which has M columns; a tile may have so
few. To the kernel, D then lies by columns.
"""

from dataclasses import replace

from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import EPILOGUE_TYPE
from lowtide.passes.schedules.cost.cost import cost
from lowtide.passes.schedules.rules.mainloop import has_wgmma
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target
from lowtide.targets.atoms import WGMMA_ROWS

MOST_ROWS = 1024  # with more, tiles of 64 rows or more fit the product as given
# Packed weights (M×28672×4096, s4): at M = 16 28 µs by mma.sync and 33 by wgmma, at M = 64 54 and 42.
_MOST_ROWS_OF_MMA_SYNC = 32
_ASSUMED_EXTENT = 4096


def may_pay(given: Schedule, problem: Problem) -> bool:
    """Whether to try the swapped product: if D has few rows and no field is given, since it would fit one of both."""
    is_low = problem.weights is None and problem.m is not None and problem.m <= MOST_ROWS
    return is_low and not given.decided() and not problem.is_batched and not problem.d_is_column_major


def for_weights(given: Schedule, problem: Problem, target: Target) -> str | None:
    """Why packed weights are multiplied by wgmma as A of a swapped product; None if they are not."""
    if problem.weights is None or problem.acc != EPILOGUE_TYPE or not has_wgmma(target):
        return None
    is_low = problem.m is not None and problem.m <= _MOST_ROWS_OF_MMA_SYNC
    if not given.agents.has_producer and (given.decided() or is_low):
        return None
    return "wgmma takes A from registers, where packed weights are converted"


def reason(as_given: Schedule, swapped: Schedule, problem: Problem, target: Target) -> str | None:
    """Why the schedule of the swapped product is chosen in place of the one as given; None if it is not.

    It is chosen at equal cycles too: it is then 0.5 % faster on average (H200).
    """
    if not as_given.agents.has_producer or not swapped.agents.has_producer:
        return None
    known = replace(problem, n=problem.n or _ASSUMED_EXTENT, k=problem.k or _ASSUMED_EXTENT)
    own = cost(as_given, known, target)
    other = cost(swapped, known.swap(), target)
    if other > own:
        return None
    return (
        f"a wgmma has {WGMMA_ROWS} rows and D {problem.m}: these are better the columns of Dᵀ = Bᵀ · Aᵀ "
        f"({other:,.0f} estimated cycles, as given {own:,.0f})"
    )
