"""Which grids start only after the grid before has ended, by the SMs that they take (`Estimate.waits` says why)."""

import numpy as np

from lowtide.passes.schedules.cost.grids import Grids, Product, tiles_of

# A grid may have to wait if its CTAs, one on an SM, take more than the first and less than the second of these shares
# of the SMs.
_SOME, _MOST = 0.5, 0.75
# A grid that waits takes this share of the time: twelve such kernels took 0.89 to 0.97 of the time of programmatic
# launches, 0.93 on average (13 to 23 µs, H200). Shorter grids, of up to `LONG` cycles, were not measured: they do not
# wait, since a later start would cost them a larger share of the time.
WAITING, LONG = 0.93, 20_000


def may_wait(grids: Grids, product: Product, sm_count: int) -> np.ndarray:
    """Whether grids take so many SMs that they wait if their times are long and memory limits them."""
    of_rows, of_columns = tiles_of(grids, product)
    ctas = of_rows * of_columns * grids.parts * product.batch
    some = (ctas > _SOME * sm_count) & (ctas < _MOST * sm_count) & np.logical_not(product.overlaps)
    return some & (grids.cluster == 1) & (grids.parts == 1) & (grids.turns == 1)
