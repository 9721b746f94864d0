"""The accumulators of the warps of a warpgroup, as one matrix while products follow each other."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.interpreter.numbers.cells import Ints

_LANES = 32


@dataclass(eq=False)
class Block:
    """What a wgmma leaves in the accumulators of some warps: `matrix` (warps, 16 · n), the rows of each. `places`
    (32, n / 2) has the place there of each accumulator of each lane."""

    matrix: NDArray[Any]
    places: Ints

    @cached_property
    def columns(self) -> NDArray[Any]:
        """By accumulator of a lane, that of each lane of all warps: (n / 2, 32 · warps)."""
        held = self.matrix[:, self.places].transpose(2, 0, 1)
        return np.ascontiguousarray(held).reshape(len(held), -1)

    def of_warp(self, number: int) -> NDArray[Any]:
        """By accumulator of a lane, that of each lane of a warp: (n / 2, 32)."""
        return self.columns[:, _LANES * number : _LANES * (number + 1)]
