"""Whether a product is computed as Dᵀ = Bᵀ · Aᵀ, though its D lies row by row.

A wgmma has 64 rows. If M is smaller, they are better used for the rows of Dᵀ, which has M columns; a tile may have so
few. With more rows, a tile of Dᵀ may fit where none of D does: its columns may be any multiple of 8, also if B is
contiguous along N. To the kernel, D then lies by columns.
"""

from dataclasses import replace
from math import inf

import numpy as np

from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import EPILOGUE_TYPE, element_type
from lowtide.passes.schedules.cost.cost import cost, is_comparable
from lowtide.passes.schedules.cost.packing import packing_cycles
from lowtide.passes.schedules.facts.alignment import PACK_FIELDS, is_packed_transposed, multiplied
from lowtide.passes.schedules.rules.mainloop import has_wgmma
from lowtide.passes.support.agents.atoms import holds_a, mma_atom_name
from lowtide.passes.support.agents.clusters import OPERANDS
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import MMA_ATOMS, Target
from lowtide.targets.atoms import WGMMA_ROWS

# Up to so many rows, the swapped product is taken at equal estimates too: it is then 0.5 % faster on average (H200).
# With more rows, it must take less than `_WORTH_SWAPPING` of the estimate of the product as given.
_FEW_ROWS, _WORTH_WITH_FEW_ROWS, _WORTH_SWAPPING = 1024, 1 + 1e-6, 0.97
# The same if more is packed for the swapped product. In nn, wgmma can take A as it lies from registers, and nothing is
# packed: 4104³ then takes 0.91 of the time of the swapped product, 1836×2468×2208 0.85, 9192×4088×4140 0.89, and
# 4024×7972×2368 1.00 (tf32, H200).
_WORTH_PACKING = 0.93
# Packed weights (M×28672×4096, s4): at M = 16 28 µs by mma.sync and 33 by wgmma, at M = 64 54 and 42.
_MOST_ROWS_OF_MMA_SYNC = 32
_ASSUMED_EXTENT = 4096


def may_pay(given: Schedule, problem: Problem) -> bool:
    """Whether to try the swapped product: if each given field fits both products. Fields that pack A and B alike do;
    others would fit one of them."""
    of_a, of_b = (PACK_FIELDS[name] for name in OPERANDS)
    fits_both = given.get(of_a) == given.get(of_b) and set(given.decided()) <= {of_a, of_b}
    is_plain = problem.weights is None and not problem.d_is_column_major
    return problem.m is not None and is_plain and fits_both


def for_weights(given: Schedule, problem: Problem, target: Target) -> str | None:
    """Why packed weights are multiplied by wgmma as A of a swapped product; None if they are not."""
    if problem.weights is None or problem.acc != EPILOGUE_TYPE or not has_wgmma(target):
        return None
    if problem.is_grouped or problem.takes_rows or problem.places_rows:  # products that are not swapped
        return None
    is_low = problem.m is not None and problem.m <= _MOST_ROWS_OF_MMA_SYNC
    if not given.agents.has_producer and (given.decided() or is_low):
        return None
    return "wgmma takes A from registers, where packed weights are converted"


def worth_swapping(rows: float | np.ndarray) -> np.ndarray:
    """For each M: the swapped product must take less than this share of the estimate of the product as given."""
    return np.where(rows > _FEW_ROWS, _WORTH_SWAPPING, _WORTH_WITH_FEW_ROWS)


def _stores_pairs(problem: Problem) -> bool:
    """Whether threads can store D in pairs of elements, since its rows have an even length and no epilogue computes."""
    return problem.is_plain and problem.n is not None and problem.n % 2 == 0


def _depth(schedule: Schedule, problem: Problem) -> int:
    """K of the mma.sync of f64; 0 for other atoms."""
    atom = MMA_ATOMS.get(mma_atom_name(schedule, problem))
    return 0 if atom is None or atom.a_dtype != "f64" else atom.shape_mnk[2]


def _packed_bytes(schedule: Schedule, problem: Problem) -> int:
    """The bytes of the operands that a launch transposes to workspaces."""
    sizes = {"a": (problem.m or _ASSUMED_EXTENT), "b": (problem.n or _ASSUMED_EXTENT)}
    turned = [sizes[name] for name in OPERANDS if is_packed_transposed(name, schedule)]
    return sum(turned) * (problem.k or _ASSUMED_EXTENT) * element_type(problem.a).bytes


def reason(as_given: Schedule, swapped: Schedule, problem: Problem, target: Target) -> str | None:
    """Why the schedule of the swapped product is chosen in place of the one as given; None if it is not."""
    if _stores_pairs(problem) and _depth(swapped, problem.swap()) > _depth(as_given, problem):
        return "Bᵀ is contiguous along its rows, so a thread loads pairs of them, which an mma with a longer K takes"
    if not swapped.agents.has_producer:
        return None
    if holds_a(swapped, multiplied(swapped, problem.swap())) and not as_given.agents.has_producer:
        return "wgmma takes Bᵀ from registers, where threads transpose it, and mma.sync is slower"
    if not is_comparable(as_given, problem, target):
        return None
    known = replace(problem, n=problem.n or _ASSUMED_EXTENT, k=problem.k or _ASSUMED_EXTENT)
    own = cost(as_given, multiplied(as_given, known), target)
    other = cost(swapped, multiplied(swapped, known.swap()), target)
    packed = [_packed_bytes(schedule, of) for schedule, of in ((as_given, known), (swapped, known.swap()))]
    rows, packs_alike = inf if problem.m is None else problem.m, packed[0] == packed[1]
    if not packs_alike:
        own, other = (cycles + packing_cycles(size, target) for cycles, size in zip((own, other), packed, strict=True))
    worth = worth_swapping(rows).item() if packs_alike else 1.0
    if other > own * (_WORTH_PACKING if packed[1] > packed[0] else worth):
        return None
    estimates = f"{other:,.0f} estimated cycles instead of {own:,.0f}"
    if rows <= _FEW_ROWS:
        return (
            f"the kernel computes Dᵀ = Bᵀ · Aᵀ, so D's {problem.m} rows become columns, which fit wgmma better than "
            f"its blocks of {WGMMA_ROWS} rows: {estimates}"
        )
    return f"tiles of Dᵀ = Bᵀ · Aᵀ cover it better than tiles of D: {estimates}"
