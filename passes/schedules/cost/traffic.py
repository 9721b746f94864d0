"""The bytes that a grid of CTA tiles reads from L2 and from memory, and the least time for them, in cycles of one SM.

Extents known only at run time count as 4096.
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
_ASSUMED_BATCH = 32  # if the batch is known only at run time

# Limits of grids of few rows, which do not reach the power limit, calibrated on benchmarks/calibration_shapes.txt.
_BYTES_PER_CYCLE = 62  # that an SM receives from L2
# Bytes that all SMs receive from memory, and those that one SM receives of an operand whose parts only one SM reads.
_MEMORY_BYTES_PER_CYCLE, _MEMORY_BYTES_OF_SM = 2500, 30
_SHARPNESS = 6  # loads from L2 and from memory hide each other up to a part: see `larger`
# Rows of TMA boxes that lie outside of A or B take time: all SMs together get this many of them per cycle, and nothing
# else meanwhile. 64×64 takes 17.7 µs at 100×4096×4096 and 14.0 at 128×4096×4096; 128×64 26.3 at M = 200, 17.2 at 256.
_EMPTY_ROWS_PER_CYCLE = 18
TMA_BYTES = 16  # rows must be multiples of this
_UNALIGNED_WEIGHT = 2.0  # for an operand whose rows do not start on L2 lines: each row of a box touches two lines
LINE_BYTES, SECTOR_BYTES = 128, 32
# If rows do not start on sectors of L2, requests to L2 limit all SMs together. Cycles per SM for 128 bytes of a TMA
# load of such rows, and of other rows. Measured on an H200 (bf16, tn, without clusters and in pairs of CTAs): 1000³,
# 2056³, 4096×4104×4104, 8200³, 4096×4096×1000, 1000×8000×1000. A load for several CTAs is one request.
_CYCLES_PER_REQUEST, _OF_ALIGNED = 5.1, 2.6


@dataclass(frozen=True)
class Tile:
    """A CTA tile (M, N, and K of a step), the agents that compute it, and the CTAs along M and N that share loads."""

    shape: Extents3
    agents: Agents
    cluster: Extents2 = (1, 1)


def tile_of(schedule: Schedule) -> Tile:
    """The tile of a schedule. The schedule must decide it and the agents."""
    return Tile(schedule.tile_mnk, schedule.agents, schedule.cluster)


def sizes_of(problem: Problem) -> tuple[int, int, int]:
    return problem.m or _ASSUMED_EXTENT, problem.n or _ASSUMED_EXTENT, problem.k or _ASSUMED_EXTENT


def batch_of(problem: Problem) -> int:
    return problem.batch or _ASSUMED_BATCH


def larger(one: float, other: float, sharpness: float) -> float:
    """The larger of two limits, and a little more if they are close."""
    return max(one, other) if sharpness == inf else float((one**sharpness + other**sharpness) ** (1 / sharpness))


def grid_of(tile: Tile, problem: Problem) -> Extents2:
    """Rows and columns of CTAs of one product, whole clusters of them."""
    m, n, _ = sizes_of(problem)
    rows, columns = (ceil(size / (tile.shape[i] * tile.cluster[i])) for i, size in enumerate((m, n)))
    return rows * tile.cluster[0], columns * tile.cluster[1]


def clusters_of(tile: Tile, problem: Problem) -> int:
    """Clusters of the grid, of one CTA or more. At the edges, a cluster may have CTAs without work."""
    return prod(grid_of(tile, problem)) // prod(tile.cluster) * batch_of(problem)


def clusters_at_once(tile: Tile, target: Target) -> int:
    """Clusters that run at the same time, with one CTA per SM."""
    size = prod(tile.cluster)
    return dict(target.clusters_at_once).get(size) or max(1, target.sm_count // size)


def load_cycles(steps: int, tile: Tile, problem: Problem) -> float:
    """The least cycles of a grid in which each SM loads so many steps: bytes from L2 and rows of boxes outside of A or
    B; or, if that takes longer, A and B from memory."""
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
    """How many clusters read each part of the larger operand: along M for B, along N for A. At 256×4096×4096 128×64
    takes up to 7 % less time than 64×128; at 1024³ 64×128 takes 2 % less (H200)."""
    m, n, _ = sizes_of(problem)
    along = 0 if m < n else 1
    return grid_of(tile, problem)[along] // tile.cluster[along]


def wave_bytes(tile: Extents3, problem: Problem, target: Target) -> float:
    """Bytes of A and B that the tiles of a wave read if they cover about a square of D, or several D of a batch."""
    m, n, k = sizes_of(problem)
    covered = target.sm_count * tile[0] * tile[1]
    side, matrices = sqrt(covered), min(batch_of(problem), max(1.0, covered / (m * n)))
    bits = min(m, side) * element_type(problem.a).bits + min(n, side) * element_type(problem.b).bits
    return bits * k / 8 * matrices


def per_product(tile: Tile, problem: Problem) -> float:
    """Elements of A and B that a step loads for each multiply-add: 1 / N and 1 / M. If the rows of an operand do not
    start on L2 lines, its elements cost more. CTAs that share a load share this additional cost."""
    of_a, of_b = (
        1.0 if _starts_on(LINE_BYTES, operand, problem) else 1 + (_UNALIGNED_WEIGHT - 1) / _sharers(operand, tile)
        for operand in OPERANDS
    )
    return of_a / tile.shape[1] + of_b / tile.shape[0]


def request_cycles(tile: Tile, problem: Problem) -> float:
    """The least cycles of a step's loads if all SMs make such requests to L2; 0 if rows start on sectors."""
    if not straddles_sectors(problem):
        return 0.0
    cycles = 0.0
    for operand, rows in zip(OPERANDS, tile.shape[:2], strict=True):
        lines = rows * tile.shape[2] * element_type(problem.stream(operand).element).bits / 8 / LINE_BYTES
        of_one = _OF_ALIGNED if _starts_on(SECTOR_BYTES, operand, problem) else _CYCLES_PER_REQUEST
        cycles += lines / _sharers(operand, tile) * of_one
    return cycles


def _sharers(operand: Operand, tile: Tile) -> int:
    """The number of CTAs of a cluster that take the same tile of an operand: along N for A, along M for B."""
    return sharing(operand, tile.cluster)[1]


def straddles_sectors(problem: Problem) -> bool:
    """Whether rows of A or B, one behind the other, are known not to start on sectors of L2."""
    return not all(_starts_on(SECTOR_BYTES, operand, problem) for operand in OPERANDS)


def _starts_on(unit: int, operand: Operand, problem: Problem) -> bool:
    """Whether the rows of an operand start on multiples of `unit` bytes; true if extents are known only at run time.
    Rows that TMA cannot read are packed to L2 lines."""
    _, extent = contiguous_extent(operand, problem)
    size = 0 if extent is None else extent * element_type(problem.stream(operand).element).bits // 8
    return size % unit == 0 or size % TMA_BYTES != 0
