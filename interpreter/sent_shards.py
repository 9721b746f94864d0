"""Shards of A that kernels send (`grid.sender = kernel`), in an interpretation of several ranks.

A device has no access to the memory of another. So for each peer a kernel gets two places on its own device, which
stand for those of the shard and of the flag on the peer:

- When the kernel is about to store the flag, the model reads the whole place of the shard, as the thread that stores
  the flag. The release of the flag covers only what comes before it for this thread. So the read finds an element that
  was not stored yet, and a store that nothing orders before the flag.
- Then the shard and the flag are written on the peer, in steps of their own. What the flag releases there, and at which
  scope, is what the kernel's instruction says.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from lowtide.interpreter.api import Run
from lowtide.interpreter.machine.patterns import Ordering
from lowtide.interpreter.machine.views import Strong
from lowtide.interpreter.machine.words import Word
from lowtide.interpreter.numbers.accesses import Access, Span
from lowtide.interpreter.numbers.codes import ELEMENT_BYTES
from lowtide.interpreter.program.batches import NotTogether
from lowtide.interpreter.shards import FLAG, ShardWriter
from lowtide.interpreter.turns import Sending

PEERS = "peers"
_HALF = 32  # bits of an element of `peers`


@dataclass
class SentShard(ShardWriter):
    """The kernel of rank `source`, as it writes in the memory of rank `target`. `place`, `flag`: the addresses on its
    own device that stand for those of the shard and of the flag on the target."""

    place: int = field(init=False)
    flag: int = field(init=False)
    who = "the kernel"

    def __post_init__(self) -> None:
        super().__post_init__()
        a, memory = self.matrix("a", self.source), self._own.memory
        _, rows, columns = a.shape
        names = (f"{name} on rank {self.target}" for name in ("a", "arrived"))
        self.place = memory.allocate(next(names), rows, columns, a.strides[1], a.element.name)
        self.flag = memory.allocate(next(names), 1, 1, 1, FLAG)
        peers = self.matrix(PEERS, self.source)
        halves = [half for each in (self.place, self.flag) for half in (each % 2**_HALF, each >> _HALF)]
        memory.payload[peers.addresses(self.target, np.arange(len(halves))) - memory.origin] = halves

    @property
    def _own(self) -> Run:
        return self.devices[self.source]

    def stored(self, access: Access, span: Span) -> None:
        """The kernel is about to store. If it stores the flag, read the shard as the thread of the store, and have both
        reach the peer. Raises InterpreterError if the read finds an element that was not stored, or a race; NotTogether
        for a store by several warps at once."""
        memory = self._own.memory
        if (span.addresses + memory.origin != self.flag).any():
            return
        if access.warps is not None:
            raise NotTogether
        a, rows = self.matrix("a", self.source), np.arange(self.matrix("a", self.source).shape[1])
        if rows.size and a.shape[2]:
            lanes = None if access.lanes is None else np.repeat(access.lanes[:1], len(rows))
            reader = replace(access, lanes=lanes, strong=None)
            values = memory.load(reader, self._addresses(a, rows), a.element.name, a.shape[2], a.element.bytes)
        else:
            values = np.zeros((len(rows), 0))
        word = memory.words.at(self.flag - memory.origin, ELEMENT_BYTES[FLAG])
        self.enqueue([partial(self.write_rows, rows, values)], partial(self._tell, access.strong, word))

    def _addresses(self, a: Any, rows: Any) -> Any:
        return self.place + rows * a.strides[1] * a.element.bytes

    def _tell(self, strong: Strong | None, word: Word) -> None:
        """Write the flag on the peer: with the scope of the kernel's store, and with the widest scope of its
        releases."""
        memory = self._own.memory
        epoch = int(memory.payload[self.flag - memory.origin])
        if strong is not None:
            strong = replace(strong, scope=min(strong.scope, self.sending.scope))
        scopes = [min(origin.scope, self.sending.scope) for origin in word.released]
        self.write_flag(epoch, strong, Ordering(max(scopes), releases=True) if scopes and strong else None)


def sent_shards(devices: Sequence[Run], sendings: Mapping[tuple[int, int], Sending]) -> list[SentShard]:
    """The kernel of each rank, once for each other rank. `devices`: with their arguments in memory."""
    ranks = range(len(devices))
    found = []
    for source, device in enumerate(devices):
        own = [
            SentShard(source, target, devices, sendings.get((source, target), Sending()))
            for target in ranks
            if target != source
        ]
        device.memory.on_write = partial(_tell_all, [each.stored for each in own])
        found += own
    return found


def _tell_all(listeners: Sequence[Callable[[Access, Span], None]], access: Access, span: Span) -> None:
    for each in listeners:
        each(access, span)
