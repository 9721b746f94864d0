"""The estimated time of few rows by warps that copy and multiply, in cycles of one SM at its highest clock.

The loads of the weights from memory take most of the time. CTAs are small: three fit on an SM, and a wave ends at about
the same time on all SMs. A wave takes as long as its bytes take from memory. If it has few CTAs, it takes as long as
the loads of one CTA, which the latency and the size of the ring limit.

The constants are fitted to 18 kernels of nine products of 1 to 9 rows, and to 4 kernels of two products of 17 and 29
rows in tiles of 32 rows (bf16, tn and tt, H200). The root mean square of the errors is 2.3 %, the largest 5 %. The unit
is that of `wgmma.py`, so that the two estimates can be compared.
"""

from typing import NamedTuple

import numpy as np

from lowtide.passes.schedules.cost.grids import SECTOR_BYTES, Grids, Numbers, Product, tiles_of
from lowtide.passes.schedules.cost.wgmma import either, is_large_off_k
from lowtide.targets import Target
from lowtide.targets.atoms import WGMMA_ROWS

ROWS = 16  # of a tile, and of an mma.sync
CTAS_PER_SM = 3
DEPTH = 64  # K of a step: rows of 128 bytes
BITS = 16  # of an element of A and of B

START = 7890.0  # cycles of a grid: its launch, and its first loads
_TILE = 2010  # of a wave: the start and the end of its CTAs
_LATENCY = 2100  # from the request of a stage to its arrival
_OF_A = 0.36  # what a byte of A counts, beside one of B: A comes from L2
# The three factors below are 0.99 of the measured ones: since these were measured, the constants of wgmma were fitted
# again, and tiles by wgmma of such products are estimated to take 0.99 as long.
# If B is K-major, these tiles are slower beside wgmma than the estimates say: for eight products the measured ratio of
# their time to that of wgmma was 1.04 to 1.17 times the estimated ratio, 1.09 times on average, and for two earlier
# products 1.01 and 0.99 times (H200).
_OF_K_MAJOR = 1.06
# If B is not K-major, wgmma is slower beside these tiles than the estimates say: for five products the estimated ratios
# of the times were 1.00 to 1.03, the measured ones 1.08 to 1.11.
_OF_N_MAJOR = 0.96
# The same for products whose constants of wgmma were fitted apart: with them, wgmma is estimated to take 0.94 as long.
_OF_LARGE_OFF_K = 0.90
# If B is not K-major and its rows do not start on sectors of L2, half of the rows of a tile read one sector more: 1.13
# of the bytes with 64 columns, 1.06 with 128. Without this term, eleven kernels with 64 columns took 1.12 of the
# estimated time on average, and five with 128 took 1.09; single kernels took 0.95 to 1.30 (tt, H200).
_OFF_SECTORS = 16
_SHARPNESS = 8  # of `either`, for memory and the latency of loads
_SHARED, _MOST_STAGES = 225 * 1024, 6  # bytes of an SM for rings, and the most stages of one


class Wave(NamedTuple):
    """The cycles of a wave: of its bytes from memory, of the loads of one CTA, and in total."""

    memory: np.ndarray
    arrival: np.ndarray
    total: np.ndarray


class Estimate(NamedTuple):
    """The cycles of a grid, and their parts. `full`: the number of full waves. `over`: the number of CTAs after them.
    `wave`, `last`: a full wave, and the last one."""

    full: np.ndarray
    over: np.ndarray
    wave: Wave
    last: Wave
    epilogue: np.ndarray
    """The cycles of the epilogue of each wave, with the start and the end of its CTAs."""
    total: np.ndarray


def are_low(grids: Grids) -> np.ndarray:
    """Whether tiles have fewer rows than a wgmma: warps copy and multiply them."""
    return np.asarray(grids.rows < WGMMA_ROWS)


def stages_of(columns: int) -> int:
    """The stages of the ring of a tile of 16-bit operands."""
    return int(_stages(np.asarray((ROWS + columns) * DEPTH * BITS // 8)))


def _stages(stage_bytes: Numbers) -> np.ndarray:
    """The most stages with which `CTAS_PER_SM` rings fit on an SM."""
    return np.minimum(_MOST_STAGES, np.floor(_SHARED / CTAS_PER_SM / stage_bytes))


def cycles(grids: Grids, product: Product, target: Target) -> np.ndarray:
    """Estimated cycles of each grid."""
    return estimate_of(grids, product, target).total


def estimate_of(grids: Grids, product: Product, target: Target) -> Estimate:
    """As `cycles`, with the terms."""
    of_rows, of_columns = tiles_of(grids, product)
    ctas = of_rows * of_columns * product.batch
    at_once = float(CTAS_PER_SM * target.sm_count)
    of_a, of_b = (extent * product.k * product.operand_bytes for extent in (product.m, product.n))
    beside = product.m * product.n * (product.result_bytes + product.read_bytes)
    of_b = of_b * (1 + _beside_rows(product) / (grids.columns * product.operand_bytes))
    of_cta = (of_b * of_rows + _OF_A * of_a * of_columns + beside) * product.batch / ctas
    stages = _stages((grids.rows + grids.columns) * grids.depth * product.operand_bytes)
    in_flight = np.maximum(1, stages - 1) * grids.columns * grids.depth * product.operand_bytes
    arrival = of_cta * _LATENCY / in_flight
    work = (product.computed + product.moved + product.awaited) * grids.rows * grids.columns * CTAS_PER_SM
    epilogue = _TILE + work

    def wave(running: np.ndarray) -> Wave:
        memory = of_cta * running / target.memory_bytes_per_cycle
        return Wave(memory, arrival, either(memory, arrival, _SHARPNESS) + epilogue)

    full = np.floor(ctas / at_once)
    over = ctas - full * at_once
    of_all, last = wave(np.full(len(grids), at_once)), wave(over)
    total = (START + full * of_all.total + np.where(over > 0, last.total, 0)) * _beside_wgmma(product)
    return Estimate(full, over, of_all, last, epilogue, total)


def _beside_rows(product: Product) -> np.ndarray:
    """The bytes that are counted for each row of B in a tile, in addition to its own."""
    is_on = np.asarray(product.row_bytes[1]) % SECTOR_BYTES == 0
    return np.where(product.b_is_k_major | is_on, 0, _OFF_SECTORS)


def _beside_wgmma(product: Product) -> np.ndarray:
    of_n_major = np.where(is_large_off_k(product), _OF_LARGE_OFF_K, _OF_N_MAJOR)
    return np.where(product.b_is_k_major, _OF_K_MAJOR, of_n_major)
