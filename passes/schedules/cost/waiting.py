"""Which grids start only after the grid before has ended, by the SMs that they take (`Estimate.waits` says why)."""

import numpy as np

from lowtide.passes.schedules.cost.grids import Grids, Product, tiles_of

# A grid may have to wait if its CTAs, one on an SM, take more than the first and less than the second of these shares
# of the SMs.
_SOME, _MOST = 0.56, 0.75
# A grid waits only if its reads from memory take more than this many times as long as all else that its CTAs do.
LIMITED = 1.08
# 31 kernels that waited took 0.81 to 1.03 of the time of programmatic launches, 0.946 on average (11 to 34 µs, H200).
# 26 others, with up to 73 CTAs or less limited by memory, took 0.96 to 1.05, 1.015 on average. The estimate of a grid
# that waits is multiplied by `WAITING`. This factor is not as low as 0.946: with 0.95, seven products changed to such a
# grid, and took 1.01 to 1.06 of the time before. Grids of up to `LONG` cycles do not wait, since a later start costs
# them a larger share.
WAITING, LONG = 0.98, 20_000


def may_wait(grids: Grids, product: Product, sm_count: int) -> np.ndarray:
    """Whether grids take so many SMs that they wait if their times are long and memory limits them."""
    of_rows, of_columns = tiles_of(grids, product)
    ctas = of_rows * of_columns * grids.parts * product.batch
    some = (ctas > _SOME * sm_count) & (ctas < _MOST * sm_count) & np.logical_not(product.overlaps)
    return some & (grids.cluster == 1) & (grids.parts == 1) & (grids.turns == 1)
