"""The windows of an op on one device, and the slot and the epoch of each call.

Outside of CUDA graphs, the data of each epoch are in one of two slots, in turn. A rank sends its data of epoch e + 2
after its own work of epoch e + 1. That work has waited for the data of all peers for e + 1, and each peer sent those
after its work of e. So no peer still reads the data of e, which are in the same slot as those of e + 2.

In a CUDA graph the slot of a call is fixed, and two replays may follow each other with no other call between them. So
calls in graphs use a third slot, and write to it only after all ranks have begun the call.
"""

from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeVar

import torch

from lowtide.runtime.call_keys import Recent
from lowtide.torch.distributed.call import Call
from lowtide.torch.distributed.flags import DATA, READY, SUMS, Flags, Statuses
from lowtide.torch.distributed.launching import Launches
from lowtide.torch.distributed.ranks import Ranks, is_capturing
from lowtide.torch.distributed.streams import Streams
from lowtide.torch.distributed.symmetric import KINDS, Window

_TURNS = 2
_OF_GRAPHS = 2  # the number of the slot for calls in CUDA graphs
_MOST = 1024  # counts of rows, and prepared calls, that are kept
Work = TypeVar("Work")


class Exchange:
    """`begin` comes before the work of a call, and `end` after it. All ranks make calls in the same order."""

    def __init__(self, ranks: Ranks, device: torch.device) -> None:
        self.ranks, self.device, self.launches, self.streams = ranks, device, Launches(), Streams(device)
        self.slot = self._turn = 0
        # The last one is the largest; earlier ones may be in use.
        self._windows: list[tuple[Window, Statuses, list[Flags]]] = []
        self._counts, self._prepared = Recent(_MOST), Recent(_MOST)
        self._last: int | None = None  # the stream of the last call outside of a CUDA graph
        self._captures = False

    def begin(self, size: int) -> int:
        """Begins a new epoch, with slots of at least `size` bytes. Returns the current stream. The first call is a
        collective, and so is a call that needs larger slots. Raises LaunchError if a rank was late in an earlier call.
        """
        stream, self._captures = self.streams.current(), is_capturing(self.device)
        if not self._captures:
            self._check()
        if not self._windows or self.window.size < size:
            self._windows.append(self._made(size))
            self._meet(stream)  # also loads the kernel that waits: a capture cannot load one
        if self._last not in (None, stream) and not self._captures:
            self.streams.join()  # the second stream ends with the last call's report, which follows that call
        self._turn = self._turn if self._captures else (self._turn + 1) % _TURNS
        self.slot = _OF_GRAPHS if self._captures else self._turn
        self.flags.begin()
        if self._captures:
            self._meet(stream)
        return stream

    def end(self, stream: int) -> None:
        """Ends a call whose work is all in the streams."""
        streams = self.streams
        if self._captures:
            streams.order(stream, streams.beside)  # the second stream may not be part of this capture yet
        streams.order(streams.beside, stream)  # the caller may write the operands again
        streams.order(stream, streams.beside)
        self._windows[-1][1].report(streams, streams.beside)
        if self._captures:
            streams.order(streams.beside, stream)
        else:
            self._last = stream

    def prepared(self, call: Call, out: torch.Tensor, make: Callable[[Call, torch.Tensor], Work]) -> Work:
        """Returns what `make` returns for a call in this epoch's slot. It is kept for later calls on the same memory,
        unless `make` had to copy tensors (`held`)."""
        key = call.place(out), self.slot, len(self._windows)
        found: Any = self._prepared[key]
        if found is None:
            found = make(call, out)
            if not found.held:
                self._prepared[key] = found
        return found

    @property
    def window(self) -> Window:
        return self._windows[-1][0]

    @property
    def flags(self) -> Flags:
        return self._windows[-1][2][DATA]

    @property
    def sums(self) -> Flags:
        """The flags of summed rows that are sent to all ranks."""
        return self._windows[-1][2][SUMS]

    def part(self, on: int, number: int, shape: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        """A tensor in this epoch's slot on rank `on`. The slot is divided into tensors of this shape, counted from
        0."""
        return self.window.part(on, self.slot, shape, dtype, number * prod(shape) * dtype.itemsize)

    def parts(self, on: int, number: int, shape: tuple[int, ...], dtype: torch.dtype) -> list[torch.Tensor]:
        """The tensor that `part` returns, but in each slot."""
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
        self._check()

    def _check(self) -> None:
        for *_, kinds in self._windows:
            for flags in kinds:
                flags.check()

    def _meet(self, stream: int) -> None:
        """The stream waits until the streams of all ranks have reached this point."""
        ready = self._windows[-1][2][READY]
        ready.begin()
        ready.tell_all(stream)
        ready.wait(stream)

    def _made(self, size: int) -> tuple[Window, Statuses, list[Flags]]:
        window, statuses = Window(self.device, self.ranks.group, _OF_GRAPHS + 1, size), Statuses(self.device)
        shared = statuses, self.ranks, self.launches, self.streams
        return window, statuses, [Flags(window, kind, *shared) for kind in range(KINDS)]
