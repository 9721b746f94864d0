"""The estimated time of grids of wgmma tiles, in cycles of one SM at its highest clock, for many grids at once.

A grid runs in waves of CTAs, one on each SM. A K step of a CTA takes as long as its products, its loads from L2 or the
latency that its ring of stages does not hide, whichever takes longest. A wave takes as long as its CTAs, or as A and B
take from memory, and the empty rows of boxes and the exchange of partial sums in addition. A grid takes as long as its
waves, or as the GPU needs at its power limit. Two limits that are close add up in part: `either`. The constants are
fitted to measured kernels by `benchmarks/calibrate.py`.
"""

from dataclasses import dataclass

import numpy as np

from lowtide.passes.schedules.cost.grids import Grids, Numbers, Product

_LINE, _SECTOR = 128, 32  # bytes of L2
_ROWS = 64  # of a wgmma
_SLICE = 32  # bytes of K that a wgmma multiplies
_SHARED_MEMORY = 128  # bytes per cycle and SM
_COLUMNS_PER_CYCLE = 2  # of a wgmma
_STORE = 32  # bytes per cycle and SM of a tile's stores, times `Constants.store`
_SUM = 4  # bytes of a partial sum
_SHARED, _MOST_STAGES = 227 * 1024, 8  # bytes of shared memory for a ring of stages, and its most stages


@dataclass(frozen=True)
class Constants:
    """Fitted constants; in cycles unless a field says so."""

    launch: float
    """A grid in addition to its waves."""
    launch_of_cta: float
    """A CTA of the first wave, in addition."""
    cluster_launch: float
    """A grid of clusters, in addition."""
    tile: float
    """A tile in addition to its K steps."""
    tile_in_turn: float
    """The same for consumers that take turns: one stores while the other multiplies."""
    last_in_turn: float
    """Their last tile, whose stores nothing hides."""
    tall: float
    """A tile with two blocks of 64 rows for each warpgroup."""
    tall_early: float
    """The same if the first block is stored while the last K step multiplies the second."""
    store: float
    """Stores of a tile, for 32 bytes."""
    store_columns: float
    """How much longer stores take element by element."""
    split_sectors: float
    """For each row of a tile whose columns are no whole sectors of D."""
    narrow_part: float
    """For a tile whose last part is narrower than the others."""
    least_step: float
    """The least cycles of the products of a K step, for consumers that share a tile."""
    step_of_one: float
    """A K step in addition to its products and loads, for one warpgroup; the next three for two, three, and in turn."""
    step_of_two: float
    step_of_three: float
    step_in_turn: float
    step_of_pair: float
    """A K step of a cluster of two CTAs, in addition; the next for larger clusters."""
    step_of_cluster: float
    three: float
    """How much longer products take for three warpgroups."""
    l2_of_pair: float
    """Bytes per cycle that a pair of SMs receives from L2 if the others are idle."""
    l2: float
    """Bytes per cycle and SM that all SMs receive from L2."""
    off_lines: float
    """How many more requests L2 gets for rows that start on sectors but not on lines; the next for other rows."""
    off_sectors: float
    latency: float
    """From the request of a stage to its arrival."""
    step_sharpness: float
    """How well products and loads hide each other: see `either`."""
    memory: float
    """Bytes per cycle of all SMs from memory."""
    memory_of_pair: float
    """Bytes per cycle of a pair of SMs from memory, unless the CTAs of the next grid fit beside those of this one."""
    written: float
    """Bytes of D, as bytes that are read."""
    read_near: float
    """The share of an operand that is read again from memory if other CTAs read it at about the same time; the next
    if they are far apart in the order of tiles."""
    read_far: float
    l2_megabytes: float
    """Bytes that L2 keeps from one wave to the next: half of such bytes are read again."""
    l2_sharpness: float
    empty: float
    """Rows of boxes outside of A or B that all SMs receive per cycle."""
    hidden_rows: float
    """Such rows of a K step and CTA that take no time."""
    memory_sharpness: float
    exchange: float
    """A tile whose K is divided."""
    shares: float
    """Bytes of partial sums per cycle if each part adds a share; the next if the first part adds all."""
    sums: float
    power: float
    """Cycles at the power limit, for each cycle of products at full rate."""
    power_of_loads: float
    """Energy of loads, to that of products."""
    power_off_lines: float
    """Exponent of the number of requests for rows that do not start on lines."""
    power_of_shared: float
    """Energy of wgmma's reads of shared memory, likewise."""
    power_of_memory: float
    """Cycles at the power limit, for each cycle at the rate of memory."""
    power_sharpness: float


def either(one: np.ndarray, other: np.ndarray, sharpness: float) -> np.ndarray:
    """The larger of two limits, and a little more if they are close."""
    larger, smaller = np.maximum(one, other), np.minimum(one, other)
    return larger * (1 + (smaller / np.maximum(larger, 1e-9)) ** sharpness) ** (1 / sharpness)


def cycles(grids: Grids, product: Product, found: Constants, sm_count: int, large_clusters: int) -> np.ndarray:
    """Estimated cycles of each grid. `large_clusters`: CTAs that run at once in clusters of more than two."""
    at_once = np.where(grids.cluster > 2, float(large_clusters), float(sm_count))
    of_rows, of_columns = _tiles(grids, product)
    ctas = of_rows * of_columns * grids.parts * product.batch
    busy = np.minimum(ctas, at_once)
    moved = _bytes_of_memory(grids, product, found, of_rows, of_columns, busy)
    of_pair = np.where(_fit_in_pairs(grids, product), found.memory, found.memory_of_pair)
    beside = _exchange(grids, found)
    empty = _empty_rows(grids, product, found, of_rows, of_columns)

    def wave(running: np.ndarray, parts: np.ndarray) -> np.ndarray:
        """`parts`: CTAs that share a tile of the others."""
        of_ctas = _cta(grids, product, found, running, parts, sm_count)
        from_memory = moved / ctas / parts * _cycles_per_byte(running, found.memory, of_pair, sm_count)
        return either(of_ctas, from_memory, found.memory_sharpness) + beside + empty * running / ctas / parts

    full = np.floor(ctas / at_once)
    over = ctas - full * at_once
    parts = np.where(grids.halves > 0, 2.0, 1.0)
    # Halves of a last wave that is more than half full take two waves.
    last = np.ceil(parts * over / at_once) * wave(np.minimum(parts * over, at_once), parts)
    total = full * wave(at_once, np.ones(len(grids))) + np.where(over > 0, last, 0)
    total += _after_turns(grids, product, found) + np.where(grids.cluster > 1, found.cluster_launch, 0)
    total += found.launch + found.launch_of_cta * busy
    return either(total, _at_power_limit(grids, product, found, moved, sm_count), found.power_sharpness)


def may_be_halved(grids: Grids, product: Product, sm_count: int, large_clusters: int) -> np.ndarray:
    """Whether the tiles of a last wave, if there is one after full waves, may be computed as two halves each: they fit
    on the GPU at once, and a half has 64 rows for each warpgroup."""
    at_once = np.where(grids.cluster > 2, float(large_clusters), float(sm_count))
    of_rows, of_columns = _tiles(grids, product)
    ctas = of_rows * of_columns * product.batch
    over = ctas % at_once
    found = (ctas > at_once) & (over > 0) & (2 * over <= at_once) & (grids.parts == 1) & (grids.turns == 1)
    return np.asarray(found & (grids.rows % (2 * _ROWS * grids.warpgroups) == 0))


def _tiles(grids: Grids, product: Product) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of tiles of one product, in whole clusters."""
    rows = np.ceil(product.m / (grids.rows * grids.cluster_rows)) * grids.cluster_rows
    columns = np.ceil(product.n / (grids.columns * grids.cluster_columns)) * grids.cluster_columns
    return rows, columns


def _cycles_per_byte(running: np.ndarray, rate: float, of_pair: Numbers, sm_count: int) -> np.ndarray:
    """Until each of so many CTAs has received a byte. Pairs of SMs (TPCs) get equal shares. So where a pair has two
    CTAs and others have one, these end first, and the pairs left are limited by their own rate."""
    pairs = sm_count / 2
    of_first, of_second = np.minimum(running, pairs), np.maximum(0, running - pairs)
    first = np.maximum(of_first / rate, np.where(running > 0, 1 / of_pair, 0))
    return first + np.maximum(of_second / rate, np.where(of_second > 0, 1 / of_pair, 0))


def _requests(row_bytes: Numbers, found: Constants) -> np.ndarray:
    """Requests to L2 for each line of a box."""
    on_line, on_sector = np.mod(row_bytes, _LINE) == 0, np.mod(row_bytes, _SECTOR) == 0
    return np.where(on_line, 1.0, np.where(on_sector, found.off_lines, found.off_sectors))


def _stage_bytes(grids: Grids, product: Product) -> np.ndarray:
    return (grids.rows + grids.columns) * grids.depth * product.operand_bytes


def _stages(grids: Grids, product: Product) -> np.ndarray:
    """Stages of the ring that fit beside a tile of D, if TMA stores it."""
    by_tma = np.logical_not(product.stores_columns) & (grids.parts == 1)
    tile = np.where(by_tma, grids.rows * grids.columns * product.result_bytes, 0)
    return np.clip(np.floor((_SHARED - tile) / _stage_bytes(grids, product)), 2, _MOST_STAGES)


def _fit_in_pairs(grids: Grids, product: Product) -> np.ndarray:
    """Whether two CTAs fit on an SM: then those of the next grid wait beside those of this one. If not, some of them
    start late, on SMs of pairs whose other SM has a CTA."""
    of_one = grids.warpgroups * grids.turns == 1
    return np.asarray(of_one & (_MOST_STAGES * _stage_bytes(grids, product) <= _SHARED / 2))


def _cta(
    grids: Grids, product: Product, found: Constants, running: np.ndarray, parts: np.ndarray, sm_count: int
) -> np.ndarray:
    """The cycles of a CTA among so many, with a part of the rows of a tile."""
    of_a, of_b = (_requests(size, found) for size in product.row_bytes)
    loaded = grids.rows / grids.cluster_columns * of_a + grids.columns / grids.cluster_rows * of_b
    loads = loaded * grids.depth * product.operand_bytes
    loads *= _cycles_per_byte(running, sm_count * found.l2, found.l2_of_pair, sm_count)
    step = either(_products(grids, product, found) / parts, loads, found.step_sharpness)
    step = either(step, found.latency / (_stages(grids, product) - 1), 4) + _step(grids, found)
    in_turn = grids.turns > 1
    beside = np.where(in_turn, found.tile_in_turn, found.tile + _stores(grids, product, found))
    tall = np.where(product.stores_early, found.tall_early, found.tall)
    beside += np.where((grids.rows > _ROWS * grids.warpgroups) & ~in_turn, tall, 0)
    return np.ceil(np.ceil(product.k / grids.depth) / grids.parts) * step + beside


def _after_turns(grids: Grids, product: Product, found: Constants) -> np.ndarray:
    """The last stores of consumers that take turns."""
    return np.where(grids.turns > 1, found.last_in_turn + _stores(grids, product, found), 0)


def _products(grids: Grids, product: Product, found: Constants) -> np.ndarray:
    """The wgmmas of a K step. They read A and B from shared memory."""
    reads = _SLICE * (_ROWS + grids.columns) / _SHARED_MEMORY
    one = either(grids.columns / _COLUMNS_PER_CYCLE, reads, 8)
    slices = grids.depth * product.operand_bytes / _SLICE * grids.rows / _ROWS
    longer = np.where(grids.warpgroups > 2, found.three, 1.0) * product.longer
    return either(slices * one * longer, found.least_step / grids.turns, 4)


def _step(grids: Grids, found: Constants) -> np.ndarray:
    """Cycles of a K step in addition to its products and loads."""
    shared = np.select(
        [grids.turns > 1, grids.warpgroups < 2, grids.warpgroups < 3],
        [found.step_in_turn, found.step_of_one, found.step_of_two],
        found.step_of_three,
    )
    return shared + np.select([grids.cluster < 2, grids.cluster < 3], [0.0, found.step_of_pair], found.step_of_cluster)


def _stores(grids: Grids, product: Product, found: Constants) -> np.ndarray:
    """The epilogue of a tile."""
    columns = grids.columns * product.result_bytes
    stored = found.store * grids.rows * columns / _STORE
    more = np.where(columns % _SECTOR > 0, found.split_sectors * grids.rows, 0)
    more += np.where(columns % _LINE > 0, found.narrow_part, 0)
    return np.where(product.stores_columns, stored * found.store_columns, stored + more)


def _exchange(grids: Grids, found: Constants) -> np.ndarray:
    """Partial sums of a tile, for each of its parts."""
    sums = grids.rows * grids.columns * _SUM
    moved = np.where(grids.adds_shares > 0, 2 * sums / found.shares, (grids.parts - 1) * sums / found.sums)
    return np.where(grids.parts > 1, found.exchange + moved, 0)


def _empty_rows(
    grids: Grids, product: Product, found: Constants, of_rows: np.ndarray, of_columns: np.ndarray
) -> np.ndarray:
    """Rows of TMA boxes that lie outside of A or B take time, though no memory. Two CTAs of a cluster take as long as
    one for the same rows, four as long as two."""
    of_a = (of_rows * grids.rows - product.m) * of_columns / np.ceil(grids.cluster_columns / 2)
    of_b = (of_columns * grids.columns - product.n) * of_rows / np.ceil(grids.cluster_rows / 2)
    hidden = found.hidden_rows * of_rows * of_columns
    return np.maximum(0, of_a + of_b - hidden) * np.ceil(product.k / grids.depth) * product.batch / found.empty


def _bytes_of_memory(
    grids: Grids, product: Product, found: Constants, of_rows: np.ndarray, of_columns: np.ndarray, busy: np.ndarray
) -> np.ndarray:
    """Bytes read and written. An operand is read again for later waves if L2 does not keep it, and in part if CTAs of
    one wave read it, since each half of L2 has its own copy."""
    together = np.maximum(1, busy / grids.parts / product.batch)
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
    return (a + b + found.written * product.m * product.n * product.result_bytes) * product.batch


def _missed(size: np.ndarray, found: Constants) -> np.ndarray:
    """The share of so many bytes that L2 no longer has when they are read again."""
    return 1 / (1 + (found.l2_megabytes * 1e6 / size) ** found.l2_sharpness)


def _copies(readers: np.ndarray, near: np.ndarray, found: Constants) -> np.ndarray:
    """How often an operand is read from memory for so many readers at the same time."""
    return 1 + np.where(near, found.read_near, found.read_far) * 2 * (1 - 2.0 ** (1 - readers))


def _at_power_limit(grids: Grids, product: Product, found: Constants, moved: np.ndarray, sm_count: int) -> np.ndarray:
    ideal = (
        product.m
        * product.n
        * product.k
        * product.batch
        * product.operand_bytes
        / (_ROWS * _SLICE * _COLUMNS_PER_CYCLE * sm_count)
    )
    of_a, of_b = (_requests(size, found) for size in product.row_bytes)
    scale = np.maximum(of_a, of_b) ** found.power_off_lines
    loads = scale * _ROWS * (1 / (grids.rows * grids.cluster_columns) + 1 / (grids.columns * grids.cluster_rows))
    energy = 1 + found.power_of_loads * loads + found.power_of_shared / grids.columns
    return found.power * ideal * energy + found.power_of_memory * moved / found.memory + found.launch
