"""How the grid of a schedule is chosen: the tiles to choose among, the order of work tiles, the scheduler."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil, log2, prod, sqrt
from types import MappingProxyType
from typing import Any

from tensor_layouts import size

from lowtide.dialects.tile import (
    KOrderKind,
    LaunchKind,
    OperandKind,
    RasterKind,
    RepeatKind,
    SchedulerKind,
    StorePath,
    TailKind,
    WavesKind,
)
from lowtide.dialects.tile.fields import Extents2, Extents3, KDivision, Order, Roles, cooperative, grouped, pingpong
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import WEIGHT_BLOCK, element_type
from lowtide.passes.schedules.choice.asked_for import stores_by_tma, wgmma_width
from lowtide.passes.schedules.choice.multiply import multiplies_by_fma, pairs_rows
from lowtide.passes.schedules.cost.grid import (
    RoleTile,
    Tail,
    role_cost,
    straddles_sectors,
    tails,
    wave_bytes,
    widest_box,
)
from lowtide.passes.schedules.facts.resources import results_fill_registers, threads_of
from lowtide.passes.schedules.rules.grid import has_griddepcontrol
from lowtide.passes.schedules.rules.multiply import column_step, widest
from lowtide.passes.support.atoms import STAGED_COPIES
from lowtide.passes.support.matrix_layouts import b_is_nk, k_is_contiguous
from lowtide.passes.support.operand_loads import LDMATRIX_BITS
from lowtide.passes.support.problem import Problem
from lowtide.targets import Target
from lowtide.targets.atoms import FMA, WARPGROUP_THREADS, WGMMA_ROWS


@dataclass(frozen=True)
class Candidate:
    """A tile without roles: extents, warps, stages."""

    tile: Extents2
    k: int
    atoms: Extents3
    stages: int

    @property
    def threads(self) -> int:
        """Of the warps of a CTA."""
        return 32 * prod(self.atoms)

    def values(self, has_ring: bool = True) -> dict[str, Any]:
        """By path of the schedule's fields."""
        named = {"grid.tile": self.tile, "mainloop.k": self.k, "multiply.atoms": self.atoms}
        return named | ({"mainloop.stages": self.stages} if has_ring else {})


_HALVES = (
    Candidate((128, 256), 64, (2, 4, 1), 3),
    Candidate((128, 256), 32, (2, 4, 1), 4),
    Candidate((256, 128), 32, (4, 2, 1), 4),
    Candidate((128, 128), 64, (2, 2, 1), 3),
    Candidate((128, 128), 32, (2, 2, 1), 4),
    Candidate((128, 64), 64, (2, 2, 1), 3),
    Candidate((64, 128), 64, (2, 2, 1), 3),
    Candidate((64, 64), 64, (2, 2, 1), 4),
    Candidate((64, 64), 32, (2, 2, 1), 4),
)

# By bits of A's elements. Large tiles reuse operands more, small ones fill the GPU on small problems. Accumulators of
# f64 take two registers each, which limits its tiles.
_COMMON: Mapping[int, tuple[Candidate, ...]] = MappingProxyType(
    {
        8: tuple(replace(one, k=2 * one.k) for one in _HALVES),
        16: _HALVES,
        # FMA atoms, 8 × 8 accumulators per thread.
        32: (
            Candidate((128, 128), 16, (16, 16, 1), 3),
            Candidate((128, 64), 8, (16, 8, 1), 4),
            Candidate((64, 64), 8, (8, 8, 1), 4),
        ),
        64: (
            Candidate((128, 128), 16, (4, 2, 1), 4),
            Candidate((128, 64), 16, (2, 2, 1), 4),
            Candidate((64, 128), 16, (2, 2, 1), 4),
            Candidate((64, 64), 16, (2, 2, 1), 4),
            Candidate((32, 64), 16, (1, 2, 1), 4),
        ),
    }
)

# Where fragments of A or B come in pairs of rows, two CTAs of a smaller tile per SM were faster (H200, 4096³).
_COMMON_OF_ROWS: Mapping[int, tuple[Candidate, ...]] = MappingProxyType({64: _COMMON[64][1:]})
# Beside several full operands, of which a thread holds as many elements as of D: eight warps share them.
_COMMON_BESIDE_OPERANDS: Mapping[int, tuple[Candidate, ...]] = MappingProxyType(
    {64: (Candidate((64, 64), 16, (2, 4, 1), 4), Candidate((32, 64), 16, (1, 4, 1), 4))}
)
# Of 32 bits by tensor cores.
_COMMON_OF_WORDS = tuple(replace(one, k=one.k // 2) for one in _HALVES)
# Bytes that do not lie along K are loaded one by one, and put together in registers that large tiles do not leave; nor
# do they leave any for sums of one K step of 8-bit floats, or for these as f16, of which sm_90 multiplies them.
_COMMON_OF_LONE_BYTES = (
    Candidate((128, 128), 64, (2, 4, 1), 4),
    Candidate((64, 128), 64, (2, 4, 1), 4),
    Candidate((64, 64), 64, (2, 2, 1), 4),
)

# Of packed weights, which the next tile along M, and another warp along M, converts again. Threads hold the sums of a K
# step beside all sums: 128 rows, or 64 with four warps, leave too few registers.
_DEPTH_OF_WEIGHTS, _FEW_ROWS, _MOST_WARPS, _COPY_BYTES = 128, 16, 8, 16
_MOST_OF = 0.75  # of the SMs, that are to have a tile
_TILES_OF_WEIGHTS = (
    Candidate((32, 128), _DEPTH_OF_WEIGHTS, (1, 4, 1), 4),
    Candidate((64, 128), _DEPTH_OF_WEIGHTS, (1, 8, 1), 3),
)

# Copies of 16-bit elements through registers hold a step's elements beside the accumulators: eight warps share them.
_COMMON_BESIDE_COPIES = (
    Candidate((128, 128), 32, (2, 4, 1), 3),
    Candidate((64, 128), 32, (2, 4, 1), 3),
    Candidate((64, 64), 32, (2, 2, 1), 4),
)

# Warps for tiles that the common ones do not divide, or whose copies they cannot share.
_UNCOMMON_WARPS: tuple[Extents3, ...] = (
    (2, 4, 1),
    (4, 2, 1),
    (2, 2, 1),
    (4, 1, 1),
    (1, 4, 1),
    (2, 1, 1),
    (1, 2, 1),
    (1, 1, 1),
)

# Threads of FMA atoms, likewise.
_FMA_BITS = 32  # of the operands that no tensor core multiplies
_UNCOMMON_THREADS: tuple[Extents3, ...] = ((16, 16, 1), (16, 8, 1), (8, 16, 1), (8, 8, 1), (8, 4, 1))

# With roles: rows of a CTA tile and the consumer warpgroups that multiply, with the largest N whose accumulators fit.
# Multiples of 8 up to that N are candidates: the cheapest is the one that fills the last wave. With four or more
# consumers each has 64 rows.
_ROWS: tuple[tuple[int, Roles, int], ...] = (
    (256, cooperative(2), 192),
    (192, cooperative(3), 200),
    (128, cooperative(2), 256),
    (64, cooperative(1), 256),
    (128, pingpong(2), 192),
    (64, pingpong(2), 256),
)
_NARROWEST, _N_STEP = 64, 8
_DEPTH_BITS = 1024  # K of a step: rows of 128 bytes
# Of products of pieces, whose sums are promoted after each step. Two stages of 64 of tf32 took less time than four of
# 32 (H200, 4096³ by tf32x3, 256×128: 1314 and 1548 µs; by bf16x6 1345 and 1733 µs).
_DEPTH_BITS_OF_PIECES = 2048
_CLUSTERS: tuple[Extents2, ...] = ((2, 1), (1, 2), (2, 2), (4, 1), (1, 4))  # to choose among

# CTAs are kept in step in grids of at least so many waves, each of which reads more than L2 holds. Gains on an H200:
# 1 to 3 % at 16384³, 2 % at 8192×28672×8192; none in ten waves (8192³), nor where L2 holds a wave's operands
# (6144³, 4096×28672×4096).
_DRIFT_WAVES = 16

# K is turned around where a wave reads more than this part of L2, each half of which keeps its own copy of what the SMs
# on its side read. Gains on an H200, in bursts: 0.7 % at 4096³, 0.6 % at 4096×28672×4096, 0.1 % at 8192³; 16384³, whose
# CTAs are kept in step, loses 2 %.
_KEPT_BY_L2 = 0.5

# FMA atoms: registers per thread that do for this number of accumulators, if the epilogue only converts them.
_REGISTERS_OF_FMA, _ACCUMULATORS_OF_FMA = 128, 64

_ACCUMULATORS_BESIDE_ROWS = 128  # per thread, if the epilogue also holds rows of a full operand
_ACCUMULATORS_BESIDE_COLUMNS = 64  # if it holds elements of one that lies by columns
# Accumulators per thread if an epilogue without TMA calls functions, in tiles of one block of rows per consumer: ptxas
# interleaves the calls of a whole part, and spills with more.
_ACCUMULATORS_BESIDE_FUNCTIONS, _FEW_BESIDE_FUNCTIONS = 128, 64


def candidates(given: Schedule, problem: Problem, target: Target) -> Iterator[tuple[Candidate, ...]]:
    """Tiles without roles: the common ones that agree with the given fields; if none does, more."""
    tile, k, bits = given.grid.tile, given.mainloop.k, element_type(problem.a).bits
    common = _COMMON_OF_ROWS.get(bits, _COMMON[bits]) if pairs_rows(problem) else _COMMON[bits]
    if problem.kinds.count(OperandKind.full) > 1:
        common = _COMMON_BESIDE_OPERANDS.get(bits, common)
    if bits == LDMATRIX_BITS and not {given.mainloop.a.copy, given.mainloop.b.copy}.isdisjoint(STAGED_COPIES):
        common = _COMMON_BESIDE_COPIES
    if bits < LDMATRIX_BITS and (element_type(problem.a).is_float or not k_is_contiguous(problem.layout)):
        common = _COMMON_OF_LONE_BYTES
    if problem.weights:
        common = _of_weights(problem)
    by_fma = multiplies_by_fma(given, problem, target)
    if bits == _FMA_BITS and not by_fma:
        common = _COMMON_OF_WORDS
    uncommon = _UNCOMMON_THREADS if by_fma else _UNCOMMON_WARPS
    agreeing = tuple(c for c in common if tile in (None, c.tile) and k in (None, c.k))
    yield agreeing if agreeing and given.multiply.atoms is None else common
    if tile is not None or k is not None or given.multiply.permutation is not None:
        shapes = dict.fromkeys((tile or c.tile, k or c.k) for c in common)
        yield tuple(
            Candidate(shape, depth, atoms, stages) for stages in (3, 2) for atoms in uncommon for shape, depth in shapes
        )


def _of_weights(problem: Problem) -> tuple[Candidate, ...]:
    """The tile with as many rows as A has, up to 64, so that weights are converted once. With few rows as many warps
    as can share the copies of A: each has 16 columns, or 32 of short groups, whose bytes fewer threads can share."""
    k = problem.group or _DEPTH_OF_WEIGHTS
    if problem.m is not None and problem.m <= _FEW_ROWS:
        warps = min(_MOST_WARPS, k // _FEW_ROWS)
        columns = _FEW_ROWS * (1 if k > WEIGHT_BLOCK else 2)
        return (Candidate((_FEW_ROWS, columns * warps), k, (1, warps, 1), 4),)
    most = _TILES_OF_WEIGHTS[-1]
    tile = next((one for one in _TILES_OF_WEIGHTS if (problem.m or most.tile[0]) <= one.tile[0]), most)
    if tile.threads * _COPY_BYTES > tile.tile[1] * k // 2:  # bytes of weights of 4 bits
        tile = replace(tile, atoms=(1, 4, 1))
    return (replace(tile, k=k),)


def role_tiles(given: Schedule, kinds: tuple[Roles, ...], problem: Problem, target: Target) -> list[RoleTile]:
    """Tiles with roles, each with one of these kinds, alone and, where that may gain, in clusters that share loads.

    Clusters gain where rows do not start on sectors of L2 (H200: 4096×4104×4104 1.25 times as fast), nothing elsewhere.
    """
    tiles = _without_clusters(given, kinds, problem, target)
    if given.grid.cluster is not None or target.max_cluster < 2:
        return [RoleTile(shape, roles, given.cluster) for shape, roles in tiles]
    may_gain = straddles_sectors(problem) and given.grid.k_division is None
    return [RoleTile(*tile, cluster) for cluster in ((1, 1), *(_CLUSTERS if may_gain else ())) for tile in tiles]


def _without_clusters(
    given: Schedule, kinds: tuple[Roles, ...], problem: Problem, target: Target
) -> list[tuple[Extents3, Roles]]:
    """M, N and K of a step, and the roles that compute it."""
    depth = given.mainloop.k or _depth(problem)
    if problem.weights and given.grid.tile is None:
        return [_tile_of_weights(given, kinds, problem, target)]
    if given.grid.tile is not None:
        rows, columns = given.grid.tile
        dealt = [roles for roles in kinds if rows % (WGMMA_ROWS * roles.sharing) == 0]
        return [((rows, columns, depth), roles) for roles in dealt or [min(kinds, key=lambda kind: kind.sharing)]]
    rows_of = [entry for entry in _ROWS if entry[1] in kinds] or [
        (WGMMA_ROWS * roles.sharing, roles, widest(roles.consumers, problem, target)) for roles in kinds
    ]
    sizes = [
        (rows, n, roles, most_n)
        for rows, roles, most_n in rows_of
        for n in _widths(given, problem, min(_NARROWEST, most_n))
        # With a narrower last part of each tile, consumers that take turns were up to 13 % slower (H200, N = 176), with
        # a narrower last tile of each matrix of a batch up to 10 % (16 × 2048×2048×128, 128×192 instead of 128×128).
        if roles.turns == 1 or roles == given.mainloop.roles or _suits_turns(n, problem)
    ]
    fitting = [
        (rows, n, roles, most_n)
        for rows, n, roles, most_n in sizes
        if n <= most_n and _leaves_room(rows, n, roles, given, problem)
    ]
    # If the given fields leave no tile that fits, the rules say why.
    return [((rows, n, depth), roles) for rows, n, roles, _ in fitting or sizes]


def _tile_of_weights(
    given: Schedule, kinds: tuple[Roles, ...], problem: Problem, target: Target
) -> tuple[Extents3, Roles]:
    """A tile with as many columns as D has, that is rows of A as it was asked for, or 64: weights, which are rows, are
    converted for each tile again. Of two blocks of 64 rows for each consumer, or of one where tiles are few."""
    step, depth = column_step(problem), given.mainloop.k or _depth(problem)
    columns = wgmma_width(given) or min(_NARROWEST, -(-(problem.n or _NARROWEST) // step) * step)
    blocks = [(2, roles) for roles in kinds[:1]] + [(1, roles) for roles in kinds]
    found = [((WGMMA_ROWS * each * roles.sharing, columns, depth), roles) for each, roles in blocks]
    enough = (one for one in found if (problem.tiles(one[0]) or target.sm_count) >= _MOST_OF * target.sm_count)
    return next(enough, found[-1])


def _depth(problem: Problem) -> int:
    """K of a step."""
    if problem.weights:
        return problem.group or _DEPTH_OF_WEIGHTS
    return (_DEPTH_BITS if problem.decomposition is None else _DEPTH_BITS_OF_PIECES) // element_type(problem.a).bits


def _suits_turns(n: int, problem: Problem) -> bool:
    """Whether tiles of so many columns are among those for consumers that take turns."""
    is_whole = not problem.is_batched or problem.n is None or problem.n % n == 0 or n > problem.n
    return n < _NARROWEST or (n % _NARROWEST == 0 and is_whole)


def _leaves_room(rows: int, n: int, roles: Roles, given: Schedule, problem: Problem) -> bool:
    """Whether the epilogue has enough registers beside a tile's accumulators."""
    accumulators = rows * n // (WARPGROUP_THREADS * roles.sharing)
    beside_operand = _ACCUMULATORS_BESIDE_COLUMNS if problem.d_is_column_major else _ACCUMULATORS_BESIDE_ROWS
    if OperandKind.full in problem.region_kinds and accumulators > beside_operand:
        return False
    # The tallest tile of a consumer that takes turns leaves no registers for functions, row addresses, or a run-time N.
    is_simple = stores_by_tma(given, problem) and problem.compiled.n is not None and not problem.has_math
    if roles.turns > 1 and not is_simple and accumulators > _ACCUMULATORS_BESIDE_FUNCTIONS:
        return False
    if not problem.has_math or stores_by_tma(given, problem):
        return True
    is_tight = roles.consumers == 1 or results_fill_registers(problem)  # one consumer has no setmaxnreg
    most = _FEW_BESIDE_FUNCTIONS if is_tight else _ACCUMULATORS_BESIDE_FUNCTIONS
    return accumulators <= most and rows == WGMMA_ROWS * roles.sharing


def _widths(given: Schedule, problem: Problem, narrowest: int) -> list[int]:
    """N of the CTA tiles to choose among; a single one if the given wgmma or permutation fixes it."""
    if width := wgmma_width(given):
        return [width]
    if given.multiply.permutation is not None:
        return [size(given.multiply.permutation[1])]
    # Panels of N-contiguous B and rows of the epilogue's scratch want whole swizzle spans.
    any_width = b_is_nk(problem.layout) and stores_by_tma(given, problem)
    widths = list(range(narrowest, 257, _N_STEP if any_width else _NARROWEST))
    if problem.n is not None and problem.n < _NARROWEST:
        widths.insert(0, 16 << max(0, (problem.n - 1) // 16).bit_length())
    return widths


def follow(schedule: Schedule, problem: Problem, target: Target) -> Mapping[str, Any]:
    """Order and scheduler for a tile, by path.

    With roles also programmatic launch and, where they gain, a tail in halves or parts, and waves in step or K turned
    around; without them the CTAs per SM.
    """
    if not schedule.consumers:
        once = schedule.mainloop.prologue is RepeatKind.once
        chosen = {
            "grid.order": grouped(8),
            "grid.scheduler": SchedulerKind.persistent if once else SchedulerKind.one_shot,
        }
        count = _ctas_of_fma(schedule, problem, target) if schedule.multiply.atom == FMA else 1
        return chosen | ({"grid.ctas_per_sm": count} if count > 1 else {})
    found: dict[str, Any] = {
        "grid.order": _square_bands(schedule, problem, target),
        "grid.scheduler": SchedulerKind.persistent,
    }
    if has_griddepcontrol(target):
        found["grid.launch"] = LaunchKind.programmatic
    tail = _cheapest_tail(schedule, problem, target) if may_split_tail(schedule, problem) else TailKind.whole
    if isinstance(tail, KDivision):
        found["grid.k_division"] = tail
    elif tail is TailKind.halves:
        found["grid.tail"] = tail
    if (
        not isinstance(tail, KDivision)
        and _is_plainly_persistent(schedule)
        and _drifts_out_of_l2(schedule, problem, target)
    ):
        found["grid.waves"] = WavesKind.synchronized
    if "grid.waves" not in found and _leaves_operands_in_l2(schedule, problem, target):
        found["mainloop.k_order"] = KOrderKind.serpentine
    return found


def may_split_tail(given: Schedule, problem: Problem) -> bool:
    """Whether the given fields leave a tail in halves open. Tiles of packed weights are whole."""
    return _is_plainly_persistent(given) and given.grid.tail is None and problem.weights is None


def _is_plainly_persistent(given: Schedule) -> bool:
    """Whether CTAs take whole tiles in turn, or the given fields leave that open."""
    return given.grid.scheduler in (None, SchedulerKind.persistent) and given.grid.k_division is None


def _cheapest_tail(schedule: Schedule, problem: Problem, target: Target) -> Tail:
    """Of equally cheap ones the first: whole tiles."""
    assert schedule.mainloop.roles is not None
    tile = RoleTile(schedule.tile_mnk, schedule.mainloop.roles, schedule.cluster)
    by_tma, given = schedule.epilogue.path is StorePath.tma, schedule.epilogue.tile
    box = (given[1] if given else widest_box(problem)) if by_tma else None
    return min(tails(tile, problem, target, box), key=lambda tail: role_cost(tile, problem, target, tail))


def _drifts_out_of_l2(schedule: Schedule, problem: Problem, target: Target) -> bool:
    """Whether CTAs that drift apart in K read from memory what others have brought to L2 before."""
    tiles = problem.tiles(schedule.tile_mnk)
    if tiles is None or problem.k is None:
        return False
    waves = tiles // target.sm_count
    return waves >= _DRIFT_WAVES and wave_bytes(schedule.tile_mnk, problem, target) > target.l2_bytes


def _leaves_operands_in_l2(schedule: Schedule, problem: Problem, target: Target) -> bool:
    """Whether a CTA computes several tiles one after the other, and L2 keeps a part of what a wave of them has read.

    Measured (4096×28672×4096, H200): with K turned around, 0.68 GB are read from memory in place of 0.79 GB.
    """
    tiles = problem.tiles(schedule.tile_mnk)
    if tiles is None or problem.k is None or problem.is_scaled or problem.weights:
        return False
    kept = target.l2_bytes * _KEPT_BY_L2
    free = schedule.grid.waves is not WavesKind.synchronized and _is_plainly_persistent(schedule)
    return free and tiles > target.sm_count and wave_bytes(schedule.tile_mnk, problem, target) > kept


def _ctas_of_fma(schedule: Schedule, problem: Problem, target: Target) -> int:
    """CTAs per SM at which a thread has `_REGISTERS_OF_FMA` registers; fewer where it needs more of them.

    Copies that may end within a tile take a few more, and so does adding partial sums: one warp less on each
    sub-core leaves them.
    """
    m, n, _ = schedule.tile_mnk
    threads = threads_of(schedule)
    if m * n > _ACCUMULATORS_OF_FMA * threads or problem.kinds or problem.has_math:
        return 1
    if threads % target.warp_size:  # which a rule refuses
        return 1
    kernel = problem.compiled
    extents = zip((kernel.m, kernel.n, kernel.k), schedule.tile_mnk, strict=True)
    may_be_ragged = any(extent is None or extent % side for extent, side in extents)
    needs_more = may_be_ragged or schedule.k_division is not None
    fewer = max(1, target.sub_cores * target.warp_size // threads) if needs_more else 0
    return max(1, target.registers_per_sm // (_REGISTERS_OF_FMA * threads) - fewer)


def _square_bands(schedule: Schedule, problem: Problem, target: Target) -> Order:
    """The band height at which the tiles in flight cover about a square of D: they share the most operands in L2.

    Where one band is known to hold all rows of tiles its order is that of columns, and where there is one column of
    tiles, any order is that of rows: both are computed without divisions by run-time values (H200: 1024³ 5 % faster,
    8×8192×8192 in tiles of 16 rows 1.5 %).
    """
    m, n, _ = schedule.tile_mnk
    if problem.n is not None and problem.n <= n * schedule.cluster[1]:
        return Order(RasterKind.row)
    tile_rows = 2 ** max(0, round(log2(sqrt(target.sm_count * n / m))))
    band = max(1, tile_rows // schedule.cluster[0])  # a cluster takes as many of them at a time
    if problem.m is not None and ceil(ceil(problem.m / m) / schedule.cluster[0]) <= band:
        return Order(RasterKind.column)
    return grouped(band)


def reasons(schedule: Schedule) -> Mapping[str, str]:
    """Why order and scheduler are what `follow` gives."""
    if not schedule.consumers:
        return {
            "grid.ctas_per_sm": f"{_REGISTERS_OF_FMA} registers do for a thread, and more warps hide more latency",
            "grid.order": "bands of 8 tile rows keep the operands of CTAs in flight in L2"
            if schedule.mainloop.prologue is not RepeatKind.once
            else "a CTA's tiles are neighbours along N, so that its rows of A come from L2",
            "grid.scheduler": "one CTA per work tile; the hardware balances them"
            if schedule.grid.scheduler is SchedulerKind.one_shot
            else "CTAs stay for several tiles",
        }
    has_tail = schedule.k_division is not None and schedule.k_division.is_of_tail
    tail = {"grid.k_division": "the last wave leaves SMs idle: several share the K of each of its tiles"}
    return (tail if has_tail else {}) | {
        "grid.launch": "its CTAs start while the last ones of the kernel before end, and wait for their writes",
        "grid.order": "the tiles in flight cover about a square of D, which shares the most operands in L2"
        if schedule.k_division is None or has_tail
        else "all tiles are in flight at once, and neighbouring CTAs read the same rows of A",
        "grid.scheduler": "the producer fetches the next tile while the consumers finish this one",
        "grid.cluster": "rows do not start on sectors of L2, whose requests limit the loads: CTAs share them",
        "grid.tail": "the last wave is at most half full: as half tiles it takes about half the time",
        "grid.waves": "a wave reads more than L2 holds: CTAs in step read the same part of it",
        "mainloop.k_order": "a tile begins with what L2 still keeps of the tiles before it",
    }
