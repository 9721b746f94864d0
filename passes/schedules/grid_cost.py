"""Estimated cost of a grid of CTA tiles, in cycles of one SM, with and without roles.

Both models are deliberately small. Extents known only at run time are taken as 4096.
"""

from math import ceil, floor, sqrt

from lowtide.dialects.tile import RepeatKind, TailKind
from lowtide.dialects.tile.fields import Extents3, Roles
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.passes.schedules.facts import runs_ahead, shared_memory_bytes, threads_of, warps_along_k
from lowtide.passes.schedules.tma_rules import contiguous_extent
from lowtide.passes.support.atoms import mma_atom_name
from lowtide.passes.support.problem import Problem
from lowtide.targets import MMA_ATOMS, Target
from lowtide.targets.atoms import FMA, WGMMA_ROWS, Operand

_ASSUMED_EXTENT = 4096

_USUAL_RATE = 1024  # multiply-adds per cycle and SM, of mma.sync of 16-bit operands

# Cycles outside the main loop per CTA without roles: launch, first loads, epilogue.
_CTA_OVERHEAD = 2000
# Of a tile whose first loads are under way while the one before is stored.
_FILLED_OVERHEAD = 1000

# What a split of K adds: cycles for the semaphores, and the bytes per cycle of the partial sums that part 0 reads.
# Measured on an H200 (mma.sync, bf16 tn): 512×512×16384 in 30.4 µs by 128×128 in 8 parts and 34.3 by 64×64 in 4, in
# place of 69.1; 256×256×8192 in 9.3 by 64×64 in 8 and 12.6 in 16, in place of 35.1.
_SPLIT_OVERHEAD = 2500
_ADDED_BYTES_PER_CYCLE = 30

# With roles, calibrated on an H200 (docs/performance.md): the time of the wgmmas, scaled up by the bytes per flop
# of a tile (the GPU runs at its power limit, and L2 traffic costs power), in whole waves of CTAs.
_MULTIPLY_ADDS_PER_CYCLE = 2048  # wgmma of 16-bit operands, per SM
_TILE_OVERHEAD = 2000  # cycles: fill and epilogue of a tile
_PART_OVERHEAD = 150  # extra cycles for a part of the epilogue that is narrower than the others
# Slowdown of a tile, measured at the power limit: by its L2 traffic, (M + N) / (M · N) per step, and by the
# shared memory traffic of its wgmmas, (64 + N) / (64 · N).
_L2_WEIGHT, _SHARED_WEIGHT = 14.3, 5.0
_UNALIGNED_WEIGHT = 2.0  # of an operand whose rows do not start on L2 lines: each row of a box touches two
_LINE_BYTES = 128
_TALL_OVERHEAD = 3000  # extra cycles for two blocks of 64 rows per warpgroup: such a tile starts and ends later
# Of a tile that one consumer stores while the next multiplies; the epilogue of the last tile is not hidden.
_TURN_OVERHEAD = 500
_IDLE_GAIN = 0.4  # of the idle SMs in the last wave: the power that they save speeds up the others


def cost(schedule: Schedule, problem: Problem, target: Target) -> float:
    """Estimated cycles of the whole grid of a schedule without roles.

    A CTA tile costs the larger of its tensor-core time and its memory time; the grid runs in waves of the CTAs that fit
    on the GPU at once. Where K is split, part 0 of a tile adds the sums of the others.
    """
    m, n, k = _sizes(problem)
    tile_m, tile_n, tile_k = schedule.tile_mnk
    parts = max(1, schedule.k_division.parts) if schedule.k_division is not None else 1
    assert schedule.multiply.atoms is not None
    atoms_m, atoms_n, atoms_k = schedule.multiply.atoms
    warps, of_warps = threads_of(schedule) // 32, schedule.multiply.atom != FMA
    # A rate that takes at least one warp on each of the four sub-cores.
    atom = MMA_ATOMS.get(mma_atom_name(schedule, problem))  # an unknown one is refused by its rule
    rate = atom.rate if atom is not None else _USUAL_RATE
    mma_cycles = tile_m * tile_n * tile_k / rate * max(1.0, 4 / warps)
    # Shared memory bandwidth: 128 bytes per cycle. Each warp reads its rows of A and of B; each thread of FMA atoms,
    # whose lanes share loads in pairs.
    bits_a, bits_b = element_type(problem.a).bits, element_type(problem.b).bits
    readers = warps if of_warps else warps * 32 // 2
    fragment_bytes = readers * (tile_m // atoms_m * bits_a + tile_n // atoms_n * bits_b) * tile_k // atoms_k // 8
    # L2 bandwidth: about 32 bytes per cycle and SM.
    mainloop = schedule.mainloop
    moves_a, moves_b = (operand.load is not RepeatKind.once for operand in (mainloop.a, mainloop.b))
    fill_bytes = (moves_a * tile_m * bits_a + moves_b * tile_n * bits_b) * tile_k // 8
    step_cycles = max(mma_cycles, fragment_bytes / 128, fill_bytes / 32)
    ctas = ceil(m / tile_m) * ceil(n / tile_n) * parts
    at_once = target.sm_count * ctas_per_sm(schedule, problem, target)
    sharing = max(1, min(at_once, ctas) / target.sm_count)  # CTAs on one SM share its units
    steps = ceil(ceil(k / tile_k) / parts)
    added = (parts - 1) * tile_m * tile_n * element_type(problem.acc).bits // 8 / _ADDED_BYTES_PER_CYCLE
    exchange = _SPLIT_OVERHEAD + added if parts > 1 else 0
    overhead, once = (_FILLED_OVERHEAD, _CTA_OVERHEAD) if runs_ahead(schedule) else (_CTA_OVERHEAD, 0)
    return ceil(ctas / at_once) * (steps * step_cycles * sharing + overhead + exchange) + once


def role_cost(tile: Extents3, roles: Roles, problem: Problem, target: Target, tail: TailKind | None = None) -> float:
    """Estimated cycles of the whole grid of a schedule with roles, `tile` being M, N and K of a step.

    Without a `tail` the cheaper one counts.
    """
    if tail is None:
        return min(role_cost(tile, roles, problem, target, each) for each in TailKind)
    m, n, _ = _sizes(problem)
    filled = ceil(m / tile[0]) * ceil(n / tile[1]) / target.sm_count
    of_a_tile = _tile_cycles(tile, roles, problem)
    if tail is TailKind.halves and splits_tail(tile, roles, problem, target):
        # Its slots are those of a whole tile, so that it starts and ends as late.
        of_a_half = _tile_cycles((tile[0] // 2, *tile[1:]), roles, problem) + _TALL_OVERHEAD
        return floor(filled) * of_a_tile + _partial_wave(2 * (filled - floor(filled))) * of_a_half
    once = _TILE_OVERHEAD if roles.turns > 1 else 0
    return (ceil(filled) - 1 + _partial_wave(filled - ceil(filled) + 1)) * of_a_tile + once


def splits_tail(tile: Extents3, roles: Roles, problem: Problem, target: Target) -> bool:
    """Whether a tail in halves is legal for the tile, and known to split the wave after some full ones.

    A grid without a full wave takes a lower tile instead, with smaller slots in the ring.
    """
    if problem.m is None or problem.n is None or roles.turns > 1 or tile[0] % (2 * WGMMA_ROWS * roles.sharing):
        return False
    full, over = divmod(ceil(problem.m / tile[0]) * ceil(problem.n / tile[1]), target.sm_count)
    return full > 0 and 0 < 2 * over <= target.sm_count


def wave_bytes(tile: Extents3, problem: Problem, target: Target) -> float:
    """Bytes of A and B that the tiles of a wave read, where they cover about a square of D."""
    m, n, k = _sizes(problem)
    side = sqrt(target.sm_count * tile[0] * tile[1])
    bits = min(m, side) * element_type(problem.a).bits + min(n, side) * element_type(problem.b).bits
    return bits * k / 8


def _partial_wave(filled: float) -> float:
    """The time of a wave that fills a part of the SMs, relative to a full one."""
    return 1 - _IDLE_GAIN * (1 - filled)


def _tile_cycles(tile: Extents3, roles: Roles, problem: Problem) -> float:
    tile_m, tile_n, tile_k = tile
    step = tile_m * tile_n * tile_k / _MULTIPLY_ADDS_PER_CYCLE
    # Per multiply-add a step loads 1 / tile_n elements of A and 1 / tile_m of B.
    from_l2 = _unaligned("a", problem) / tile_n + _unaligned("b", problem) / tile_m
    slowed = 1 + _L2_WEIGHT * from_l2 + _SHARED_WEIGHT * (1 / WGMMA_ROWS + 1 / tile_n)
    mainloop = ceil(_sizes(problem)[2] / tile_k) * step * slowed
    if roles.turns > 1:
        return mainloop + _TURN_OVERHEAD
    overhead = _TILE_OVERHEAD + (_PART_OVERHEAD if tile_n % 64 else 0)
    if tile_m > WGMMA_ROWS * roles.sharing:
        overhead += _TALL_OVERHEAD
    return mainloop + overhead


def ctas_per_sm(schedule: Schedule, problem: Problem, target: Target) -> int:
    """Resident CTAs per SM, by shared memory, threads and an estimate of the registers."""
    if schedule.consumers:
        return 1  # its ring takes most of the shared memory, and its roles share out all registers
    threads = threads_of(schedule)
    m, n, _ = schedule.tile_mnk
    accumulators = m * n * warps_along_k(schedule) * element_type(problem.acc).bits // 32 // threads
    registers = min(target.registers_per_thread, accumulators + 96)
    return max(1, target.ctas_per_sm(threads, shared_memory_bytes(schedule, problem), registers))


def _sizes(problem: Problem) -> tuple[int, int, int]:
    return problem.m or _ASSUMED_EXTENT, problem.n or _ASSUMED_EXTENT, problem.k or _ASSUMED_EXTENT


def _unaligned(operand: Operand, problem: Problem) -> float:
    """Cost of an operand's bytes relative to rows that start on L2 lines."""
    _, extent = contiguous_extent(operand, problem)
    is_aligned = extent is None or extent * element_type(problem.operand(operand)).bits // 8 % _LINE_BYTES == 0
    return 1.0 if is_aligned else _UNALIGNED_WEIGHT
