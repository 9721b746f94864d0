"""What happened before what in one CTA: a vector clock for each warp.

An *epoch* of a warp ends at each of its ordering events. What a warp did in an epoch is ordered before another warp's
present once that warp knows of a later epoch: `known[r, w] > epoch`. Threads of one warp are not ordered among
themselves either within an epoch (PTX ISA, "Memory Consistency Model": program order is a thread's own).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class Clocks:
    """The clocks of `warps` warps.

    `known[r, w]`: how many epochs of w had ended when r last heard of it; a warp's own on the diagonal.
    """

    def __init__(self, warps: int) -> None:
        self.warps = warps
        self.known: NDArray[np.int32] = np.zeros((warps, warps), np.int32)

    def epoch(self, warp: int) -> int:
        """The present epoch of a warp."""
        return int(self.known[warp, warp])

    def warp_sync(self, warp: int) -> None:
        """bar.warp.sync by all lanes: the lanes of the warp are ordered, other warps learn nothing."""
        self.known[warp, warp] += 1

    def barrier(self, warps: Sequence[int] | None = None) -> None:
        """bar.sync by `warps` (all when None): each knows afterwards what any of them knew."""
        members = np.arange(self.warps) if warps is None else np.asarray(warps)
        self.known[members, members] += 1
        self.known[members] = self.known[members].max(axis=0)
