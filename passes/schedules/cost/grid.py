"""Estimated cost of a grid of CTA tiles with roles, in cycles of one SM; `single_grid.py` has that of grids without.

The model is deliberately small. Extents known only at run time are taken as 4096.
"""

from dataclasses import dataclass, replace
from math import ceil, floor, gcd, prod, sqrt
from types import MappingProxyType
from typing import TypeAlias

from lowtide.dialects.tile import KDivisionKind, TailKind
from lowtide.dialects.tile.fields import Extents2, Extents3, KDivision, Roles
from lowtide.elements import SCALE_BLOCK, element_type
from lowtide.passes.schedules.facts.resources import (
    is_wide_for_scales,
)
from lowtide.passes.schedules.rules.tma import contiguous_extent
from lowtide.passes.support.clusters import OPERANDS, sharing
from lowtide.passes.support.problem import Problem
from lowtide.targets import Target
from lowtide.targets.atoms import WGMMA_ROWS, Operand

_ASSUMED_EXTENT = 4096
_ASSUMED_BATCH = 32  # of a batch that is known at run time

# With roles, calibrated on an H200 (docs/performance.md): the time of the wgmmas, scaled up by the bytes per flop
# of a tile (the GPU runs at its power limit, and L2 traffic costs power), in whole waves of CTAs.
_LAUNCH = 3000  # cycles: launch, and the end of the last CTA
_MULTIPLY_BITS_PER_CYCLE = 2048 * 16  # multiply-adds of wgmma per SM, times the bits of an operand
_TILE_OVERHEAD = 2000  # cycles: fill and epilogue of a tile
_PART_OVERHEAD = 150  # extra cycles for a part of the epilogue that is narrower than the others
# Extra cycles of tiles whose columns are no multiple of 32 bytes of D: neighbours then share sectors of L2. At
# 300×4096×4096 64×168 takes 4 % longer than 64×176, at 2944³ 128×184 8 % longer than 128×176.
_SHARED_SECTORS = 500
# Slowdown of a tile, measured at the power limit: by its L2 traffic, (M + N) / (M · N) per step, and by the
# shared memory traffic of its wgmmas, (64 + N) / (64 · N).
_L2_WEIGHT, _SHARED_WEIGHT = 14.3, 5.0
# What limits grids of few rows, calibrated on those of benchmarks/calibration_shapes.txt, which leave power unused.
_BYTES_PER_CYCLE = 62  # that an SM receives from L2
# What all SMs receive from memory, and one SM of an operand that no other reads the same part of.
_MEMORY_BYTES_PER_CYCLE, _MEMORY_BYTES_OF_SM = 2500, 30
_SHARPNESS = 6  # of the larger limit: what comes from L2 and from memory hide each other but for a part
# Rows of TMA boxes that lie outside of A or B take time: all SMs together get so many of them per cycle, and nothing
# else meanwhile. 64×64 at 100×4096×4096 17.7 µs, at 128×4096×4096 14.0; 128×64 at 200×4096×4096 26.3, at 256 17.2.
_EMPTY_ROWS_PER_CYCLE = 18
_TMA_BYTES = 16  # of which rows must be multiples
_UNALIGNED_WEIGHT = 2.0  # of an operand whose rows do not start on L2 lines: each row of a box touches two
_LINE_BYTES, _SECTOR_BYTES = 128, 32
# Where rows do not start on sectors of L2, its requests limit all SMs together: cycles per SM for 128 bytes of a TMA
# load, of such rows and of others. Measured on an H200 (bf16, tn, without clusters and in pairs of CTAs): 1000³, 2056³,
# 4096×4104×4104, 8200³, 4096×4096×1000, 1000×8000×1000. A load for several CTAs is one request.
_CYCLES_PER_REQUEST, _OF_ALIGNED = 5.1, 2.6
_SATURATED = 1.5  # times the share of SMs at work, at most 1: how near the requests come to the limit
_CLUSTER_OVERHEAD = 200  # cycles: the barriers at both ends
_TALL_OVERHEAD = 3000  # extra cycles for two blocks of 64 rows per warpgroup: such a tile starts and ends later
_THREE_CONSUMERS = 1.03  # times the cycles of their tiles: what two or one gain is certain
# Of a tile that one consumer stores while the next multiplies; the epilogue of the last tile is not hidden.
_TURN_OVERHEAD, _TURN_OVERHEAD_OF_BATCH = 500, 400
# Slowdown of products that are promoted: nothing multiplies meanwhile where one consumer does so at a time, and less
# where one has several blocks of rows, each of which it waits for. Measured on an H200 (e4m3, 8192³): 892 TFLOP/s by
# 128×128 in turns and 1191 by 256×128, in place of 1273 by 128×192.
_PROMOTED_ALONE, _PROMOTED_BLOCKS = 1.5, 1.12
# In longer steps, of pieces, several blocks of rows for a consumer are better than one: 1314 µs by 256×128 and 1542 by
# 128×176 (tf32x3, 4096³).
_PROMOTED_PIECES = 1.2
# Of scaled ones in tiles that are not wide, in which sums and scales take more of a K step: 1110 and 1034 TFLOP/s by
# 128×128, 1229 and 1077 by 128×192 (8192³, 4096×7168×2048).
_SCALED_NARROW = 1.08
_SCALED_PARTS = 0.015  # for each scale of columns that a thread loads in a K step
# Of a tile of the last wave whose K several CTAs share: one of them adds the sums of all, or each those of its share of
# columns. With scales of blocks on an H200, shares take 0.97 of the time of whole tiles at 4096×4096×4096, 1.00 with K
# of 3072 and 1.03 with 2048; 3.4 µs less than one CTA that adds all, with K of 7168.
_EXCHANGE = MappingProxyType({KDivisionKind.tail: 16000, KDivisionKind.scatter_tail: 9000})
_BOX_BITS = 1024  # of a row of a box that TMA stores: the widest swizzle
_IDLE_GAIN = 0.4  # of the idle SMs in the last wave: the power that they save speeds up the others


@dataclass(frozen=True)
class RoleTile:
    """A CTA tile (M, N, and K of a step), the roles that compute it, and the CTAs along M and N that share loads."""

    shape: Extents3
    roles: Roles
    cluster: Extents2 = (1, 1)


#: How the last wave of a grid runs
Tail: TypeAlias = TailKind | KDivision


def role_cost(tile: RoleTile, problem: Problem, target: Target, tail: Tail | None = None) -> float:
    """Estimated cycles of the whole grid of a schedule with roles.

    Without a `tail` the cheapest one counts.
    """
    if tail is None:
        return min(role_cost(tile, problem, target, each) for each in tails(tile, problem, target, widest_box(problem)))
    once = (_TILE_OVERHEAD if tile.roles.turns > 1 else 0) + (_CLUSTER_OVERHEAD if prod(tile.cluster) > 1 else 0)
    waves = ceil(_clusters(tile, problem) / _clusters_at_once(tile, target))
    steps = waves * ceil(sizes_of(problem)[2] / tile.shape[2])
    loads = load_cycles(steps, tile, problem) + _TILE_OVERHEAD
    return max(_waves(tile, problem, target, tail) + once, loads) + _LAUNCH


def tails(tile: RoleTile, problem: Problem, target: Target, box: int | None) -> list[Tail]:
    """How the last wave of a grid may run: as whole tiles, in halves, or in parts of K where scales act in the sum.

    Each part stores a share of the columns if that is whole boxes, of so many columns; with None, part 0 stores all. Of
    other products, whole tiles of 128×256 and half tiles of 256×192 have so far been as fast or faster.
    """
    parts = _parts_of_tail(tile, problem, target) if problem.is_scaled else 1
    if parts == 1:
        return list(TailKind)
    shared = [n for n in range(parts, 1, -1) if box is not None and tile.shape[1] % (n * box) == 0]
    scattered = [KDivision(KDivisionKind.scatter_tail, n) for n in shared[:1]]
    return [*TailKind, *scattered, KDivision(KDivisionKind.tail, parts)]


def widest_box(problem: Problem) -> int:
    """Columns of a box of D, by default."""
    return _BOX_BITS // element_type(problem.d).bits


def _parts_of_tail(tile: RoleTile, problem: Problem, target: Target) -> int:
    """CTAs that can share each tile of the last wave after some full ones; 1 where that is not known."""
    if not problem.has_static_extents or tile.roles.turns > 1:
        return 1
    at_once = _clusters_at_once(tile, target)
    full, over = divmod(_clusters(tile, problem), at_once)
    return min(at_once // over, ceil(sizes_of(problem)[2] / tile.shape[2])) if full and over else 1


def _waves(tile: RoleTile, problem: Problem, target: Target, tail: Tail) -> float:
    """Cycles of the waves of CTAs, which multiply all the time."""
    filled = _clusters(tile, problem) / _clusters_at_once(tile, target)
    busy = min(1.0, _clusters(tile, problem) * prod(tile.cluster) / target.sm_count)
    requests = min(1.0, _SATURATED * busy) * _request_cycles(tile, problem)
    of_a_tile = _tile_cycles(tile, problem, requests)
    if isinstance(tail, KDivision):
        of_a_part = _tile_cycles(tile, problem, requests, tail.parts) + _EXCHANGE[tail.kind]
        return floor(filled) * of_a_tile + _partial_wave(tail.parts * (filled - floor(filled))) * of_a_part
    if tail is TailKind.halves and splits_tail(tile, problem, target):
        # Its slots are those of a whole tile, so that it starts and ends as late.
        rows, columns, depth = tile.shape
        half = replace(tile, shape=(rows // 2, columns, depth))
        of_a_half = _tile_cycles(half, problem, _request_cycles(half, problem)) + _TALL_OVERHEAD
        return floor(filled) * of_a_tile + _partial_wave(2 * (filled - floor(filled))) * of_a_half
    return (ceil(filled) - 1 + _partial_wave(filled - ceil(filled) + 1)) * of_a_tile


def load_cycles(steps: int, tile: RoleTile, problem: Problem) -> float:
    """The least cycles of a grid in which each SM loads so many steps: what it receives from L2, and rows of boxes that
    are empty; or, if that is more, A and B from memory."""
    size_m, size_n, k = sizes_of(problem)
    bytes_a, bytes_b = (element_type(problem.stream(name).element).bits / 8 for name in OPERANDS)
    (tile_m, tile_n, depth), (rows, columns) = tile.shape, _grid(tile, problem)
    of_a, of_b = min(tile_m, size_m) * depth * bytes_a, min(tile_n, size_n) * depth * bytes_b
    read_once = of_a * (columns == 1) + of_b * (rows == 1)
    empty_of_a = (rows * tile_m - size_m) * columns / _sharers("a", tile)
    empty_of_b = (columns * tile_n - size_n) * rows / _sharers("b", tile)
    empty = (empty_of_a + empty_of_b) * ceil(k / depth) * batch_of(problem)
    from_memory = (size_m * bytes_a + size_n * bytes_b) * k * batch_of(problem)
    of_l2 = steps * (of_a + of_b) / _BYTES_PER_CYCLE + empty / _EMPTY_ROWS_PER_CYCLE
    of_memory = max(from_memory / _MEMORY_BYTES_PER_CYCLE, steps * read_once / _MEMORY_BYTES_OF_SM)
    return float((of_l2**_SHARPNESS + of_memory**_SHARPNESS) ** (1 / _SHARPNESS))


def reads_of_larger(tile: RoleTile, problem: Problem) -> int:
    """How often each part of the larger operand is read: of B by the clusters along M, of A by those along N. 128×64
    takes up to 7 % less time than 64×128 at 256×4096×4096, 64×128 2 % less at 1024³ (H200)."""
    m, n, _ = sizes_of(problem)
    along = 0 if m < n else 1
    return _grid(tile, problem)[along] // tile.cluster[along]


def _clusters(tile: RoleTile, problem: Problem) -> int:
    """Clusters of the grid, of one CTA or more; those at the edges may have CTAs without work."""
    return prod(_grid(tile, problem)) // prod(tile.cluster) * batch_of(problem)


def _grid(tile: RoleTile, problem: Problem) -> Extents2:
    """Rows and columns of CTAs of one product, whole clusters of them."""
    m, n, _ = sizes_of(problem)
    rows, columns = (ceil(size / (tile.shape[i] * tile.cluster[i])) for i, size in enumerate((m, n)))
    return rows * tile.cluster[0], columns * tile.cluster[1]


def _clusters_at_once(tile: RoleTile, target: Target) -> int:
    size = prod(tile.cluster)
    return dict(target.clusters_at_once).get(size) or max(1, target.sm_count // size)


def splits_tail(tile: RoleTile, problem: Problem, target: Target) -> bool:
    """Whether a tail in halves is legal for the tile, and known to split the wave after some full ones.

    A grid without a full wave takes a lower tile instead, with smaller slots in the ring.
    """
    roles, clusters = tile.roles, None if None in (problem.m, problem.n, problem.batch) else _clusters(tile, problem)
    if clusters is None or roles.turns > 1 or tile.shape[0] % (2 * WGMMA_ROWS * roles.sharing):
        return False
    at_once = _clusters_at_once(tile, target)
    full, over = divmod(clusters, at_once)
    return full > 0 and 0 < 2 * over <= at_once


def wave_bytes(tile: Extents3, problem: Problem, target: Target) -> float:
    """Bytes of A and B that the tiles of a wave read, where they cover about a square of D, or several D of a batch."""
    m, n, k = sizes_of(problem)
    covered = target.sm_count * tile[0] * tile[1]
    side, matrices = sqrt(covered), min(batch_of(problem), max(1.0, covered / (m * n)))
    bits = min(m, side) * element_type(problem.a).bits + min(n, side) * element_type(problem.b).bits
    return bits * k / 8 * matrices


def _partial_wave(filled: float) -> float:
    """The time of a wave that fills a part of the SMs, relative to a full one."""
    return 1 - _IDLE_GAIN * (1 - filled)


def _tile_cycles(tile: RoleTile, problem: Problem, requests: float, parts: int = 1) -> float:
    """Cycles of one tile, or one of the `parts` of its K; a step takes at least those of its `requests` to L2."""
    roles, steps = tile.roles, ceil(ceil(sizes_of(problem)[2] / tile.shape[2]) / parts)
    mainloop = steps * max(multiply_cycles(tile, problem) * _slowdown(tile, problem), requests)
    shared = _SHARED_SECTORS if tile.shape[1] * element_type(problem.d).bits // 8 % _SECTOR_BYTES else 0
    if roles.turns > 1:
        return mainloop + shared + (_TURN_OVERHEAD_OF_BATCH if problem.is_batched else _TURN_OVERHEAD)
    mainloop *= _THREE_CONSUMERS if roles.consumers > 2 else 1
    overhead = _TILE_OVERHEAD + (_PART_OVERHEAD if tile.shape[1] % 64 else 0)
    overhead += _TALL_OVERHEAD if tile.shape[0] > WGMMA_ROWS * roles.sharing else 0
    return mainloop + overhead + shared


def multiply_cycles(tile: RoleTile, problem: Problem) -> float:
    """Cycles of the wgmmas of a step at full rate."""
    return prod(tile.shape) * element_type(problem.a).bits / _MULTIPLY_BITS_PER_CYCLE * _promotion(tile, problem)


def _slowdown(tile: RoleTile, problem: Problem) -> float:
    """Of wgmmas at the power limit. Per multiply-add a step loads 1 / N elements of A and 1 / M of B."""
    tile_m, tile_n, _ = tile.shape
    from_l2 = _unaligned("a", tile, problem) / tile_n + _unaligned("b", tile, problem) / tile_m
    return 1 + _L2_WEIGHT * from_l2 + _SHARED_WEIGHT * (1 / WGMMA_ROWS + 1 / tile_n)


def batch_of(problem: Problem) -> int:
    return problem.batch or _ASSUMED_BATCH


def _promotion(tile: RoleTile, problem: Problem) -> float:
    """How much longer wgmmas take because their sums are promoted."""
    if not problem.promotes:
        return 1.0
    # Each part of a tile's columns that lies within a block, wherever the tile begins, has a scale of its own.
    parts = tile.shape[1] // gcd(tile.shape[1], SCALE_BLOCK) if problem.is_scaled else 0
    scaled = 1 + _SCALED_PARTS * parts
    if problem.is_scaled and not is_wide_for_scales(tile.shape, tile.roles):
        scaled *= _SCALED_NARROW
    if tile.roles.sharing == 1:
        return _PROMOTED_ALONE * scaled
    if problem.decomposition is not None:
        return 1.0 if tile.shape[0] > WGMMA_ROWS * tile.roles.sharing else _PROMOTED_PIECES
    return (_PROMOTED_BLOCKS if tile.shape[0] > WGMMA_ROWS * tile.roles.sharing else 1.0) * scaled


def sizes_of(problem: Problem) -> tuple[int, int, int]:
    return problem.m or _ASSUMED_EXTENT, problem.n or _ASSUMED_EXTENT, problem.k or _ASSUMED_EXTENT


def _unaligned(operand: Operand, tile: RoleTile, problem: Problem) -> float:
    """Cost of an operand's bytes relative to rows that start on L2 lines. CTAs that share a load share what it adds."""
    return 1.0 if _starts_on(_LINE_BYTES, operand, problem) else 1 + (_UNALIGNED_WEIGHT - 1) / _sharers(operand, tile)


def _request_cycles(tile: RoleTile, problem: Problem) -> float:
    """The least cycles of a step's loads where all SMs make such requests to L2; 0 where rows start on sectors."""
    if not straddles_sectors(problem):
        return 0.0
    cycles = 0.0
    for operand, rows in zip(OPERANDS, tile.shape[:2], strict=True):
        lines = rows * tile.shape[2] * element_type(problem.stream(operand).element).bits / 8 / _LINE_BYTES
        of_one = _OF_ALIGNED if _starts_on(_SECTOR_BYTES, operand, problem) else _CYCLES_PER_REQUEST
        cycles += lines / _sharers(operand, tile) * of_one
    return cycles


def _sharers(operand: Operand, tile: RoleTile) -> int:
    """CTAs of a cluster that take the same tile of an operand: of A those along N, of B those along M."""
    return sharing(operand, tile.cluster)[1]


def straddles_sectors(problem: Problem) -> bool:
    """Whether A or B is known to have rows, as close as they lie by default, that do not start on sectors of L2."""
    return not all(_starts_on(_SECTOR_BYTES, operand, problem) for operand in OPERANDS)


def _starts_on(unit: int, operand: Operand, problem: Problem) -> bool:
    """Whether an operand's rows start on multiples of so many bytes; taken as true for run-time extents. Rows that TMA
    cannot read are packed, to lines."""
    _, extent = contiguous_extent(operand, problem)
    size = 0 if extent is None else extent * element_type(problem.stream(operand).element).bits // 8
    return size % unit == 0 or size % _TMA_BYTES != 0
