"""Kernels that run on three ranks: shards of A arrive, or parts of D are stored in the memory of peers."""

from lowtide.dialects.tile.schedule import Schedule
from lowtide.verification.checking.interpretation import Batch
from lowtide.verification.mutation.kernels.kernel import Kernel, Trial, spec_of

_TRIALS = tuple(Trial((40, 24, 80), seed=seed, batch=Batch(3)) for seed in range(3))
_SHARDS = spec_of(batch=None, arrivals=True)
_PARTS = spec_of(batch=None, arrivals=True, lists="d")

RANKS: tuple[Kernel, ...] = (
    Kernel("sm80-shards", "sm_80", _SHARDS, Schedule.parse("grid.tile = [32, 32], k = 32, stages = 2"), _TRIALS),
    Kernel("sm90-shards", "sm_90a", _SHARDS, Schedule.parse("grid.tile = [64, 32], stages = 2"), _TRIALS),
    Kernel("sm90-parts", "sm_90a", _PARTS, Schedule.parse("grid.tile = [64, 32], stages = 2"), _TRIALS),
)
