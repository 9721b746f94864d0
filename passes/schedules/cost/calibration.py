"""Measured constants of the estimate: a record for each kind of agents, in cycles of one SM unless a field says so."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from types import MappingProxyType

from lowtide.dialects.tile.division import Adder
from lowtide.dialects.tile.schedule import Schedule
from lowtide.passes.schedules.facts.resources import runs_ahead


@dataclass(frozen=True)
class Calibration:
    """The time of a grid in addition to its products and loads, and how these two delay each other."""

    launch: float = 0  # for a grid: the launch, and the end of the last CTA
    first: float = 0  # for the first tile of a CTA, if the waits of other tiles are hidden and its own are not
    tile: float = 0  # for a tile in addition to its K steps: fill and epilogue
    step: float = 0  # for a K step in addition to its products
    sharpness: float = inf  # products and loads of a K step hide each other up to a part: see `traffic.larger`
    is_even: bool = False  # the SMs share the CTAs of a wave evenly; if not, the SM with most CTAs ends it
    idle_gain: float = 0  # the power that idle SMs save in the last wave speeds up the others
    by_l2: float = 0  # slowdown at the power limit, by L2 traffic: (M + N) / (M · N) per step
    by_shared_memory: float = 0  # likewise, by the shared memory traffic of wgmmas: (64 + N) / (64 · N)
    saturation: float = 0  # times the share of busy SMs, at most 1: how close requests to L2 come to their limit
    shared_sectors: float = 0  # for a tile whose rows of D are no multiple of 32 bytes: it shares sectors with another
    narrow_part: float = 0  # for a tile with a part of the epilogue that is narrower than the others
    tall: float = 0  # for a tile of two blocks of 64 rows per warpgroup: it starts and ends later
    exchange: float = 0  # for a tile whose K is divided: semaphores, and the wait for the other parts
    exchanged_per_cycle: float = inf  # bytes of partial sums
    per_warp: bool = False  # `exchanged_per_cycle` is that of each warp
    by_shares: bool = False  # each part adds its share of the sums, written and read once; else part 0 adds all


# Calibrated on an H200 (docs/performance.md): the time of the wgmmas, scaled up by the bytes per flop of a tile (the
# GPU runs at its power limit, and L2 traffic costs power), in whole waves of CTAs. Shared sectors: at 300×4096×4096
# 64×168 takes 4 % longer than 64×176, at 2944³ 128×184 8 % longer than 128×176.
COOPERATIVE = Calibration(
    launch=3000,
    tile=2000,
    idle_gain=0.4,
    by_l2=14.3,
    by_shared_memory=5.0,
    saturation=1.5,
    shared_sectors=500,
    narrow_part=150,
    tall=3000,
)
# One consumer stores its tile while the next multiplies; the epilogue of the last tile is not hidden.
PINGPONG = replace(COOPERATIVE, first=2000, tile=500, narrow_part=0, tall=0)
PINGPONG_OF_BATCH = replace(PINGPONG, tile=400)

# Whole tiles are too few, and power is unused. Measured on an H200 (bf16, tn; µs at 1.755 GHz). Whole tiles: 23.8
# (256×256×8192), 45.8 (512×512×16384), 26.2 (1024×512×8192), 12.7 (512×512×4096) and 12.9 (64×4096×4096), all 64×64.
# Divided: 18.5 (512×512×16384, 128×128 in 8 parts), 20.4 (64×128 in 4), 21.8 (128×256 in 16), 17.8 (1024×512×8192,
# 128×128 in 4), 6.5 (256×256×8192, 64×64 in 8), 6.8 (64×128 in 16); 7.7 (512×512×4096, 64×128 in 4), 8.6 (64×64 in 2),
# 9.1 (128×128 in 8); 12.3 (64×4096×4096, 64×64 in 2). The estimate is within 10 % of most of these, and of those in
# benchmarks/calibration_shapes.txt.
DIVIDED = Calibration(exchange=5000, exchanged_per_cycle=16.5, by_shares=True)
# A narrow tile gets nearly all its bytes from memory, and that limits an SM. Measured on an H200 (bf16 tn; µs of Dᵀ in
# whole tiles, and split in two parts; scatter is up to 5 % slower): 12.7 and 11.1 (16×4096×4096), 13.1 and 11.5
# (32×4096×4096), 38.8 and 32.1 (16×4096×14336). In more parts: 7.0 (16×2048×4096, 4), 5.1 (16×1024×4096, 8), 5.4 and
# 5.3 (16×512×8192, 8 and 16), 11.7 (32×2048×8192, 4). The estimate is within 10 % of most.
DIVIDED_NARROW = Calibration(exchange=4500, exchanged_per_cycle=33)

# Warps that copy and multiply. Splits of K, measured on an H200 (mma.sync, bf16 tn): 512×512×16384 in 30.4 µs by
# 128×128 in 8 parts and 34.3 by 64×64 in 4, in place of 69.1; 256×256×8192 in 9.3 by 64×64 in 8 and 12.6 in 16, in
# place of 35.1.
WARPS = Calibration(tile=2000, is_even=True, exchange=2500, exchanged_per_cycle=30)
# Warps whose atom has `hiding_warps`. Measured on an H100, tn, µs in whole tiles and in the chosen splits: f64,
# 512×512×8192 in 170 and 81, 256×256×8192 in 168 and 29, 768×768×3072, which has 144 tiles of 64×64 for 132 SMs, in 113
# and 80; f32, 512×512×8192 in 627 and 109, 256×256×8192 in 645 and 44, 64×2048×4096 in 231 and 41. For 27 problems with
# 544 kernels, the chosen kernel is within 6 % of the fastest, except for four of f64, which are within 14 %.
WAITING_WARPS = Calibration(tile=2000, step=60, sharpness=4, exchange=2500, exchanged_per_cycle=8, per_warp=True)

# For a tile of the last wave whose K several CTAs share: one of them adds all sums, or each adds its share of the
# columns. With scales of blocks on an H200, shares take 0.97 of the time of whole tiles at 4096×4096×4096, 1.00 with
# K = 3072, and 1.03 with K = 2048. With K = 7168 they take 3.4 µs less than one CTA that adds all.
EXCHANGE_OF_TAIL: Mapping[Adder, float] = MappingProxyType({Adder.first: 16000, Adder.each: 9000})

MOST_NARROW = 32  # columns


def of_warps(schedule: Schedule, hiding_warps: float | None) -> Calibration:
    """The record of warps that copy and multiply. With `prologue = once`, first loads of a tile hide behind stores."""
    found = WARPS if hiding_warps is None else WAITING_WARPS
    return replace(found, first=2000, tile=1000) if runs_ahead(schedule) else found
