"""The tiles to choose among: for warps that copy and multiply, and for a producer with consumers; whole tiles, and
tiles whose K several CTAs share."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, prod
from types import MappingProxyType

from lowtide.dialects.tile import GemmLayout, OperandKind
from lowtide.dialects.tile.agents import Agents, cooperative, pingpong
from lowtide.dialects.tile.fields import Extents2, Extents3
from lowtide.dialects.tile.schedule import Schedule
from lowtide.elements import WEIGHT_BLOCK, element_type
from lowtide.passes.schedules.choice.multiply import multiplies_by_fma, pairs_rows
from lowtide.passes.schedules.cost import few_rows
from lowtide.passes.support.agents.atoms import STAGED_COPIES
from lowtide.passes.support.problem.matrix_layouts import a_is_mk, k_is_contiguous
from lowtide.passes.support.problem.problem import Problem
from lowtide.passes.support.streams.operand_loads import LDMATRIX_BITS
from lowtide.targets import Target, types_of_atom


@dataclass(frozen=True)
class WarpTile:
    """A tile for warps that copy and multiply: extents, K of a step, atoms, stages."""

    tile: Extents2
    k: int
    atoms: Extents3
    stages: int


def _tiles(text: str) -> tuple[WarpTile, ...]:
    """The tiles of a text like `128x256x64 by 2x4 in 3`: M, N and K of a step, atoms along M and N, stages."""
    numbers = [list(map(int, re.findall(r"\d+", entry))) for entry in text.split(",")]
    return tuple(WarpTile((m, n), k, (atoms_m, atoms_n, 1), stages) for m, n, k, atoms_m, atoms_n, stages in numbers)


_HALVES = _tiles(
    "128x256x64 by 2x4 in 3, 128x256x32 by 2x4 in 4, 256x128x32 by 4x2 in 4, 128x128x64 by 2x2 in 3,"
    "128x128x32 by 2x2 in 4, 128x64x64 by 2x2 in 3, 64x128x64 by 2x2 in 3, 64x64x64 by 2x2 in 4, 64x64x32 by 2x2 in 4"
)
# By bits of A's elements. Large tiles reuse operands more, small ones fill the GPU with small problems. FMA atoms have
# 8 × 8 accumulators per thread. An accumulator of f64 takes two registers, so its tiles are smaller. If an SM
# has at most one of them, eight warps hide more latency than four: 1024³ by 128×64 takes 0.94 (nt) and 0.96 (tn) of the
# time (H200).
_COMMON: Mapping[int, tuple[WarpTile, ...]] = MappingProxyType(
    {
        8: tuple(replace(one, k=2 * one.k) for one in _HALVES),
        16: _HALVES,
        32: _tiles(
            "128x128x16 by 16x16 in 3, 128x64x16 by 16x8 in 3, 64x128x16 by 8x16 in 3, 128x64x8 by 16x8 in 4,"
            "64x64x8 by 8x8 in 4"
        ),
        64: _tiles(
            "128x128x16 by 4x2 in 4, 128x64x16 by 2x2 in 4, 64x128x16 by 2x2 in 4, 64x64x16 by 2x2 in 4,"
            "32x64x16 by 1x2 in 4, 128x64x16 by 4x2 in 4"
        ),
    }
)
# If fragments of A or B are loaded in pairs of rows, and the mma has a K of 4, two CTAs per SM with smaller tiles were
# faster (H200, 4096³). With a K of 8, 128×128 takes 0.96 to 0.98 of the time of 128×64 there. But in 1.7 waves
# (128×28672×4096) it takes 1.28 of the time of cuBLASLt, whose tile is 64×64, in nt, and 1.06 of the time of 64×64 with
# a K of 8 in tn.
_LONGER_ATOM, _WAVES_OF_LARGE, _FULL = "mma.m16n8k8", 4, 0.9
_COMMON_OF_ROWS: Mapping[int, tuple[WarpTile, ...]] = MappingProxyType({64: _COMMON[64][1:]})
# With several full operands a thread holds as many elements of each as of D: eight warps share them.
_COMMON_BESIDE_OPERANDS = MappingProxyType({64: _tiles("64x64x16 by 2x4 in 4, 32x64x16 by 1x4 in 4")})
# Elements of 32 bits, by tensor cores.
_COMMON_OF_WORDS = tuple(replace(one, k=one.k // 2) for one in _HALVES)
# FMA atoms: if A or B is copied asynchronously, enough registers are left for longer K steps. With these, fewer
# instructions are issued beside FMAs: 4096³ takes 0.99 (nn, tt) and 0.98 (nt) of the time of steps of 16 (H200).
_LONG_STEP = _tiles("128x128x32 by 16x16 in 3")[0]
# If bytes do not lie along K, they are loaded one by one and packed in registers. Large tiles leave no registers for
# that. Nor do they for 8-bit floats, with the sums of a K step, and as f16, in which sm_90 multiplies them.
_COMMON_OF_LONE_BYTES = _tiles("128x128x64 by 2x4 in 4, 64x128x64 by 2x4 in 4, 64x64x64 by 2x2 in 4")
# Copies of 16-bit elements through registers hold a step's elements beside the accumulators: eight warps share them.
_COMMON_BESIDE_COPIES = _tiles("128x128x32 by 2x4 in 3, 64x128x32 by 2x4 in 3, 64x64x32 by 2x2 in 4")

# Packed weights. Each tile along M, and each warp along M, converts them again. Threads hold the sums of a K step
# beside all sums: 128 rows, or 64 with four warps, leave too few registers.
DEPTH_OF_WEIGHTS, _FEW_ROWS, _MOST_WARPS, _COPY_BYTES = 128, 16, 8, 16
_OF_WEIGHTS = _tiles("32x128x128 by 1x4 in 4, 64x128x128 by 1x8 in 3")

# Other warps, or threads of FMA atoms, if the common ones do not divide the tile or cannot share its copies.
_WARPS_M_N = ((2, 4), (4, 2), (2, 2), (4, 1), (1, 4), (2, 1), (1, 2), (1, 1))
_THREADS_M_N = ((16, 16), (16, 8), (8, 16), (8, 8), (8, 4))
_FMA_BITS = 32  # operands of so many bits may be multiplied by no tensor core


def common(given: Schedule, problem: Problem, target: Target) -> tuple[WarpTile, ...]:
    """The tiles for warps that suit the types, the layout and the copies."""
    bits = element_type(problem.a).bits
    found = _COMMON[bits] if _takes_large(problem, target) else _COMMON_OF_ROWS.get(bits, _COMMON[bits])
    if problem.kinds.count(OperandKind.full) > 1:
        found = _COMMON_BESIDE_OPERANDS.get(bits, found)
    if bits == LDMATRIX_BITS and not {given.mainloop.a.copy, given.mainloop.b.copy}.isdisjoint(STAGED_COPIES):
        found = _COMMON_BESIDE_COPIES
    if bits < LDMATRIX_BITS and (element_type(problem.a).is_float or not k_is_contiguous(problem.layout)):
        found = _COMMON_OF_LONE_BYTES
    if problem.weights:
        found = _of_weights(problem, target)
    if bits != _FMA_BITS:
        return found
    return of_long_steps(problem, target) + found if multiplies_by_fma(given, problem, target) else _COMMON_OF_WORDS


def _takes_large(problem: Problem, target: Target) -> bool:
    """Whether the largest tile is a candidate. For mma.sync of f64, this depends on the layout, and on how full its
    waves are."""
    types = types_of_atom(problem.acc, problem.a, problem.b)
    has_longer = f"{_LONGER_ATOM}.{types}" in target.mma_atoms
    waves = (problem.tiles(_COMMON[element_type(problem.a).bits][0].tile) or 0) / target.sm_count
    if pairs_rows(problem):
        return has_longer and not a_is_mk(problem.layout) and waves >= _WAVES_OF_LARGE
    return not has_longer or not 1 < waves < _WAVES_OF_LARGE or waves >= _FULL * ceil(waves)


def of_long_steps(problem: Problem, target: Target) -> tuple[WarpTile, ...]:
    """For FMA atoms: a tile with long K steps, if two of its CTAs fit on an SM. In tn both operands pass through
    registers, and copies that may end within a tile need registers, too: in both cases the kernel would spill."""
    one, bits = _LONG_STEP, element_type(problem.a).bits
    extents = zip((problem.m, problem.n, problem.k), (*one.tile, one.k), strict=True)
    if problem.layout is GemmLayout.tn or not problem.is_plain or any(e is None or e % side for e, side in extents):
        return ()
    ring = one.stages * one.k * sum(one.tile) * bits // 8
    return (one,) if target.ctas_per_sm(prod(one.atoms), ring) >= SHARING_CTAS else ()


def uncommon(given: Schedule, problem: Problem, target: Target) -> tuple[WarpTile, ...]:
    """Given extents, or those of the common tiles, with other warps and fewer stages."""
    own = common(given, problem, target)
    counts = _THREADS_M_N if multiplies_by_fma(given, problem, target) else _WARPS_M_N
    shapes = dict.fromkeys((given.grid.tile or one.tile, given.mainloop.k or one.k) for one in own)
    return tuple(WarpTile(*shape, (*each, 1), stages) for stages in (3, 2) for each in counts for shape in shapes)


def _of_weights(problem: Problem, target: Target) -> tuple[WarpTile, ...]:
    """The tile with as many rows as A has, up to 64, so that weights are converted once. With few rows, as many warps
    as can share the copies of A, each with 16 columns, or with 32 for short groups, whose bytes fewer threads share."""
    k = problem.group or DEPTH_OF_WEIGHTS
    if problem.m is not None and problem.m <= _FEW_ROWS:
        warps = min(_MOST_WARPS, k // _FEW_ROWS)
        columns = _FEW_ROWS * (1 if k > WEIGHT_BLOCK else 2)
        return (WarpTile((_FEW_ROWS, columns * warps), k, (1, warps, 1), 4),)
    most = _OF_WEIGHTS[-1]
    found = next((one for one in _OF_WEIGHTS if (problem.m or most.tile[0]) <= one.tile[0]), most)
    if target.warp_size * prod(found.atoms) * _COPY_BYTES > found.tile[1] * k // 2:  # bytes of weights of 4 bits
        found = replace(found, atoms=(1, 4, 1))
    return (replace(found, k=k),)


@dataclass(frozen=True)
class Splits:
    """Tiles for warps, whose `k` is in bits, and how many parts and CTAs of an SM they are split into.

    `beside_operands`: the registers of a thread that sums may take if the epilogue also reads operands; if several of
    them are full. `worth`: a split is chosen if it takes less than this share of the cycles of whole tiles, by the
    estimate.
    """

    tiles: tuple[WarpTile, ...]
    most_parts: int
    most_ctas: int
    most_threads: int
    beside_operands: tuple[int, int]
    worth: float


# Measured on an H100 (tn, µs): f64 384×3072×2048 takes 115 in whole tiles of 64×64, whose 288 fill 2.2 waves of 132
# SMs, and 94 in three parts; f64 640×640×4096 takes 86, and 72 in five parts of 64×128; f32 256×256×8192 takes 50 in 16
# parts of 64×64, and 44 in 32 of 128×128, whose eight warps add more sums at a time.
SPLITS_OF_THREADS = Splits(
    _tiles("128x128x512 by 16x16 in 3, 128x64x512 by 16x8 in 3, 128x64x256 by 16x8 in 4, 64x64x256 by 8x8 in 4"),
    most_parts=32,
    most_ctas=8,
    most_threads=2048,
    beside_operands=(64, 64),
    worth=0.8,
)
# The tile for even shares of K steps, and the CTAs on an SM, whose registers limit those of a thread.
# Times of f32 on an H200 in µs, in whole tiles and in even shares: with 224 tiles (128×28672×4096) nt 685 and 579, tn
# 732 and 625; with 1,024 tiles (4096³) nn 2747 and 2784.
SHARED_BY_THREADS, SHARING_CTAS = _tiles("128x128x16 by 16x16 in 3")[0], 2
# Tensor cores, by the bits of a sum; none for sums shorter than f32. Of two equal tiles, the one with eight warps
# leaves each thread more registers for operands of the epilogue.
SPLITS: Mapping[int, Splits] = MappingProxyType(
    {
        32: Splits(
            _tiles("128x128x512 by 2x4 in 4, 64x64x1024 by 2x4 in 4"),
            most_parts=16,
            most_ctas=4,
            most_threads=512,
            beside_operands=(64, 64),
            worth=0.75,
        ),
        64: Splits(
            _tiles("64x128x1024 by 2x4 in 4, 64x64x1024 by 2x4 in 4, 64x64x1024 by 2x2 in 4"),
            most_parts=16,
            most_ctas=8,
            most_threads=2048,
            beside_operands=(64, 32),
            worth=0.93,
        ),
    }
)
NO_SPLITS = Splits((), most_parts=1, most_ctas=0, most_threads=0, beside_operands=(0, 0), worth=0.0)

# With a producer: rows of a CTA tile and the consumers that multiply, with the largest N whose accumulators fit.
# Multiples of 8 up to that N are candidates: the cheapest is the one that fills the last wave. With four or more
# consumers each has 64 rows.
ROWS: tuple[tuple[int, Agents, int], ...] = (
    (256, cooperative(2), 192),
    (192, cooperative(3), 200),
    (128, cooperative(2), 256),
    (64, cooperative(1), 256),
    (128, pingpong(2), 192),
    (64, pingpong(2), 256),
)
# Without a producer, for few rows: small tiles. Three of their CTAs fit on an SM, so a wave has three times as many
# CTAs, and few SMs are idle in the last wave. µs on an H200, bf16 tt, and those of the best wgmma tile: 3×43008×5376
# 106.0 and 115.2; 1×28672×4096 55.8 and 59.1; 1×65536×5120 153.8 (with 64 columns) and 167.7.
FEW_ROWS = tuple(
    WarpTile((few_rows.ROWS, columns), few_rows.DEPTH, (1, 4, 1), few_rows.stages_of(columns)) for columns in (64, 128)
)
NARROWEST, N_STEP = 64, 8
ANY_WIDTH = range(N_STEP, 257, N_STEP)  # if D lies by columns
DEPTH_BITS = 1024  # K of a step: rows of 128 bytes
# For products of pieces, whose sums are promoted after each step. Two stages of 64 elements of tf32 were faster than
# four of 32 (H200, 4096³ by tf32x3, 256×128: 1314 and 1548 µs; by bf16x6 1345 and 1733 µs).
DEPTH_BITS_OF_PIECES = 2048
CLUSTERS: tuple[Extents2, ...] = ((2, 1), (1, 2), (2, 2), (4, 1), (1, 4))  # to choose among
# The same if rows do not start on sectors of L2: each load takes more requests (97×2984×1952 tt, H200: 64×64 in
# clusters of [4, 2] 7.5 µs, of [2, 2] 8.0, without 9.0).
CLUSTERS_OFF_SECTORS: tuple[Extents2, ...] = (*CLUSTERS, (4, 2), (2, 4))

# If K is divided: columns of tiles, and parts.
DIVIDED_COLUMNS = range(64, 257, 32)
PARTS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 16)
