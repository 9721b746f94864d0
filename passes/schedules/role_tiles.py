"""The CTA tiles that a schedule with roles is chosen among, and what each costs.

The cost is in cycles of one SM, calibrated on an H200 (docs/performance.md): wgmma's own time, made longer by the bytes
that a tile moves for its flops (the power limit rules there, and L2 traffic is what costs power), in whole waves of
CTAs. Extents known only at run time are taken as 4096.
"""

from math import ceil

from tensor_layouts import size

from lowtide.dialects.tile.schedule import Extents3, Schedule
from lowtide.elements import element_type
from lowtide.passes.schedules.asked_for import stores_by_tma, wgmma_width
from lowtide.passes.schedules.role_rules import contiguous_extent, widest
from lowtide.passes.support.problem import Problem, b_is_nk
from lowtide.targets import Target
from lowtide.targets.atoms import WARPGROUP_THREADS, WGMMA_ROWS, Operand

ASSUMED_EXTENT = 4096

Tile = tuple[Extents3, int]
"""A CTA tile and the number of consumer warpgroups that share it."""

# Rows of a CTA tile and the consumer warpgroups that share them, with the widest N whose accumulators fit. Any N in
# steps of 8 is a tile: the one that fills the last wave is the cheapest. Four consumers and more take 64 rows each.
_ROWS: tuple[tuple[int, int, int], ...] = ((256, 2, 192), (192, 3, 200), (128, 2, 256), (64, 1, 256))
_NARROWEST, _N_STEP = 64, 8
_DEPTH = 64  # K of a stage: rows of 128 bytes

_MULTIPLY_ADDS_A_CYCLE = 2048  # wgmma of 16-bit operands, an SM
_TILE_OVERHEAD = 2000  # cycles: fill and epilogue of a tile
_PART_OVERHEAD = 150  # cycles more for a part of the epilogue that is narrower than the others
# How much longer a tile takes, measured under the power limit: for what L2 gives it, (M + N) / (M · N) a step, and for
# what a wgmma reads from shared memory, (64 + N) / (64 · N).
_L2_WEIGHT, _SHARED_WEIGHT = 14.3, 5.0
_UNALIGNED_WEIGHT = 2.0  # of an operand whose rows start within L2's lines: each row of a box touches two
_LINE_BYTES = 128
_TALL_OVERHEAD = 3000  # cycles more of two blocks of 64 rows a warpgroup: a tile that starts and ends later
_IDLE_GAIN = 0.4  # of a last wave's idle SMs: the power that they save speeds up the others

_ACCUMULATORS_BESIDE_ROWS = 128  # a thread's, where the epilogue holds rows of a full operand too
# Accumulators of a thread where an epilogue without TMA calls functions, in tiles of one block of rows a consumer:
# ptxas interleaves the calls of a whole part, and spills beside more.
_ACCUMULATORS_BESIDE_FUNCTIONS, _FEW_BESIDE_FUNCTIONS = 128, 64


def candidate_tiles(given: Schedule, numbers: tuple[int, ...], problem: Problem, target: Target) -> list[Tile]:
    """The CTA tiles to choose among, each with one of the numbers of consumers."""
    if given.cta is not None:
        dealt = [consumers for consumers in numbers if given.cta[0] % (WGMMA_ROWS * consumers) == 0]
        return [(given.cta, consumers) for consumers in dealt or [min(numbers)]]
    rows_of = [entry for entry in _ROWS if entry[1] in numbers] or [
        (WGMMA_ROWS * consumers, consumers, widest(consumers, target)) for consumers in numbers
    ]
    sizes = [(rows, n, consumers, most_n) for rows, consumers, most_n in rows_of for n in _widths(given, problem)]
    fitting = [
        (rows, n, consumers, most_n)
        for rows, n, consumers, most_n in sizes
        if n <= most_n and _leaves_room(rows, n, consumers, given, problem)
    ]
    # Where what is given leaves no tile that fits, the rules say why.
    return [((rows, n, _DEPTH), consumers) for rows, n, consumers, _ in fitting or sizes]


def _leaves_room(rows: int, n: int, consumers: int, given: Schedule, problem: Problem) -> bool:
    """Whether the epilogue has registers beside a tile's accumulators."""
    accumulators = rows * n // (WARPGROUP_THREADS * consumers)
    if "full" in problem.kinds and accumulators > _ACCUMULATORS_BESIDE_ROWS:
        return False
    if not problem.has_math or stores_by_tma(given, problem):
        return True
    # No setmaxnreg, or results as wide as accumulators.
    is_tight = consumers == 1 or element_type(problem.d).bits >= element_type(problem.acc).bits
    most = _FEW_BESIDE_FUNCTIONS if is_tight else _ACCUMULATORS_BESIDE_FUNCTIONS
    return accumulators <= most and rows == WGMMA_ROWS * consumers


def _widths(given: Schedule, problem: Problem) -> list[int]:
    """N of the CTA tiles to choose among; one where the wgmma or the permutation that is given has it."""
    if width := wgmma_width(given):
        return [width]
    if given.permutation is not None:
        return [size(given.permutation[1])]
    # Panels of N-contiguous B and rows of the epilogue's scratch want whole swizzle spans.
    any_width = b_is_nk(problem.layout) and stores_by_tma(given, problem)
    widths = list(range(_NARROWEST, 257, _N_STEP if any_width else _NARROWEST))
    if problem.n is not None and problem.n < _NARROWEST:
        widths.insert(0, 16 << max(0, (problem.n - 1) // 16).bit_length())
    return widths


def _unaligned(operand: Operand, problem: Problem) -> float:
    """How much dearer an operand's bytes are than those of rows that start on L2's lines."""
    _, extent_ = contiguous_extent(operand, problem)
    is_aligned = extent_ is None or extent_ * element_type(problem.ab).bits // 8 % _LINE_BYTES == 0
    return 1.0 if is_aligned else _UNALIGNED_WEIGHT


def tile_cost(cta: Extents3, consumers: int, problem: Problem, target: Target) -> float:
    """Estimated cycles of the whole grid on the target."""
    m, n, k = (extent or ASSUMED_EXTENT for extent in (problem.m, problem.n, problem.k))
    tile_m, tile_n, tile_k = cta
    step = tile_m * tile_n * tile_k / _MULTIPLY_ADDS_A_CYCLE
    # A step's elements of A are worth 1 / tile_n of its multiply-adds each, those of B 1 / tile_m.
    from_l2 = _unaligned("a", problem) / tile_n + _unaligned("b", problem) / tile_m
    slowed = 1 + _L2_WEIGHT * from_l2 + _SHARED_WEIGHT * (1 / WGMMA_ROWS + 1 / tile_n)
    filled = ceil(m / tile_m) * ceil(n / tile_n) / target.sm_count
    waves = ceil(filled) - _IDLE_GAIN * (ceil(filled) - filled)
    overhead = _TILE_OVERHEAD + (_PART_OVERHEAD if tile_n % 64 else 0)
    if tile_m > WGMMA_ROWS * consumers:
        overhead += _TALL_OVERHEAD
    return waves * (ceil(k / tile_k) * step * slowed + overhead)
