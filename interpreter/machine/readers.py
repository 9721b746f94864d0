"""The last reads of each reader of shared memory, kept only for agents that have read, since most only write.

A reader is an agent, or an asynchronous reader such as a wgmma or a TMA store.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.interpreter.numbers.accesses import Ints
from lowtide.interpreter.numbers.cells import IN_FLIGHT


class Reads:
    """The last read of each unit of memory by one reader: its epoch + 1 (0 never), its lane and its op.

    `fences` is the number of proxy fences that the reader had executed, or -1 for a read through the async proxy.
    `latest` is the last epoch among the reads that are not in flight.
    """

    arrays = ("epoch", "lane", "site", "fences")
    __slots__ = (*arrays, "latest")

    def __init__(self, units: int) -> None:
        self.epoch: NDArray[np.int32] = np.zeros(units, np.int32)
        self.lane: NDArray[np.uint8] = np.zeros(units, np.uint8)
        self.site: NDArray[np.uint16] = np.zeros(units, np.uint16)
        self.fences: NDArray[np.int32] = np.full(units, -1, np.int32)
        self.latest = 0

    def note(self, units: Ints, epoch: int, lane: Any, site: Any, fences: int = -1) -> None:
        """These units were read, or are being read (IN_FLIGHT)."""
        self.epoch[units] = epoch
        self.lane[units] = lane
        self.site[units] = site
        self.fences[units] = fences
        if epoch != IN_FLIGHT:
            self.latest = max(self.latest, epoch)

    def refine(self, factor: int) -> None:
        """Each unit becomes `factor` units."""
        for name in self.arrays:
            setattr(self, name, np.repeat(getattr(self, name), factor))

    def extend(self, units: int) -> None:
        """Grow to this many units; the new ones have not been read."""
        for name in self.arrays:
            array = getattr(self, name)
            setattr(self, name, np.pad(array, (0, units - len(array))))
