"""The windows of an op on one device, and whose turn it is: the slot and the epoch of a call.

The data of an epoch lie in one of two slots. A rank writes those of epoch e + 2 after its own work of e + 1, which has
waited for all peers' data of e + 1; these were sent after the peers' work of e. So no slot is written while a late rank
reads it.
"""

import torch

from lowtide.torch.distributed.flags import Epochs
from lowtide.torch.distributed.ranks import Ranks
from lowtide.torch.distributed.symmetric import Window

_SLOTS = 2


class Exchange:
    """`begin` and `end` stand around the work of a call, which all ranks make in the same order."""

    def __init__(self, ranks: Ranks, device: torch.device) -> None:
        self.ranks, self.device = ranks, device
        self.slot = 0
        self._windows: list[tuple[Window, Epochs]] = []  # the last one is the largest; others may be in use
        self._last: tuple[torch.cuda.Stream, torch.cuda.Event] | None = None

    def begin(self, size: int) -> torch.cuda.Stream:
        """A new epoch, with slots of at least this many bytes; returns the current stream. The first call, and one that
        needs larger slots, is a collective."""
        stream = torch.cuda.current_stream(self.device)
        if self._last is not None and self._last[0] != stream:
            stream.wait_event(self._last[1])
        if not self._windows or self.window.size < size:
            window = Window(self.device, self.ranks.group, _SLOTS, size)
            self._windows.append((window, Epochs(window, self.ranks.rank, self.ranks.size, self.device)))
        self.slot = (self.slot + 1) % _SLOTS
        self.epochs.begin()
        return stream

    def end(self, stream: torch.cuda.Stream) -> None:
        """All work of the call is in the stream."""
        event = torch.cuda.Event() if self._last is None else self._last[1]
        event.record(stream)
        self._last = stream, event

    @property
    def window(self) -> Window:
        return self._windows[-1][0]

    @property
    def epochs(self) -> Epochs:
        return self._windows[-1][1]

    def part(self, on: int, number: int, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """A tensor in this epoch's slot on a rank: the one with this number, of tensors of one shape."""
        size = dtype.itemsize
        for extent in shape:
            size *= extent
        return self.window.part(on, self.slot, shape, dtype, number * size)
