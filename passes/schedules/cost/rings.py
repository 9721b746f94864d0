"""The number of stages of a ring: its limits for the choice (`choice/stages.py`), and what it costs or gains in the
estimate of wgmma tiles.

A K step of a tile with the rows of one wgmma is short, so more steps must be loaded ahead. If each CTA has at most one
such tile, its ring may have more than `MOST_STAGES`. If CTAs divide K, each of them has too few steps for that.

While a grid runs, CTAs of the next one wait beside its CTAs, if shared memory allows. SMs are in pairs (TPCs). If some
pairs have two CTAs of a grid and others have one, all CTAs of the next grid should wait beside those of this one: then
none starts late on a pair that is busy. So if CTAs have one consumer, the ring has the most stages with which two CTAs
fit on an SM, unless these are fewer than `FEWEST_OF_TWO`.
"""

import numpy as np

from lowtide.passes.schedules.cost.grids import Grids, Numbers, Product, tiles_of

MOST_STAGES = 8
# The most stages if each CTA has at most one tile of 64 rows. If two consumers take turns, 12 stages in place of 8 take
# 0.87 to 1.01 of the time, 0.95 on average. With 16 the mean is the same (60 shapes of up to 340 rows, H200). If D has
# only one row or column of tiles, 12 stages are taken up to `LEAST_SHARED` and without clusters: with 90 CTAs or more
# they take 0.97 to 1.10 of the time, and in clusters 1.10 to 1.16.
_DEEPEST, _ROWS = 12, 64
# With one consumer: the most CTAs, as a share of the SMs, and the fewest K steps. In place of 8, 10 to 12 stages take
# 0.90 to 0.98 of the time, but 1.01 to 1.03 with 12 and 23 steps, and 0.99 to 1.03 with more CTAs (H200).
_FEW_CTAS, _LONG_K = 0.75, 32
#: The fewest stages that are taken so that two CTAs fit on an SM. With 7, two CTAs of 64×48 or 64×56 fit. In place of 8
#: they take 0.93 to 0.98 of the time with 72 to 96 CTAs, and 0.98 to 1.00 with more, but 1.05 with 68, and 1.06 with 64
#: or fewer; where parts of K each add a share, 0.94 to 0.97. If one CTA adds all parts, 8 stages take no longer. With
#: 10 stages of 64×40, one CTA fits in place of two: they take 1.06 to 1.23 (H200).
FEWEST_OF_TWO = MOST_STAGES - 1
#: A grid has pairs with one and with two CTAs if it has more CTAs per SM than this, and fewer than 1. With 0.5, each
#: CTA has a pair of SMs for itself.
LEAST_SHARED = 0.53
#: The factor of the time of a wave with one stage less, if A and B are K-major: 24 shapes of up to 56 rows (H200).
ONE_STAGE_LESS = 1.04
#: The factor of the time with more than `MOST_STAGES`: 39 shapes, H200. No kernel of the calibration has so many.
MORE_STAGES = 0.955
_SHARED = 227 * 1024  # bytes of shared memory for a ring
# The bytes of ring and scratch with which two CTAs fit on an SM: beside mbarriers, and 1 KiB that the system reserves.
_SHARED_OF_TWO = 228 * 1024 // 2 - 1024 - 2 * 8 * MOST_STAGES


def most_stages(grids: Grids, product: Product, sm_count: int) -> np.ndarray:
    """The most stages that the ring of each grid may have if TMA stores D."""
    ctas, is_grid = _ctas(grids, product), np.minimum(*tiles_of(grids, product)) > 1
    takes_turns, is_long = grids.turns > 1, np.ceil(product.k / grids.depth) >= _LONG_K
    most_ctas = np.where(is_grid & takes_turns, 1.0, np.where(takes_turns, LEAST_SHARED, _FEW_CTAS)) * sm_count
    is_deep = (grids.parts == 1) & (grids.rows == _ROWS) & (ctas <= most_ctas) & np.logical_not(product.in_turn)
    is_deep &= (is_grid | (grids.cluster == 1)) & (takes_turns | is_long)
    return np.where(is_deep, np.clip(np.ceil(product.k / grids.depth), MOST_STAGES, _DEEPEST), MOST_STAGES)


def gains_by_stages(grids: Grids, product: Product, sm_count: int) -> np.ndarray:
    """Whether `MORE_STAGES` holds: the ring has more than `MOST_STAGES`, and consumers take turns or two CTAs fit on an
    SM."""
    more = (MOST_STAGES + 1) * _stage_bytes(grids, product) + _scratch_bytes(grids, product)
    fits = (more <= _SHARED) & (_scratch_bytes(grids, product) > 0) & np.asarray(product.rings_are_deep)
    fits &= (grids.turns > 1) | _are_two(grids, more)
    return np.asarray((most_stages(grids, product, sm_count) > MOST_STAGES) & fits)


def shares_pairs(ctas: Numbers, sm_count: int) -> np.ndarray:
    """Whether some pairs of SMs have two CTAs of a grid, and others have one."""
    return np.asarray((ctas > LEAST_SHARED * sm_count) & (ctas < sm_count))


def _ctas(grids: Grids, product: Product) -> np.ndarray:
    return np.asarray(np.multiply(*tiles_of(grids, product)) * grids.parts * product.batch)


def _stage_bytes(grids: Grids, product: Product) -> np.ndarray:
    return (grids.rows + grids.columns) * grids.depth * product.operand_bytes


def stages_of(grids: Grids, product: Product, sm_count: int) -> np.ndarray:
    """The stages that fit in shared memory, beside a tile of D if TMA stores it; one less if a stage is spared. At most
    `MOST_STAGES`: the factor `MORE_STAGES` stands for further ones."""
    return _most_fitted(grids, product) - spares_a_stage(grids, product, sm_count)


def _most_fitted(grids: Grids, product: Product) -> np.ndarray:
    scratch = np.where(grids.parts == 1, _scratch_bytes(grids, product), 0)
    return np.clip(np.floor((_SHARED - scratch) / _stage_bytes(grids, product)), 2, MOST_STAGES)


def spares_a_stage(grids: Grids, product: Product, sm_count: int) -> np.ndarray:
    """Whether the choice takes `FEWEST_OF_TWO` in place of `MOST_STAGES`, so that two CTAs fit on an SM. TMA stores
    D."""
    stage, scratch = _stage_bytes(grids, product), _scratch_bytes(grids, product)
    found = shares_pairs(_ctas(grids, product), sm_count) & (grids.cluster == 1) & (scratch > 0)
    found &= MOST_STAGES * stage + scratch > _SHARED_OF_TWO
    found &= _are_two(grids, FEWEST_OF_TWO * stage + scratch)
    return np.asarray(found & (_most_fitted(grids, product) == MOST_STAGES))


def _scratch_bytes(grids: Grids, product: Product) -> np.ndarray:
    """The bytes of D that a CTA stores by TMA: its tile, or a share of the tile. They do not count if one CTA adds all
    parts of K: as measured, room for the CTAs of the next grid then does not matter."""
    by_tma = np.logical_not(product.stores_columns) & (np.asarray(product.read_bytes) == 0)
    by_tma &= (grids.parts == 1) | ((grids.adds_shares > 0) & product.stores_transposed)
    return np.where(by_tma, grids.rows * grids.columns / grids.parts * product.result_bytes, 0)


def _are_two(grids: Grids, shared: np.ndarray) -> np.ndarray:
    """Whether two CTAs fit on an SM by their bytes of shared memory, and by the registers of their threads."""
    return np.asarray((grids.warpgroups * grids.turns == 1) & (shared <= _SHARED_OF_TWO))


def fit_in_pairs(grids: Grids, product: Product, sm_count: int) -> np.ndarray:
    """Whether two CTAs fit on an SM. Then the CTAs of the next grid wait beside those of this one. If not, some of them
    start late, on an SM of a pair whose other SM has a CTA."""
    ring = stages_of(grids, product, sm_count) * _stage_bytes(grids, product)
    return _are_two(grids, ring + _scratch_bytes(grids, product))
