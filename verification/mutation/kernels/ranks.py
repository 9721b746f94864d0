"""Kernels that run on three ranks: shards of A arrive, or parts of D are stored in the memory of peers."""

from lowtide.compiler.spec import GemmSpec
from lowtide.dialects.tile.schedule import Schedule
from lowtide.verification.checking.interpretation import Batch
from lowtide.verification.mutation.kernels.kernel import Kernel, Trial, spec_of

_TRIALS = tuple(Trial((40, 24, 80), seed=seed, batch=Batch(3)) for seed in range(3))
_SHARDS = spec_of(batch=None, arrivals=True)
_SENT = spec_of(batch=None, arrivals=True, peers=True)
_PARTS = spec_of(batch=None, arrivals=True, lists="d")

_NO_PACKS = "mainloop.a.pack = none, mainloop.b.pack = none, epilogue.pack = none"  # all matrices are aligned


def _kernel(name: str, target: str, spec: GemmSpec, fields: str) -> Kernel:
    return Kernel(name, target, spec, Schedule.parse(f"{fields}, {_NO_PACKS}"), _TRIALS)


RANKS: tuple[Kernel, ...] = (
    _kernel("sm80-shards", "sm_80", _SHARDS, "grid.tile = [32, 32], k = 32, stages = 2"),
    _kernel("sm90-shards", "sm_90a", _SHARDS, "grid.tile = [64, 32], stages = 2"),
    _kernel("sm80-sends", "sm_80", _SENT, "grid.tile = [32, 32], grid.sender = kernel, k = 32, stages = 2"),
    _kernel("sm90-parts", "sm_90a", _PARTS, "grid.tile = [64, 32], stages = 2"),
)
