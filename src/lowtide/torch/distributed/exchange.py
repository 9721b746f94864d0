"""The windows of an op on one device, and the slot and the epoch of each call.

The data of an epoch lie in one of two slots. A rank writes the data of epoch e + 2 after its own work of epoch e + 1.
That work has waited for the data of all peers for e + 1, and each peer sent them after its work of e. So no rank still
reads a slot when another rank writes it. In a CUDA graph the slot of a call is fixed, and two replays may follow each
other with no other call between. So calls in graphs have a third slot, and write to it only after all ranks have begun
the call.
"""

from collections.abc import Sequence
from math import prod

import torch

from lowtide.runtime.call_keys import Recent
from lowtide.torch.distributed.flags import Flags
from lowtide.torch.distributed.launching import Launches
from lowtide.torch.distributed.ranks import Ranks, is_capturing
from lowtide.torch.distributed.symmetric import Window

_TURNS = 2
_OF_GRAPHS = 2  # the number of the slot
_MOST = 1024  # counts of rows that are kept
DATA, READY = 0, 1  # kinds of flags


class Exchange:
    """`begin` comes before the work of a call, and `end` after it. All ranks make calls in the same order."""

    def __init__(self, ranks: Ranks, device: torch.device) -> None:
        self.ranks, self.device, self.launches = ranks, device, Launches()
        self.slot = self._turn = 0
        self._windows: list[tuple[Window, Flags, Flags]] = []  # the last one is the largest; earlier ones may be in use
        self._counts = Recent(_MOST)
        self._last: tuple[torch.cuda.Stream, torch.cuda.Event] | None = None

    def begin(self, size: int) -> torch.cuda.Stream:
        """Begins a new epoch, with slots of at least `size` bytes. Returns the current stream. The first call is a
        collective, and so is a call that needs larger slots. Raises LaunchError if a rank was late in an earlier call.
        """
        stream, captures = torch.cuda.current_stream(self.device), is_capturing(self.device)
        for window in self._windows:
            for flags in window[1:] if not captures else ():
                flags.check()
        if self._last is not None and self._last[0] != stream and not captures:
            stream.wait_event(self._last[1])
        if not self._windows or self.window.size < size:
            self._windows.append(self._made(size))
            self._meet(stream)  # also loads the kernel that waits: a capture cannot load one
        self._turn = self._turn if captures else (self._turn + 1) % _TURNS
        self.slot = _OF_GRAPHS if captures else self._turn
        self.flags.begin()
        if captures:
            self._meet(stream)
        return stream

    def end(self, stream: torch.cuda.Stream) -> None:
        """Ends a call, after all of its work has been put into the stream."""
        self.flags.report()
        if is_capturing(self.device):
            return
        event = torch.cuda.Event() if self._last is None else self._last[1]
        event.record(stream)
        self._last = stream, event

    @property
    def window(self) -> Window:
        return self._windows[-1][0]

    @property
    def flags(self) -> Flags:
        return self._windows[-1][1]

    def part(self, on: int, number: int, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """A tensor in this epoch's slot of rank `on`: number `number` of consecutive tensors with this shape."""
        return self.window.part(on, self.slot, shape, dtype, number * prod(shape) * dtype.itemsize)

    def parts(self, on: int, number: int, shape: tuple[int, ...], dtype: torch.dtype) -> list[torch.Tensor]:
        """As `part`, in each slot."""
        offset = number * prod(shape) * dtype.itemsize
        return [self.window.part(on, slot, shape, dtype, offset) for slot in range(_OF_GRAPHS + 1)]

    def counts(self, rows: Sequence[int]) -> dict[str, torch.Tensor]:
        """The operand `counts`, s32 (ranks,), if ranks have different numbers of rows; otherwise none. The tensor is
        kept, because a CUDA graph may read it later."""
        if min(rows) == max(rows):
            return {}
        found: torch.Tensor | None = self._counts[tuple(rows)]
        if found is None:
            found = self._counts[tuple(rows)] = torch.tensor(rows, dtype=torch.int32, device=self.device)
        return {"counts": found}

    def check(self) -> None:
        """Waits for all calls of this rank. Raises LaunchError if another rank was late."""
        torch.cuda.synchronize(self.device)
        for window in self._windows:
            for flags in window[1:]:
                flags.check()

    def _meet(self, stream: torch.cuda.Stream) -> None:
        """The stream waits until the streams of all ranks have reached this point."""
        ready = self._windows[-1][2]
        ready.begin()
        ready.tell_all()
        ready.wait(stream)
        ready.report()

    def _made(self, size: int) -> tuple[Window, Flags, Flags]:
        window = Window(self.device, self.ranks.group, _OF_GRAPHS + 1, size)
        data, ready = (Flags(window, kind, self.ranks, self.device, self.launches) for kind in (DATA, READY))
        return window, data, ready
