"""The estimated time of grids of wgmma tiles, in cycles of one SM at its highest clock, for many grids at once.

A grid runs in waves of CTAs, one on each SM. The time of a K step is the longest of three: its products, its loads from
L2, and the part of the latency of loads that the ring of stages does not hide. The time of a wave is that of its CTAs,
or that of its reads from memory if this is longer; empty rows of boxes and the exchange of partial sums are added. The
time of a grid is that of its waves, or the time at the power limit if this is longer. If two limits are close, the
result is a little above the larger one: see `either`. `benchmarks/calibrate.py` fits the constants to measured kernels.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from lowtide.passes.schedules.cost.clusters import cluster_factor, factor_of_few_shared, waits_for_cluster
from lowtide.passes.schedules.cost.constants import Constants
from lowtide.passes.schedules.cost.grids import (
    LINE_BYTES,
    SECTOR_BYTES,
    Grids,
    Numbers,
    Product,
    is_multiple,
    rows_start_on,
    tiles_of,
)
from lowtide.passes.schedules.cost.rings import (
    MORE_STAGES,
    ONE_STAGE_LESS,
    fit_in_pairs,
    gains_by_stages,
    spares_a_stage,
    stages_of,
)
from lowtide.passes.schedules.cost.waiting import LIMITED, LONG, WAITING, may_wait

_ROWS = 64  # of a wgmma
_SLICE = 32  # bytes of K that a wgmma multiplies
_SHARED_MEMORY = 128  # bytes per cycle and SM
_COLUMNS_PER_CYCLE = 2  # of a wgmma
_MORE_SECTORS = 1 + SECTOR_BYTES / LINE_BYTES
_STORE = 32  # bytes per cycle and SM of a tile's stores, times `Constants.store`
_SUM = 4  # bytes of a partial sum, and of an element of A that threads load to registers
# Such loads: lanes that share a bank, the cycles until the last one has arrived, and the share of all accesses to
# shared memory that takes time. At 512×512×16384 in tt, eight parts of 128×128 by two consumers take 33 µs, and of
# 64×256 by one 37; at 256×8192×1024 they take 16.8 and 20.5, and 128×128 by two that take turns 22 (H200).
_CONFLICTS, _LOADED, _TAKES_TIME = 2, 100, 0.9
# With more sums in a thread, no registers are left to load operands of the epilogue ahead. Then it takes longer by this
# factor (dSwiGLU, 8192×14336×4096, H200).
_MOST_SUMS, _THREADS, _WAITS = 176, 128, 1.8
# The factor by which the epilogue takes longer with one warpgroup, or with one of several that take turns. The share of
# its loads and stores by which it delays the multiplication of another consumer.
_OF_ONE, _COMPETES = 2.0, 0.07
_LAST_SHARPNESS = 2  # of `either`, for the rate of memory in a last wave and that of each of its CTAs


def either(one: np.ndarray, other: np.ndarray, sharpness: Numbers) -> np.ndarray:
    """The larger of two limits, or a little more if they are close; the higher the sharpness, the less."""
    larger, smaller = np.maximum(one, other), np.minimum(one, other)
    return larger * (1 + (smaller / np.maximum(larger, 1e-9)) ** sharpness) ** (1 / sharpness)


class Cta(NamedTuple):
    """The cycles of a CTA for one tile. The first six are of a K step."""

    products: np.ndarray
    tensor: np.ndarray
    """Of these, the wgmmas at full rate. The next: their reads of shared memory."""
    shared: np.ndarray
    loads: np.ndarray
    arrival: np.ndarray
    """The part of the latency of loads that the ring does not hide."""
    of_step: np.ndarray
    """In addition to the longest of these."""
    steps: np.ndarray
    epilogue: np.ndarray
    """Of the whole tile, also if the products of another consumer hide it."""
    longer: np.ndarray
    """The part of the epilogue's work that takes longer than the products of the next tile."""
    total: np.ndarray


class Wave(NamedTuple):
    """The cycles of a wave of CTAs: of each CTA, of their reads from memory, and of all."""

    cta: Cta
    memory: np.ndarray
    total: np.ndarray


class Estimate(NamedTuple):
    """The cycles of a grid, and what they are made of."""

    full: np.ndarray
    """The number of full waves."""
    over: np.ndarray
    """The number of CTAs after them."""
    wave: Wave
    last: Wave
    beside: np.ndarray
    """The launch, and all that is not part of a wave."""
    total: np.ndarray
    waits: np.ndarray
    """Whether the grid should start after the one before it has ended. If only some of its CTAs find room beside that
    grid, they are spread unevenly over the GPU, and so is the rate at which they read memory. If memory limits them,
    that costs more than their early start gains."""


def cycles(grids: Grids, product: Product, found: Constants, sm_count: int, large_clusters: int) -> np.ndarray:
    """Estimated cycles of each grid. `large_clusters`: CTAs that run at once in clusters of more than two."""
    return estimate_of(grids, product, found, sm_count, large_clusters).total


def estimate_of(grids: Grids, product: Product, found: Constants, sm_count: int, large_clusters: int) -> Estimate:
    """As `cycles`, with the terms."""
    at_once = np.where(grids.cluster > 2, float(large_clusters), float(sm_count))
    of_rows, of_columns = tiles_of(grids, product)
    ctas = of_rows * of_columns * grids.parts * product.batch
    busy = np.minimum(ctas, at_once)
    moved = _bytes_of_memory(grids, product, found, of_rows, of_columns, busy)
    fit = fit_in_pairs(grids, product, sm_count)
    of_pair = np.where(fit, found.memory, found.memory_of_pair)
    of_less = spares_a_stage(grids, product, sm_count) & product.a_is_k_major & product.b_is_k_major
    slower = np.where(of_less, ONE_STAGE_LESS, 1.0)
    beside = _exchange(grids, found)
    empty = _empty_rows(grids, product, found, of_rows, of_columns)
    requests = [_requests(each, found) for each in product.row_bytes]
    stored = _stores(grids, product, found)
    shared = np.where((ctas <= at_once) & (grids.turns > 1), found.turns_of_one, grids.turns)
    of_few = factor_of_few_shared(grids, product)
    cta = _cta(grids, product, found, requests, stored, found.least_step / shared, sm_count)

    def wave(running: np.ndarray, parts: np.ndarray, *, is_last: bool) -> Wave:
        """A wave of `running` CTAs. `parts`: CTAs that share the rows of a tile."""
        of_cta = cta(running, parts)
        of_byte = _cycles_per_byte(running, found.memory, of_pair, found.even, sm_count)
        if is_last:  # a few CTAs have one more tile than the others
            of_byte = np.where(full > 0, either(of_byte, np.asarray(1 / found.last_of_cta), _LAST_SHARPNESS), of_byte)
        from_memory = moved / ctas / parts * of_byte * of_few
        total = either(of_cta.total, from_memory, found.memory_sharpness) * slower
        total = total + beside + empty * running / ctas / parts
        if not is_last:  # the mean of the full waves: tiles of the first one do not wait
            total += waits_for_cluster(grids, product, of_cta.steps, sm_count) * (1 - 1 / np.fmax(full, 1))
        return Wave(of_cta, from_memory, total)

    full = np.floor(ctas / at_once)
    over = ctas - full * at_once
    parts = np.where(grids.halves > 0, 2.0, 1.0)
    # Halves of a last wave that is more than half full take two waves.
    last_wave = wave(np.minimum(parts * over, at_once), parts, is_last=True)
    full_wave = wave(at_once, np.ones(len(grids)), is_last=False)
    last = np.ceil(parts * over / at_once) * last_wave.total
    total = of_waves = full * full_wave.total + np.where(over > 0, last, 0)
    total = total + np.where(over > 0, _after_reads(last_wave, grids, found), _after_reads(full_wave, grids, found))
    # Consumers whose epilogues take longer than the products end about together, each with a tile of its own.
    ends = np.where(np.ceil(ctas / at_once) % grids.turns == 0, 1.0, 0.5) * full_wave.cta.longer
    after_turns = stored + sum(_work(grids, product)) - ends
    off_k = is_large_off_k(product)
    of_clusters = np.where(off_k, found.cluster_launch_off_k, found.cluster_launch)
    total = total + np.where(grids.turns > 1, after_turns, 0) + np.where(grids.cluster > 1, of_clusters, 0)
    beside_last = max(0, found.launch - found.launch_beside)
    total += np.where(fit, beside_last, found.launch) + found.launch_of_cta * busy
    limit = _at_power_limit(grids, product, found, requests, moved, sm_count)
    is_limited = last_wave.memory > LIMITED * last_wave.cta.total
    waits = may_wait(grids, product, sm_count) & ~fit & (total > LONG) & is_limited
    whole = either(total, limit, np.where(off_k, found.power_sharpness_off_k, found.power_sharpness))
    whole = whole * cluster_factor(grids, product) * np.where(waits, WAITING, 1.0)
    whole = whole * np.where(gains_by_stages(grids, product, sm_count), MORE_STAGES, 1.0)
    return Estimate(full, over, full_wave, last_wave, total - of_waves, whole, waits)


def _after_reads(wave: Wave, grids: Grids, found: Constants) -> np.ndarray:
    """The cycles by which a grid ends later because the epilogues of its last wave follow the reads from memory. In
    earlier waves the reads of the next tiles go on meanwhile. Consumers that take turns have their own term."""
    cta, memory, sharpness = wave.cta, wave.memory, found.memory_sharpness
    after = found.after_reads * np.where(grids.turns > 1, 0.0, cta.epilogue)
    return either(np.maximum(0, cta.total - after), memory, sharpness) + after - either(cta.total, memory, sharpness)


def may_be_halved(grids: Grids, product: Product, sm_count: int, large_clusters: int) -> np.ndarray:
    """Whether each tile of a last wave after full waves may be computed as two halves: all halves run at once, and a
    half has a multiple of 64 rows for each warpgroup."""
    at_once = np.where(grids.cluster > 2, float(large_clusters), float(sm_count))
    of_rows, of_columns = tiles_of(grids, product)
    ctas = of_rows * of_columns * product.batch
    over = ctas - np.floor(ctas / at_once) * at_once
    found = (ctas > at_once) & (over > 0) & (2 * over <= at_once) & (grids.parts == 1) & (grids.turns == 1)
    return np.asarray(found & is_multiple(grids.rows, 2 * _ROWS * grids.warpgroups))


def _cycles_per_byte(running: np.ndarray, rate: float, of_pair: Numbers, even: float, sm_count: int) -> np.ndarray:
    """The cycles until each of `running` CTAs has received a byte. `even` counts if some pairs of SMs (TPCs) have two
    CTAs and others have one. If it is 0, each pair gets an equal share of the rate: pairs with one CTA end first; then
    the rate of a pair limits the others. If it is 1, each CTA gets an equal share, and all end at the same time."""
    pairs = sm_count / 2
    of_first, of_second = np.minimum(running, pairs), np.maximum(0, running - pairs)
    first = np.maximum(of_first / rate, np.where(running > 0, 1 / of_pair, 0))
    by_pairs = first + np.maximum(of_second / rate, np.where(of_second > 0, 1 / of_pair, 0))
    by_ctas = np.where(of_second > 0, np.maximum(running / rate, 2 / of_pair), first)
    return by_pairs + even * (by_ctas - by_pairs)


def _requests(row_bytes: Numbers, found: Constants) -> np.ndarray:
    """The number of requests to L2 for each line of a box, relative to that of rows that start on lines."""
    off_lines = np.where(is_multiple(row_bytes, SECTOR_BYTES), found.off_lines, found.off_sectors)
    return np.where(is_multiple(row_bytes, LINE_BYTES), 1.0, off_lines)


def is_large_off_k(product: Product) -> np.ndarray:
    """Whether the larger operand is not K-major, the smaller one is, and the rows of both start on lines, such as
    weights beside few rows in tt. The constants of these products were fitted apart. With them, kernels for other
    products that are not K-major did not gain (docs/tried.md)."""
    of_a = np.logical_not(product.a_is_k_major) & product.b_is_k_major & np.asarray(product.m >= product.n)
    of_b = np.logical_not(product.b_is_k_major) & product.a_is_k_major & np.asarray(product.n >= product.m)
    return np.asarray((of_a | of_b) & rows_start_on(LINE_BYTES, product))


def _narrow(side: np.ndarray, is_k_major: "bool | np.ndarray", product: Product, factor: float) -> np.ndarray:
    """`factor`, multiplied once for each time that a line must be halved to give the rows of a box; 1 for a K-major
    operand. The length of these rows is the largest power of two that divides the side of the tile and a line."""
    row = np.gcd((side * product.operand_bytes).astype(int), LINE_BYTES)
    return np.where(is_k_major, 1.0, factor ** np.log2(LINE_BYTES / row))


def _loaded(grids: Grids, product: Product, found: Constants, requests: Sequence[np.ndarray]) -> np.ndarray:
    """The rows of A and B that a CTA loads in a K step on average, each times its requests."""
    of_a, of_b = requests
    clips_a, clips_b = _clips(grids, product)
    of_rows, of_columns = tiles_of(grids, product)
    rows = np.where(clips_a, product.m / of_rows, grids.rows)
    columns = np.where(clips_b, product.n / of_columns, grids.columns)
    of_a = of_a * _narrow(grids.rows, product.a_is_k_major, product, found.narrow_boxes)
    of_b = of_b * _narrow(grids.columns, product.b_is_k_major, product, found.narrow_boxes)
    return rows / grids.cluster_columns * of_a + columns / grids.cluster_rows * of_b


def _received(grids: Grids, product: Product, found: Constants) -> np.ndarray:
    """The cycles in which an SM receives the rows of a K step; 0 without clusters, where the rate of L2 is the limit.
    In a cluster, an SM also receives what other CTAs load for it. If rows do not start on sectors, a line of a box lies
    in one more sector."""
    of_a, of_b = (np.where(is_multiple(row, SECTOR_BYTES), 1.0, _MORE_SECTORS) for row in product.row_bytes)
    of_step = (grids.rows * of_a + grids.columns * of_b) * grids.depth * product.operand_bytes
    return np.where(grids.cluster > 1, of_step / found.received, 0)


def _cta(
    grids: Grids,
    product: Product,
    found: Constants,
    requests: Sequence[np.ndarray],
    stored: np.ndarray,
    least: np.ndarray,
    sm_count: int,
) -> Callable[[np.ndarray, np.ndarray], Cta]:
    """A function that gives the cycles of one of `running` CTAs. `parts`: CTAs that share the rows of a tile.
    `requests`: of A and of B. `stored`: the cycles of the stores of a tile."""
    loaded = _loaded(grids, product, found, requests)
    steps = np.ceil(np.ceil(product.k / grids.depth) / grids.parts)
    in_turn = grids.turns > 1
    bytes_of_step = loaded * product.k / grids.parts / steps * product.operand_bytes  # the last step may be shorter
    stores = np.where(in_turn, stored / steps, 0)  # compete with the loads of the next tile
    received = _received(grids, product, found)
    products, of_step = _products(grids, product, found, least), _step(grids, found)
    slices = _slices(grids, product)
    tensor, shared = slices * grids.columns / _COLUMNS_PER_CYCLE, slices * _reads(grids)
    arrival = found.latency / (stages_of(grids, product, sm_count) - 1)
    beside = np.where(in_turn, 0.0, found.tile + stored)
    tall = np.where(product.stores_early, found.tall_early, found.tall)
    beside += np.where((grids.rows > _ROWS * grids.warpgroups) & ~in_turn, tall, 0)
    computed, moved, awaited = _work(grids, product)

    def of(running: np.ndarray, parts: np.ndarray) -> Cta:
        rate = _cycles_per_byte(running, sm_count * found.l2, found.l2_of_pair, found.even, sm_count)
        loads = bytes_of_step * rate + stores
        step = np.maximum(either(products / parts, loads, found.step_sharpness), received)
        of_steps = steps * (either(step, arrival, 4) + of_step)
        work = computed + moved + awaited
        # What the steps of the other consumers do not hide.
        longer = (stored + work - (grids.turns - 1) * of_steps) / grids.turns
        total = np.asarray(of_steps + beside + np.where(in_turn, np.maximum(_COMPETES * moved, longer), work))
        epilogue = np.where(in_turn, beside + stored + work, total - of_steps)
        of_work = np.clip(stored + work - of_steps, 0, work)
        loads = np.maximum(loads, received)
        return Cta(
            products / parts, tensor / parts, shared / parts, loads, arrival, of_step, steps, epilogue, of_work, total
        )

    return of


def _work(grids: Grids, product: Product) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The cycles of the epilogue of a tile, in addition to its stores by TMA: of functions, of loads and stores by
    threads, and of waits for loads by TMA."""
    elements = grids.rows * grids.columns
    factor = np.where(grids.warpgroups == 1, _OF_ONE, 1.0)
    waits = elements > _MOST_SUMS * _THREADS * grids.warpgroups
    moved = product.moved * elements * factor * np.where(waits, _WAITS, 1.0)
    return product.computed * elements * factor, moved, product.awaited * elements


def _products(grids: Grids, product: Product, found: Constants, least: np.ndarray) -> np.ndarray:
    """The cycles of the wgmmas of a K step, or of their reads of A and B from shared memory. If threads load A to
    registers and a tile has only one consumer, it waits for these loads."""
    held, slices = _holds_a(product), _slices(grids, product)
    loads = _CONFLICTS * _SLICE * _ROWS / _SHARED_MEMORY
    writes = _SLICE * (grids.rows + grids.columns) / (grids.rows / _ROWS) / _SHARED_MEMORY
    of_held = _TAKES_TIME * (loads + _SLICE * grids.columns / _SHARED_MEMORY + writes)
    one = either(grids.columns / _COLUMNS_PER_CYCLE, np.where(held, of_held, _reads(grids)), 8)
    factor = np.where(grids.warpgroups > 2, found.three, 1.0)
    waits = np.where(held & (grids.warpgroups == 1), slices * loads + _LOADED, 0)
    return either(slices * one * factor + waits, least, 4)


def _holds_a(product: Product) -> np.ndarray:
    """Whether threads load A to registers: elements of 4 bytes of an A that is not K-major."""
    return np.asarray((np.asarray(product.operand_bytes) == _SUM) & np.logical_not(product.a_is_k_major))


def _slices(grids: Grids, product: Product) -> np.ndarray:
    """The wgmmas of a K step."""
    return grids.depth * product.operand_bytes / _SLICE * grids.rows / _ROWS


def _reads(grids: Grids) -> np.ndarray:
    """The cycles in which a wgmma reads A and B from shared memory."""
    return _SLICE * (_ROWS + grids.columns) / _SHARED_MEMORY


def _step(grids: Grids, found: Constants) -> np.ndarray:
    """Cycles of a K step in addition to its products and loads."""
    shared = np.select(
        [grids.turns > 1, grids.warpgroups < 2, grids.warpgroups < 3],
        [found.step_in_turn, found.step_of_one, found.step_of_two],
        found.step_of_three,
    )
    return shared + np.select([grids.cluster < 2, grids.cluster < 3], [0.0, found.step_of_pair], found.step_of_cluster)


def _stores(grids: Grids, product: Product, found: Constants) -> np.ndarray:
    """The cycles of the stores of a tile."""
    stored = found.store * grids.rows * grids.columns * product.result_bytes / _STORE
    columns = np.minimum(grids.columns, product.n) * product.result_bytes  # that exist
    more = np.where(is_multiple(columns, SECTOR_BYTES), 0, found.split_sectors * grids.rows)
    more += np.where(is_multiple(columns, LINE_BYTES), 0, found.narrow_part)
    return np.where(product.stores_columns, stored * found.store_columns, stored + more)


def _exchange(grids: Grids, found: Constants) -> np.ndarray:
    """The cycles in which the parts of a tile exchange partial sums."""
    sums = grids.rows * grids.columns * _SUM
    moved = np.where(grids.adds_shares > 0, 2 * sums / found.shares, (grids.parts - 1) * sums / found.sums)
    return np.where(grids.parts > 1, found.exchange + moved, 0)


def _clips(grids: Grids, product: Product) -> tuple[np.ndarray, np.ndarray]:
    """Whether TMA boxes of A, and of B, have only the rows that exist."""
    of_grid = (grids.cluster == 1) & (grids.halves == 0)
    of_grid &= product.clips
    return of_grid & product.a_is_k_major, of_grid & product.b_is_k_major


def _empty_rows(
    grids: Grids, product: Product, found: Constants, of_rows: np.ndarray, of_columns: np.ndarray
) -> np.ndarray:
    """The cycles that rows of TMA boxes outside of A or B take, although nothing is read for them. A multicast to two
    CTAs takes as long as two loads, and so does a multicast to four."""
    clips_a, clips_b = _clips(grids, product)
    of_a = (of_rows * grids.rows - product.m) * of_columns / np.ceil(grids.cluster_columns / 2)
    of_b = (of_columns * grids.columns - product.n) * of_rows / np.ceil(grids.cluster_rows / 2)
    of_a, of_b = np.where(clips_a, 0, of_a), np.where(clips_b, 0, of_b)
    hidden = found.hidden_rows * of_rows * of_columns
    return np.maximum(0, of_a + of_b - hidden) * np.ceil(product.k / grids.depth) * product.batch / found.empty


def _bytes_of_memory(
    grids: Grids, product: Product, found: Constants, of_rows: np.ndarray, of_columns: np.ndarray, busy: np.ndarray
) -> np.ndarray:
    """The bytes read and written. An operand is read again for later waves if L2 does not keep it. A part of it is also
    read again if several CTAs of a wave read it, since each half of L2 has its own copy."""
    # So do matrices of a batch, but the choice for them did not gain (docs/tried.md).
    of_one = np.where(
        product.in_turn, np.minimum(busy / grids.parts, of_rows * of_columns), busy / grids.parts / product.batch
    )
    together = np.maximum(1, of_one)
    band = np.minimum(of_rows, grids.band)
    bands_at_once = np.maximum(1, together / (band * of_columns))
    columns_at_once = np.maximum(1, together / band)
    of_a, of_b = (extent * product.k * product.operand_bytes for extent in (product.m, product.n))
    band_bytes = band * grids.rows * product.k * product.operand_bytes
    again_a = (np.maximum(1, of_columns / columns_at_once) - 1) * _missed(band_bytes, found)
    again_b = (np.maximum(1, of_rows / band / bands_at_once) - 1) * _missed(of_b + 0 * band, found)
    by_row = grids.band == 1
    near_a, near_b = by_row | (of_rows == 1), ~by_row | (of_columns == 1)
    a = of_a * (1 + again_a) * _copies(of_columns / grids.cluster_columns, near_a, found)
    b = of_b * (1 + again_b) * _copies(of_rows / grids.cluster_rows, near_b, found)
    off_k = is_large_off_k(product)
    a = a * np.where(off_k, _narrow(grids.rows, product.a_is_k_major, product, found.narrow_rows), 1.0)
    b = b * np.where(off_k, _narrow(grids.columns, product.b_is_k_major, product, found.narrow_rows), 1.0)
    beside = found.written * product.result_bytes + product.read_bytes
    return (a + b + beside * product.m * product.n) * product.batch


def _missed(size: np.ndarray, found: Constants) -> np.ndarray:
    """The share of `size` bytes that L2 has lost before they are read again."""
    return 1 / (1 + (found.l2_megabytes * 1e6 / size) ** found.l2_sharpness)


def _copies(readers: np.ndarray, near: np.ndarray, found: Constants) -> np.ndarray:
    """How often an operand is read from memory if so many CTAs read it at the same time."""
    return 1 + np.where(near, found.read_near, found.read_far) * 2 * (1 - 2.0 ** (1 - readers))


def _at_power_limit(
    grids: Grids,
    product: Product,
    found: Constants,
    requests: Sequence[np.ndarray],
    moved: np.ndarray,
    sm_count: int,
) -> np.ndarray:
    ideal = (
        product.m
        * product.n
        * product.k
        * product.batch
        * product.operand_bytes
        / (_ROWS * _SLICE * _COLUMNS_PER_CYCLE * sm_count)
    )
    scale = np.maximum(*requests) ** found.power_off_lines
    rows, columns = np.minimum(grids.rows, product.m), np.minimum(grids.columns, product.n)  # that exist
    # Not the loads of `_loaded`, which divide each side by the other side of the cluster. Those chose no better, also
    # fitted again (docs/tried.md).
    loads = scale * _ROWS * (1 / (rows * grids.cluster_columns) + 1 / (columns * grids.cluster_rows))
    energy = 1 + found.power_of_loads * loads + found.power_of_shared / columns
    return found.power * ideal * energy + found.power_of_memory * moved / found.memory + found.launch
