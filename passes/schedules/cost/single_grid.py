"""Estimated cost of a grid of CTA tiles without roles, in cycles of one SM.

The model is deliberately small. Extents known only at run time are taken as 4096.
"""

from dataclasses import dataclass
from math import ceil, hypot

from lowtide.dialects.tile import RepeatKind
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.passes.schedules.cost.grid import batch_of, sizes_of
from lowtide.passes.schedules.facts.resources import (
    ctas_per_sm,
    runs_ahead,
    threads_of,
)
from lowtide.passes.support.atoms import mma_atom_name
from lowtide.passes.support.problem import Problem
from lowtide.targets import MMA_ATOMS, Target
from lowtide.targets.atoms import FMA

_USUAL_RATE = 1024  # multiply-adds per cycle and SM, of mma.sync of 16-bit operands

# Cycles outside the main loop per CTA: launch, first loads, epilogue.
_CTA_OVERHEAD = 2000
# Of a tile whose first loads are under way while the one before is stored.
_FILLED_OVERHEAD = 1000

# What a split of K adds: cycles for the semaphores, and the bytes per cycle of the partial sums that part 0 reads. It
# waits for L2, so that each of its warps reads so many; that is counted where the atom says how many warps hide its
# waits.
# Measured on an H200 (mma.sync, bf16 tn): 512×512×16384 in 30.4 µs by 128×128 in 8 parts and 34.3 by 64×64 in 4, in
# place of 69.1; 256×256×8192 in 9.3 by 64×64 in 8 and 12.6 in 16, in place of 35.1.
_SPLIT_OVERHEAD = 2500
_ADDED_BYTES_PER_CYCLE = 30
_ADDED_BYTES_PER_CYCLE_AND_WARP = 8

# Cycles of a K step beside its products, where the atom says how many warps hide its waits. Measured on an H100, tn, µs
# of whole tiles and of the splits that are chosen: f64, 512×512×8192 in 170 and 81, 256×256×8192 in 168 and 29,
# 768×768×3072, which has 144 tiles of 64×64 for 132 SMs, in 113 and 80; f32, 512×512×8192 in 627 and 109,
# 256×256×8192 in 645 and 44, 64×2048×4096 in 231 and 41. Of 544 kernels of 27 problems, what it takes is within 6 % of
# the fastest but for four of f64, within 14 %.
_STEP_OVERHEAD = 60
_SHARPNESS = 4  # of the larger of two limits: what multiplies and what loads hide each other but for a part


@dataclass(frozen=True)
class _Cta:
    """What one CTA does, in cycles of an SM that it has alone; `multiply` and `memory` are those of a K step."""

    steps: int
    multiply: float
    memory: float
    beside_steps: float
    warps: int


def cost(schedule: Schedule, problem: Problem, target: Target) -> float:
    """Estimated cycles of the whole grid of a schedule without roles.

    The grid runs in waves of the CTAs that fit on the GPU at once. Where K is split, part 0 of a tile adds the sums of
    the others.
    """
    m, n, k = sizes_of(problem)
    tile_m, tile_n, tile_k = schedule.tile_mnk
    parts = max(1, schedule.k_division.parts) if schedule.k_division is not None else 1
    ctas = ceil(m / tile_m) * ceil(n / tile_n) * batch_of(problem) * parts
    overhead, once = (_FILLED_OVERHEAD, _CTA_OVERHEAD) if runs_ahead(schedule) else (_CTA_OVERHEAD, 0)
    atom = MMA_ATOMS.get(mma_atom_name(schedule, problem))  # an unknown one is refused by its rule
    hiding_warps = atom.hiding_warps if atom is not None else None
    warps = ceil(threads_of(schedule) / target.warp_size)
    per_cycle = _ADDED_BYTES_PER_CYCLE if hiding_warps is None else _ADDED_BYTES_PER_CYCLE_AND_WARP * warps
    added = (parts - 1) * tile_m * tile_n * element_type(problem.acc).bits // 8
    exchange = _SPLIT_OVERHEAD + added / per_cycle if parts > 1 else 0
    cta = _Cta(
        steps=ceil(ceil(k / tile_k) / parts),
        multiply=tile_m * tile_n * tile_k / (atom.rate if atom is not None else _USUAL_RATE),
        memory=_memory_cycles(schedule, problem),
        beside_steps=overhead + exchange,
        warps=warps,
    )
    each = ctas_per_sm(schedule, problem, target)
    if hiding_warps is None:
        return _by_the_mean_sm(cta, ctas, each, target) + once
    each = max(each, schedule.grid.ctas_per_sm or 1)
    return _by_the_busiest_sm(cta, ctas, each, hiding_warps, target) + once


def _by_the_mean_sm(cta: _Cta, ctas: int, each: int, target: Target) -> float:
    """CTAs on one SM share its units. A step takes the longer of its products and its loads."""
    at_once = target.sm_count * each
    sharing = max(1, min(at_once, ctas) / target.sm_count)
    step = max(cta.multiply * max(1.0, target.sub_cores / cta.warps), cta.memory) * sharing
    return ceil(ctas / at_once) * (cta.steps * step + cta.beside_steps)


def _by_the_busiest_sm(cta: _Cta, ctas: int, each: int, hiding_warps: float, target: Target) -> float:
    """Each wave takes as long as the SM that has most CTAs, whose warps hide what others wait for."""
    at_once, cycles = target.sm_count * each, 0.0
    for waves, in_flight in ((ctas // at_once, at_once), (1, ctas % at_once)):
        sharing = ceil(in_flight / target.sm_count)
        if waves and sharing:
            busy = cta.multiply * hypot(1.0, hiding_warps / (cta.warps * sharing))
            step = (busy**_SHARPNESS + cta.memory**_SHARPNESS) ** (1 / _SHARPNESS) * sharing
            cycles += waves * (cta.steps * (step + _STEP_OVERHEAD) + cta.beside_steps)
    return cycles


def _memory_cycles(schedule: Schedule, problem: Problem) -> float:
    """Of a K step: what shared memory takes, or L2.

    Shared memory has 128 bytes per cycle. Each warp reads its rows of A and of B; each thread of FMA atoms, whose lanes
    share loads in pairs. L2 has about 32 bytes per cycle and SM.
    """
    tile_m, tile_n, tile_k = schedule.tile_mnk
    assert schedule.multiply.atoms is not None
    atoms_m, atoms_n, atoms_k = schedule.multiply.atoms
    bits_a, bits_b = element_type(problem.a).bits, element_type(problem.b).bits
    threads = threads_of(schedule)
    readers = threads // 32 if schedule.multiply.atom != FMA else threads // 2
    fragment_bytes = readers * (tile_m // atoms_m * bits_a + tile_n // atoms_n * bits_b) * tile_k // atoms_k // 8
    mainloop = schedule.mainloop
    moves_a, moves_b = (operand.load is not RepeatKind.once for operand in (mainloop.a, mainloop.b))
    fill_bytes = (moves_a * tile_m * bits_a + moves_b * tile_n * bits_b) * tile_k // 8
    return max(fragment_bytes / 128, fill_bytes / 32)
