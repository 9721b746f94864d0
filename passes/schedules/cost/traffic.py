"""What a grid of CTA tiles reads from L2 and from memory, and how long that takes at least, in cycles of one SM.

Extents known only at run time are taken as 4096.
"""

from dataclasses import dataclass
from math import ceil, inf, prod, sqrt

from lowtide.dialects.tile.agents import Agents
from lowtide.dialects.tile.fields import Extents2, Extents3
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.passes.schedules.rules.tma import contiguous_extent
from lowtide.passes.support.agents.clusters import OPERANDS, sharing
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target
from lowtide.targets.atoms import Operand

_ASSUMED_EXTENT = 4096
_ASSUMED_BATCH = 32  # of a batch that is known at run time

# What limits grids of few rows, calibrated on those of benchmarks/calibration_shapes.txt, which leave power unused.
_BYTES_PER_CYCLE = 62  # that an SM receives from L2
# What all SMs receive from memory, and one SM of an operand that no other reads the same part of.
_MEMORY_BYTES_PER_CYCLE, _MEMORY_BYTES_OF_SM = 2500, 30
_SHARPNESS = 6  # of the larger limit: what comes from L2 and from memory hide each other but for a part
# Rows of TMA boxes that lie outside of A or B take time: all SMs together get so many of them per cycle, and nothing
# else meanwhile. 64×64 at 100×4096×4096 17.7 µs, at 128×4096×4096 14.0; 128×64 at 200×4096×4096 26.3, at 256 17.2.
_EMPTY_ROWS_PER_CYCLE = 18
_TMA_BYTES = 16  # rows must be multiples of this
_UNALIGNED_WEIGHT = 2.0  # of an operand whose rows do not start on L2 lines: each row of a box touches two
_LINE_BYTES, SECTOR_BYTES = 128, 32
# Where rows do not start on sectors of L2, its requests limit all SMs together: cycles per SM for 128 bytes of a TMA
# load, of such rows and of others. Measured on an H200 (bf16, tn, without clusters and in pairs of CTAs): 1000³, 2056³,
# 4096×4104×4104, 8200³, 4096×4096×1000, 1000×8000×1000. A load for several CTAs is one request.
_CYCLES_PER_REQUEST, _OF_ALIGNED = 5.1, 2.6


@dataclass(frozen=True)
class Tile:
    """A CTA tile (M, N, and K of a step), the agents that compute it, and the CTAs along M and N that share loads."""

    shape: Extents3
    agents: Agents
    cluster: Extents2 = (1, 1)


def tile_of(schedule: Schedule) -> Tile:
    """The tile of a schedule that decides it and its agents."""
    return Tile(schedule.tile_mnk, schedule.agents, schedule.cluster)


def sizes_of(problem: Problem) -> tuple[int, int, int]:
    return problem.m or _ASSUMED_EXTENT, problem.n or _ASSUMED_EXTENT, problem.k or _ASSUMED_EXTENT


def batch_of(problem: Problem) -> int:
    return problem.batch or _ASSUMED_BATCH


def larger(one: float, other: float, sharpness: float) -> float:
    """The larger of two limits, and a little more where both are near."""
    return max(one, other) if sharpness == inf else float((one**sharpness + other**sharpness) ** (1 / sharpness))


def grid_of(tile: Tile, problem: Problem) -> Extents2:
    """Rows and columns of CTAs of one product, whole clusters of them."""
    m, n, _ = sizes_of(problem)
    rows, columns = (ceil(size / (tile.shape[i] * tile.cluster[i])) for i, size in enumerate((m, n)))
    return rows * tile.cluster[0], columns * tile.cluster[1]


def clusters_of(tile: Tile, problem: Problem) -> int:
    """Clusters of the grid, of one CTA or more; those at the edges may have CTAs without work."""
    return prod(grid_of(tile, problem)) // prod(tile.cluster) * batch_of(problem)


def clusters_at_once(tile: Tile, target: Target) -> int:
    """Clusters that run at the same time, with one CTA per SM."""
    size = prod(tile.cluster)
    return dict(target.clusters_at_once).get(size) or max(1, target.sm_count // size)


def load_cycles(steps: int, tile: Tile, problem: Problem) -> float:
    """The least cycles of a grid in which each SM loads so many steps: what it receives from L2, and rows of boxes that
    are empty; or, if that is more, A and B from memory."""
    size_m, size_n, k = sizes_of(problem)
    bytes_a, bytes_b = (element_type(problem.stream(name).element).bits / 8 for name in OPERANDS)
    (tile_m, tile_n, depth), (rows, columns) = tile.shape, grid_of(tile, problem)
    of_a, of_b = min(tile_m, size_m) * depth * bytes_a, min(tile_n, size_n) * depth * bytes_b
    read_once = of_a * (columns == 1) + of_b * (rows == 1)
    empty_of_a = (rows * tile_m - size_m) * columns / _sharers("a", tile)
    empty_of_b = (columns * tile_n - size_n) * rows / _sharers("b", tile)
    empty = (empty_of_a + empty_of_b) * ceil(k / depth) * batch_of(problem)
    from_memory = (size_m * bytes_a + size_n * bytes_b) * k * batch_of(problem)
    of_l2 = steps * (of_a + of_b) / _BYTES_PER_CYCLE + empty / _EMPTY_ROWS_PER_CYCLE
    of_memory = max(from_memory / _MEMORY_BYTES_PER_CYCLE, steps * read_once / _MEMORY_BYTES_OF_SM)
    return larger(of_l2, of_memory, _SHARPNESS)


def reads_of_larger(tile: Tile, problem: Problem) -> int:
    """How often each part of the larger operand is read: of B by the clusters along M, of A by those along N. 128×64
    takes up to 7 % less time than 64×128 at 256×4096×4096, 64×128 2 % less at 1024³ (H200)."""
    m, n, _ = sizes_of(problem)
    along = 0 if m < n else 1
    return grid_of(tile, problem)[along] // tile.cluster[along]


def wave_bytes(tile: Extents3, problem: Problem, target: Target) -> float:
    """Bytes of A and B that the tiles of a wave read, where they cover about a square of D, or several D of a batch."""
    m, n, k = sizes_of(problem)
    covered = target.sm_count * tile[0] * tile[1]
    side, matrices = sqrt(covered), min(batch_of(problem), max(1.0, covered / (m * n)))
    bits = min(m, side) * element_type(problem.a).bits + min(n, side) * element_type(problem.b).bits
    return bits * k / 8 * matrices


def per_product(tile: Tile, problem: Problem) -> float:
    """Elements of A and B that a step loads for each multiply-add: 1 / N and 1 / M. Those of an operand whose rows do
    not start on L2 lines cost more; CTAs that share a load share what that adds."""
    of_a, of_b = (
        1.0 if _starts_on(_LINE_BYTES, operand, problem) else 1 + (_UNALIGNED_WEIGHT - 1) / _sharers(operand, tile)
        for operand in OPERANDS
    )
    return of_a / tile.shape[1] + of_b / tile.shape[0]


def request_cycles(tile: Tile, problem: Problem) -> float:
    """The least cycles of a step's loads where all SMs make such requests to L2; 0 where rows start on sectors."""
    if not straddles_sectors(problem):
        return 0.0
    cycles = 0.0
    for operand, rows in zip(OPERANDS, tile.shape[:2], strict=True):
        lines = rows * tile.shape[2] * element_type(problem.stream(operand).element).bits / 8 / _LINE_BYTES
        of_one = _OF_ALIGNED if _starts_on(SECTOR_BYTES, operand, problem) else _CYCLES_PER_REQUEST
        cycles += lines / _sharers(operand, tile) * of_one
    return cycles


def _sharers(operand: Operand, tile: Tile) -> int:
    """CTAs of a cluster that take the same tile of an operand: of A those along N, of B those along M."""
    return sharing(operand, tile.cluster)[1]


def straddles_sectors(problem: Problem) -> bool:
    """Whether A or B is known to have rows, as close as they lie by default, that do not start on sectors of L2."""
    return not all(_starts_on(SECTOR_BYTES, operand, problem) for operand in OPERANDS)


def _starts_on(unit: int, operand: Operand, problem: Problem) -> bool:
    """Whether an operand's rows start on multiples of so many bytes; taken as true for run-time extents. Rows that TMA
    cannot read are packed, to lines."""
    _, extent = contiguous_extent(operand, problem)
    size = 0 if extent is None else extent * element_type(problem.stream(operand).element).bits // 8
    return size % unit == 0 or size % _TMA_BYTES != 0
