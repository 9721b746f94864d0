"""What clusters of CTAs cost or save in the estimate of wgmma tiles, beyond what its fitted constants account for."""

import numpy as np

from lowtide.passes.schedules.cost.grids import LINE_BYTES, SECTOR_BYTES, Grids, Product, rows_start_on
from lowtide.passes.schedules.cost.rings import stages_of

# No calibration has larger clusters. With them the same tiles took 0.94 to 1.015 of the time in [2, 2] (H200, H100).
_MOST_FITTED, _NOT_FITTED = 4, 1.03
# If TMA loads operands of the epilogue, the CTAs of a cluster also wait for each other's epilogues. That took longer by
# this factor, more than the constants account for (median of 20 pairs of kernels, which took 0.96 to 1.18, H200).
_CLUSTERS_WAIT = 1.04
# Clusters of tiles of one warpgroup take longer by this factor if the tiles have at least so many columns: 207 kernels
# of the calibration took 1.04 of the estimates, relative to the best estimate of another tile.
_WIDE, _WIDE_IN_CLUSTERS = 200, 1.04
# The next two factors apply to single products of 16-bit operands. Batches and other types were not measured.
_BYTES = 2
# If the smaller of A and B is K-major, clusters of four CTAs or more take longer by this factor than the constants
# account for. Of 172 pairs of kernels that were compiled for their shape, the chosen one takes 1.012 times the time of
# the better one (N and K held out). If the constants are fitted without this factor, it takes 1.016 times as long. If
# the factor also applied to a smaller operand that is not K-major, ten products of up to 600 rows in nt would take 0.99
# to 1.17 of the time (bf16, H200).
_LARGE, _IN_LARGE = 4, 1.03
# If A and B are K-major and rows of A or B do not start on sectors of L2, clusters take less time by this factor than
# the constants account for. Clusters of four took 0.93 of the estimates without this factor, relative to tiles without
# clusters (14 products of the calibration, of more than 64 rows, H200). Relative to the estimates, clusters with
# divided K took 1.06 times as long as clusters of whole tiles, so the factor does not apply to them (28 products of 65
# to 214 rows with large weights).
_OFF_SECTORS = 0.95
# The next two costs apply if the rows of A and B start on lines of L2. For tiles of 64 rows, the second one always
# applies. In all other cases, clusters save more than they cost: 20 products took 0.93 to 1.13 of the time in smaller
# clusters, geometric mean 1.014 (M from 7,000 to 102,000, H200).
# If A and B are K-major, and the CTAs of a cluster share at most so many columns, such as the few rows of a swapped
# product, reads from memory take longer by this factor. 14 products of 13 to 32 rows took 0.99 to 1.05 of the time of
# the best tile without clusters, geometric mean 1.02 (bf16 tn, H200).
_FEW_SHARED, _WITH_FEW_SHARED = 64, 1.05
# If consumers take turns, each tile of a full wave after the first one waits for the other CTAs of its cluster. In
# clusters of two, and in larger ones, it waits for so many cycles if the ring holds all K steps of a tile. With more
# steps, a part of this is hidden. 13 products with N and K from 128 to 1024 took 1.01 to 1.13 of the time of the best
# tile without clusters, geometric mean 1.065 (M from 8,000 to 160,000, H200). Off lines, tiles of 64 rows took more
# than the estimates without this cost, relative to other tiles: 1.00 to 1.08 in clusters of two (14 products of the
# calibration), 1.00 to 1.02 in larger ones in tn (16), and 1.10 to 1.13 in larger ones in tt (6). 3265×2032×704 in tt
# took 1.55 times as long in such tiles as in the best tile without clusters.
_TILE_IN_PAIR, _TILE_IN_CLUSTER, _LOW = 800.0, 1000.0, 64


def cluster_factor(grids: Grids, product: Product) -> np.ndarray:
    """The factor of the cycles of each grid; 1 without clusters."""
    in_cluster = grids.cluster > 1
    factor = np.where(grids.cluster > _MOST_FITTED, _NOT_FITTED, 1.0)
    factor *= np.where(in_cluster & (np.asarray(product.awaited) > 0), _CLUSTERS_WAIT, 1.0)
    is_wide = (grids.warpgroups == 1) & (grids.columns >= _WIDE)
    factor *= np.where(in_cluster & is_wide, _WIDE_IN_CLUSTERS, 1.0)
    is_measured = (np.asarray(product.operand_bytes) == _BYTES) & (np.asarray(product.batch) == 1)
    smaller_is_k_major = np.where(product.m <= product.n, product.a_is_k_major, product.b_is_k_major)
    factor *= np.where((grids.cluster >= _LARGE) & smaller_is_k_major & is_measured, _IN_LARGE, 1.0)
    off_sectors = product.a_is_k_major & product.b_is_k_major & ~rows_start_on(SECTOR_BYTES, product)
    is_whole = in_cluster & (grids.parts == 1)
    return np.asarray(factor * np.where(is_whole & off_sectors & is_measured, _OFF_SECTORS, 1.0))


def factor_of_few_shared(grids: Grids, product: Product) -> np.ndarray:
    """The factor of the time of reads from memory: `_WITH_FEW_SHARED` if the CTAs of a cluster share few columns, A and
    B are K-major, and their rows start on lines of L2."""
    shares_few = (grids.cluster_rows > 1) & (grids.columns <= _FEW_SHARED)
    shares_few &= product.a_is_k_major & product.b_is_k_major & rows_start_on(LINE_BYTES, product)
    return np.where(shares_few, _WITH_FEW_SHARED, 1.0)


def waits_for_cluster(grids: Grids, product: Product, steps: np.ndarray, sm_count: int) -> np.ndarray:
    """The cycles for which a tile of so many K steps waits for the other CTAs of its cluster. 0 if consumers do not
    take turns, or if rows do not start on lines of L2 and the tile has more than 64 rows."""
    waits = np.select([grids.cluster < 2, grids.cluster < 3], [0.0, _TILE_IN_PAIR], _TILE_IN_CLUSTER)
    waits = waits * np.minimum(1, stages_of(grids, product, sm_count) / steps)
    may_wait = rows_start_on(LINE_BYTES, product) | (grids.rows <= _LOW)
    return np.asarray(np.where((grids.turns > 1) & may_wait, waits, 0))
