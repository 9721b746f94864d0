"""The last reads of each reader of shared memory, kept only for agents that have read, since most only write.

A reader is an agent, or an asynchronous reader such as a wgmma or a TMA store.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.interpreter.numbers.cells import IN_FLIGHT, Ints


class Reads:
    """The last read of each unit of memory by one reader: its epoch + 1 (0 never), its lane and its op.

    `latest` is the last of these epochs, without those still in flight.
    """

    __slots__ = ("epoch", "lane", "latest", "site")

    def __init__(self, units: int) -> None:
        self.epoch: NDArray[np.int32] = np.zeros(units, np.int32)
        self.lane: NDArray[np.uint8] = np.zeros(units, np.uint8)
        self.site: NDArray[np.uint16] = np.zeros(units, np.uint16)
        self.latest = 0

    def note(self, units: Ints, epoch: int, lane: Any, site: Any) -> None:
        """These units were read, or are being read (IN_FLIGHT)."""
        self.epoch[units] = epoch
        self.lane[units] = lane
        self.site[units] = site
        if epoch != IN_FLIGHT:
            self.latest = max(self.latest, epoch)

    def refine(self, factor: int) -> None:
        """Each unit becomes `factor` units."""
        self.epoch, self.lane, self.site = (
            np.repeat(self.epoch, factor),
            np.repeat(self.lane, factor),
            np.repeat(self.site, factor),
        )

    def extend(self, units: int) -> None:
        """Grow to this many units; the new ones have not been read."""
        more = units - len(self.epoch)
        self.epoch, self.lane, self.site = (
            np.pad(self.epoch, (0, more)),
            np.pad(self.lane, (0, more)),
            np.pad(self.site, (0, more)),
        )
