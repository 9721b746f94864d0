"""The estimated time of wgmma tiles whose sums are promoted or whose operands are converted, for many grids at once.

A grid runs in waves of the CTAs or clusters that fit on the GPU at once. A K step of a CTA takes as long as its
products or its loads, whichever take longer. The constants for each kind of agents are in `calibration.py`. `Product`
gives the extents, which may be arrays; the types come from the problem, which is the same for all grids.
"""

from functools import cached_property
from typing import NamedTuple

import numpy as np

from lowtide.dialects.tile.division import Adder, KDivision
from lowtide.elements import SCALE_BLOCK, element_type
from lowtide.passes.schedules.cost.calibration import (
    COOPERATIVE,
    DIVIDED,
    DIVIDED_NARROW,
    EXCHANGE_OF_TAIL,
    MOST_NARROW,
    PINGPONG,
    PINGPONG_OF_BATCH,
)
from lowtide.passes.schedules.cost.grids import LINE_BYTES, SECTOR_BYTES, Grids, Numbers, Product, tiles_of
from lowtide.passes.schedules.cost.traffic import clusters_at_once
from lowtide.passes.schedules.facts.resources import WIDE_SCALED
from lowtide.passes.support.agents.clusters import OPERANDS
from lowtide.passes.support.problem.problem import Problem
from lowtide.targets import Target
from lowtide.targets.atoms import WGMMA_ROWS

_CLUSTER_OVERHEAD = 200  # cycles: the barriers at both ends
_WGMMA_BITS_PER_CYCLE = 2048 * 16  # multiply-adds of wgmma per SM, times the bits of an operand
_THREE_CONSUMERS = 1.03  # factor for tiles of three consumers: they are chosen only if they gain more than 3 %
# Slowdown of products whose sums are promoted. If one consumer multiplies at a time, tensor cores are idle while it
# adds. If a consumer has several blocks of rows, it waits for each. Measured on an H200 (e4m3, 8192³): 892 TFLOP/s by
# 128×128 in turns, 1191 by 256×128, and 1273 by 128×192.
_PROMOTED_ALONE, _PROMOTED_BLOCKS = 1.5, 1.12
# Products of pieces have longer steps. Then several blocks of rows for a consumer are better than one: 1314 µs by
# 256×128 and 1542 by 128×176 (tf32x3, 4096³).
_PROMOTED_PIECES = 1.2
# With scales and tiles that are not wide, sums and scales take more of a K step: 1110 and 1034 TFLOP/s by 128×128, 1229
# and 1077 by 128×192 (8192³, 4096×7168×2048).
_SCALED_NARROW = 1.08
_SCALED_PARTS = 0.015  # for each scale of columns that a thread loads in a K step

# Limits of grids of few rows, which do not reach the power limit, calibrated on benchmarks/calibration_shapes.txt.
_BYTES_PER_CYCLE = 62  # that an SM receives from L2
# Bytes that all SMs receive from memory, and those that one SM receives of an operand whose parts only one SM reads.
_MEMORY_BYTES_PER_CYCLE, _MEMORY_BYTES_OF_SM = 2500, 30
_SHARPNESS = 6  # loads from L2 and from memory hide each other up to a part
# Rows of TMA boxes that lie outside of A or B take time: all SMs together get this many of them per cycle, and nothing
# else meanwhile. 64×64 takes 17.7 µs at 100×4096×4096 and 14.0 at 128×4096×4096; 128×64 26.3 at M = 200, 17.2 at 256.
_EMPTY_ROWS_PER_CYCLE = 18
_UNALIGNED_WEIGHT = 2.0  # for an operand whose rows do not start on L2 lines: each row of a box touches two lines
# If rows do not start on sectors of L2, requests to L2 limit all SMs together. Cycles per SM for 128 bytes of a TMA
# load of such rows, and of other rows. Measured on an H200 (bf16, tn, without clusters and in pairs of CTAs): 1000³,
# 2056³, 4096×4104×4104, 8200³, 4096×4096×1000, 1000×8000×1000. A load for several CTAs is one request.
_CYCLES_PER_REQUEST, _OF_ALIGNED = 5.1, 2.6


class Tail(NamedTuple):
    """The last wave: `parts` CTAs share each tile. They compute halves of its rows, or parts of its K and then
    `exchange` the sums in so many cycles."""

    parts: Numbers
    exchange: Numbers = 0.0
    halves: Numbers = False


WHOLE = Tail(1.0)


def _halves(chosen: np.ndarray) -> Tail:
    return Tail(np.where(chosen, 2.0, 1.0), halves=chosen)


class Waves:
    """Grids of one product, or of a product of arrays with an entry for each grid."""

    def __init__(self, grids: Grids, product: Product, problem: Problem, target: Target) -> None:
        self.grids, self.product, self.problem, self.target = grids, product, problem, target
        self.of_rows, self.of_columns = tiles_of(grids, product)
        self.clusters = self.of_rows * self.of_columns / grids.cluster * product.batch * grids.parts
        most = int(grids.cluster.max(initial=1))
        at_once = np.array([clusters_at_once(max(1, size), target) for size in range(most + 1)], dtype=float)
        self.at_once = at_once[grids.cluster.astype(int)]
        self.full = np.floor(self.clusters / self.at_once)
        self.over = self.clusters - self.full * self.at_once
        narrow = problem.d_is_column_major and (problem.n is not None) & (np.asarray(product.n) <= MOST_NARROW)
        self._kind = np.where(grids.parts > 1, np.where(narrow, 3, 2), np.where(grids.turns > 1, 1, 0))

    def cycles(self, tail: Tail = WHOLE) -> np.ndarray:
        """Estimated cycles from launch to end, with such a last wave."""
        grids = self.grids
        busy = np.minimum(1.0, self.clusters * grids.cluster / self.target.sm_count)
        saturated = np.minimum(1.0, self._constant("saturation") * busy)
        exchange = self._exchange
        tile = self._tile(grids.rows, saturated, grids.parts) + exchange
        last = self._last(tail, saturated, exchange)
        idle = 1 - self._constant("idle_gain") * (1 - tail.parts * self.over / self.at_once)
        total = self.full * tile + np.where(self.over > 0, idle * last, 0)
        total += self._constant("first") + np.where(grids.cluster > 1, _CLUSTER_OVERHEAD, 0)
        return np.maximum(total, self._loads) + self._constant("launch")

    def as_said(self) -> np.ndarray:
        """Estimated cycles, with the last wave in halves if a grid says so and they are legal."""
        return self.cycles(_halves(self.may_be_halved() & (self.grids.halves > 0)))

    def cheapest(self, box: int) -> np.ndarray:
        """Estimated cycles, with the last wave in whole tiles, in halves or, if scales act in the sum, in parts of K:
        whichever takes the least. Each part of K stores a share of the columns if that is whole boxes of `box` columns,
        else one part stores all. All extents must be known."""
        found = np.minimum(self.cycles(), self.cycles(_halves(self.may_be_halved())))
        if not self.problem.is_scaled:
            return found
        has_tail = (self.full > 0) & (self.over > 0) & (self.grids.turns == 1) & (self.grids.parts == 1)
        parts = np.minimum(np.floor(self.at_once / np.maximum(1, self.over)), self._steps(1))
        parts = np.where(has_tail, parts, 1.0)
        shares = np.ones(len(self.grids))
        for count in range(2, int(self.grids.columns.max(initial=0)) // box + 1):
            shares = np.where((count <= parts) & (self.grids.columns % (count * box) == 0), count, shares)
        for each, adder in ((parts, Adder.first), (shares, Adder.each)):
            divided = self.cycles(Tail(each, EXCHANGE_OF_TAIL[adder]))
            found = np.where(each > 1, np.minimum(found, divided), found)
        return found

    def may_be_halved(self) -> np.ndarray:
        """Whether halves of a last wave after full waves are legal, and all run at once."""
        grids = self.grids
        found = (self.full > 0) & (self.over > 0) & (2 * self.over <= self.at_once)
        found &= (grids.turns == 1) & (grids.parts == 1)
        return np.asarray(found & (grids.rows % (2 * WGMMA_ROWS * grids.warpgroups) == 0))

    def _constant(self, name: str) -> np.ndarray:
        in_turn = PINGPONG_OF_BATCH if self.problem.is_batched else PINGPONG
        records = (COOPERATIVE, in_turn, DIVIDED, DIVIDED_NARROW)
        return np.array([getattr(each, name) for each in records], dtype=float)[self._kind]

    def _steps(self, parts: Numbers) -> np.ndarray:
        return np.asarray(np.ceil(np.ceil(self.product.k / self.grids.depth) / parts))

    @cached_property
    def _exchange(self) -> np.ndarray:
        """The additional cycles of a tile whose K is divided."""
        grids = self.grids
        sums = grids.rows * grids.columns * element_type(self.problem.acc).bits // 8
        moved = np.where(self._constant("by_shares") > 0, 2 * sums, (grids.parts - 1) * sums)
        exchange = self._constant("exchange") + moved / self._constant("exchanged_per_cycle")
        return np.where(grids.parts > 1, exchange, 0)

    def _last(self, tail: Tail, saturated: np.ndarray, exchange: np.ndarray) -> np.ndarray:
        """The cycles of a tile of the last wave."""
        grids = self.grids
        halves = np.asarray(tail.halves) & np.full(len(grids), True)
        rows = np.where(halves, grids.rows // 2, grids.rows)  # slots have the size of a whole tile
        of_k = np.where(halves, 1, tail.parts) * grids.parts
        found = self._tile(rows, np.where(halves, 1.0, saturated), of_k)
        found += np.where(halves, self._constant("tall"), 0)
        return found + np.where(halves | (np.asarray(tail.parts) > 1), tail.exchange, exchange)

    def _tile(self, rows: np.ndarray, saturated: np.ndarray, parts: Numbers) -> np.ndarray:
        """The cycles of a tile with so many rows, or of one of `parts` parts of its K."""
        grids, problem = self.grids, self.problem
        several = np.where(grids.warpgroups > 2, _THREE_CONSUMERS, 1.0)
        slowdown = 1 + self._constant("by_l2") * self._per_product(rows)
        slowdown += self._constant("by_shared_memory") * (1 / WGMMA_ROWS + 1 / grids.columns)
        of_one = rows * grids.columns * grids.depth * element_type(problem.a).bits / _WGMMA_BITS_PER_CYCLE
        products = of_one * self._promotion(rows) * slowdown * several
        loads = saturated * self._request_cycles(rows) * several
        beside = self._constant("tile") + np.where(grids.columns % 64 > 0, self._constant("narrow_part"), 0)
        beside += np.where(rows > WGMMA_ROWS * grids.warpgroups, self._constant("tall"), 0)
        row_of_d = grids.columns * element_type(problem.d).bits // 8
        beside += np.where(row_of_d % SECTOR_BYTES > 0, self._constant("shared_sectors"), 0)
        return np.asarray(self._steps(parts) * np.maximum(products, loads) + beside)

    def _promotion(self, rows: np.ndarray) -> np.ndarray:
        """How much longer wgmmas take because their sums are promoted."""
        problem, columns, sharing = self.problem, self.grids.columns, self.grids.warpgroups
        if not problem.promotes:
            return np.ones(len(self.grids))
        # A tile may begin anywhere in a block of columns. Each part that is always within one block has one scale.
        scaled = np.ones(len(self.grids))
        if problem.is_scaled:
            scaled += _SCALED_PARTS * (columns // np.gcd(columns.astype(int), SCALE_BLOCK))
            is_wide = (rows == WGMMA_ROWS * sharing) & (columns % 16 == 0) & (columns >= WIDE_SCALED)
            scaled *= np.where(is_wide, 1.0, _SCALED_NARROW)
        has_blocks = rows > WGMMA_ROWS * sharing
        if problem.decomposition is not None:
            shared = np.where(has_blocks, 1.0, _PROMOTED_PIECES)
        else:
            shared = np.where(has_blocks, _PROMOTED_BLOCKS, 1.0) * scaled
        return np.where(sharing == 1, _PROMOTED_ALONE * scaled, shared)

    @property
    def _sharers(self) -> tuple[np.ndarray, np.ndarray]:
        """The CTAs of a cluster that take the same tile of A, and of B."""
        return self.grids.cluster_columns, self.grids.cluster_rows

    def _per_product(self, rows: np.ndarray) -> np.ndarray:
        """Elements of A and B that a step loads for each multiply-add: 1 / N and 1 / M. If the rows of an operand do
        not start on L2 lines, its elements cost more. CTAs that share a load share this additional cost."""
        of_a, of_b = (
            np.where(np.mod(size, LINE_BYTES) == 0, 1.0, 1 + (_UNALIGNED_WEIGHT - 1) / sharers)
            for size, sharers in zip(self.product.row_bytes, self._sharers, strict=True)
        )
        return np.asarray(of_a / self.grids.columns + of_b / rows)

    def _request_cycles(self, rows: np.ndarray) -> np.ndarray:
        """The least cycles of a step's loads if all SMs make such requests to L2; 0 if rows start on sectors."""
        found, on_sectors = np.zeros(len(self.grids)), np.full(len(self.grids), True)
        sides = (rows, self.grids.columns)
        for name, size, side, sharers in zip(OPERANDS, self.product.row_bytes, sides, self._sharers, strict=True):
            lines = side * self.grids.depth * self._bytes_of(name) / LINE_BYTES
            is_aligned = np.mod(size, SECTOR_BYTES) == 0
            found += lines / sharers * np.where(is_aligned, _OF_ALIGNED, _CYCLES_PER_REQUEST)
            on_sectors &= is_aligned
        return np.where(on_sectors, 0.0, found)

    @cached_property
    def _loads(self) -> np.ndarray:
        """The least cycles of the grid: bytes from L2 and rows of boxes outside of A or B; or, if that takes longer, A
        and B from memory."""
        grids, product = self.grids, self.product
        bytes_a, bytes_b = (self._bytes_of(name) for name in OPERANDS)
        first = self._constant("first")
        steps = np.ceil(self.clusters / self.at_once) * self._steps(grids.parts)
        of_a = np.minimum(grids.rows, product.m) * grids.depth * bytes_a
        of_b = np.minimum(grids.columns, product.n) * grids.depth * bytes_b
        read_once = of_a * (self.of_columns == 1) + of_b * (self.of_rows == 1)
        sharers_a, sharers_b = self._sharers
        empty = (self.of_rows * grids.rows - product.m) * self.of_columns / sharers_a
        empty += (self.of_columns * grids.columns - product.n) * self.of_rows / sharers_b
        empty *= np.ceil(product.k / grids.depth) * product.batch
        from_memory = (product.m * bytes_a + product.n * bytes_b) * product.k * product.batch
        of_l2 = steps * (of_a + of_b) / _BYTES_PER_CYCLE + empty / _EMPTY_ROWS_PER_CYCLE
        of_memory = np.maximum(from_memory / _MEMORY_BYTES_PER_CYCLE, steps * read_once / _MEMORY_BYTES_OF_SM)
        found = (of_l2**_SHARPNESS + of_memory**_SHARPNESS) ** (1 / _SHARPNESS)
        return np.asarray(found + np.where(first > 0, first, self._constant("tile")) + self._exchange)

    def _bytes_of(self, operand: str) -> float:
        """Bytes of an element of an operand in memory."""
        return element_type(self.problem.stream(operand).element).bits / 8


def reads_of_larger(grids: Grids, product: Product) -> np.ndarray:
    """How many clusters read each part of the larger operand: along M for B, along N for A. At 256×4096×4096 128×64
    takes up to 7 % less time than 64×128; at 1024³ 64×128 takes 2 % less (H200)."""
    along_m = np.ceil(product.m / (grids.rows * grids.cluster_rows))
    along_n = np.ceil(product.n / (grids.columns * grids.cluster_columns))
    return np.where(np.asarray(product.m) < np.asarray(product.n), along_m, along_n)


def of_division(division: KDivision) -> Tail:
    """The last wave if K of its tiles is divided."""
    return Tail(float(division.parts), EXCHANGE_OF_TAIL[division.adder])
