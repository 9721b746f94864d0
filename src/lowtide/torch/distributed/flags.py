"""Flags with growing epochs: how a rank says that its data has arrived, and how others wait for it.

The epoch is a counter on the device. After the data, in stream order, a copy of 4 bytes brings it to the flag of each
peer. A wait is for an epoch or a later one, so no data of an earlier epoch is read.
"""

import torch

from lowtide.runtime import driver
from lowtide.torch.distributed.symmetric import Window


class Epochs:
    """The epochs of one window. `counter`: s32 (1,), on the device."""

    def __init__(self, window: Window, rank: int, size: int, device: torch.device) -> None:
        self.counter = torch.zeros(1, dtype=torch.int32, device=device)
        self._count = 0
        self._own = window.flags(rank)
        self._of_peers = [window.flags(peer)[rank : rank + 1] for peer in range(size)]

    def begin(self) -> None:
        """The next epoch, in order in the current stream."""
        self._count += 1
        self.counter.add_(1)

    def tell(self, peer: int) -> None:
        """Sets this rank's flag on a peer, after all that the current stream has done."""
        self._of_peers[peer].copy_(self.counter)

    def wait(self, peer: int) -> None:
        """The current stream waits until a peer has told this epoch."""
        stream, cuda = torch.cuda.current_stream(), driver.api()
        address = self._own.data_ptr() + 4 * peer
        at_least = cuda.CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_GEQ
        count = self._count % (1 << 32)
        driver.check(
            cuda.cuStreamWaitValue32(stream.cuda_stream, address, count, int(at_least)), f"waiting for rank {peer}"
        )
