"""The bytes that a grid of CTA tiles reads from L2 and from memory, and the least time for them, in cycles of one SM.

Extents known only at run time count as 4096.
"""

from dataclasses import dataclass
from math import ceil, inf, prod, sqrt

from lowtide.dialects.tile.agents import Agents
from lowtide.dialects.tile.fields import Extents2, Extents3
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import element_type
from lowtide.passes.schedules.cost.grids import SECTOR_BYTES
from lowtide.passes.schedules.rules.tma import contiguous_extent
from lowtide.passes.support.agents.clusters import OPERANDS
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target
from lowtide.targets.atoms import Operand

_ASSUMED_EXTENT = 4096
_ASSUMED_BATCH = 32  # if the batch is known only at run time

TMA_BYTES = 16  # rows must be multiples of this


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


def ctas_of(schedule: Schedule, problem: Problem) -> int:
    """CTAs of the grid of a schedule that decides its division of K. Each part of K has its own, but not those of a
    tail."""
    division = schedule.k_division
    parts = 1 if division is None or division.is_of_tail else division.parts
    return clusters_of(tile_of(schedule), problem) * prod(schedule.cluster) * parts


def clusters_at_once(size: int, target: Target) -> int:
    """Clusters of so many CTAs that run at the same time, with one CTA per SM."""
    return dict(target.clusters_at_once).get(size) or max(1, target.sm_count // size)


def ctas_in_large_clusters(target: Target) -> int:
    """The CTAs that run at once in clusters of more than two."""
    return prod(target.clusters_at_once[0]) if target.clusters_at_once else target.sm_count


def wave_bytes(tile: Extents3, problem: Problem, target: Target) -> float:
    """Bytes of A and B that the tiles of a wave read if they cover about a square of D, or several D of a batch."""
    m, n, k = sizes_of(problem)
    covered = target.sm_count * tile[0] * tile[1]
    side, matrices = sqrt(covered), min(batch_of(problem), max(1.0, covered / (m * n)))
    bits = min(m, side) * element_type(problem.a).bits + min(n, side) * element_type(problem.b).bits
    return bits * k / 8 * matrices


def straddles_sectors(problem: Problem) -> bool:
    """Whether rows of A or B, one behind the other, are known not to start on sectors of L2."""
    return not all(starts_on_sectors(operand, problem) for operand in OPERANDS)


def starts_on_sectors(operand: Operand, problem: Problem) -> bool:
    """Whether the rows of an operand start on sectors of L2. This is also true if their length is known only at run
    time, and for rows that TMA cannot read: these are packed to lines of L2."""
    _, extent = contiguous_extent(operand, problem)
    size = 0 if extent is None else extent * element_type(problem.stream(operand).element).bits // 8
    return size % SECTOR_BYTES == 0 or size % TMA_BYTES != 0
