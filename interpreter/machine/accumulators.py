"""The accumulators of the warps of a warpgroup, as one matrix while products follow each other."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.interpreter.machine.teams import WARP
from lowtide.interpreter.numbers.accesses import Ints


@dataclass(eq=False)
class Block:
    """The accumulators of some warps of a warpgroup after a wgmma of n columns.

    `matrix` (warps, 16 · n): for each warp, its 16 rows one after the other. `places` (32, n / 2): for each lane and
    each of its accumulators, the index of the element among these 16 · n (PTX ISA, "Register Fragments and Shared
    Memory Matrix Layouts" of wgmma.mma_async).
    """

    matrix: NDArray[Any]
    places: Ints

    @cached_property
    def columns(self) -> NDArray[Any]:
        """Row i has accumulator i of each lane of all warps: (n / 2, 32 · warps)."""
        held = self.matrix[:, self.places].transpose(2, 0, 1)
        return np.ascontiguousarray(held).reshape(len(held), -1)

    def of_warp(self, number: int) -> NDArray[Any]:
        """Row i has accumulator i of each lane of a warp: (n / 2, 32)."""
        return self.columns[:, WARP * number : WARP * (number + 1)]
