"""Shards of A that kernels send (`GemmSpec(sends=True)`), in an interpretation of several ranks.

A kernel stores its rank's shard, and its flag, in places of its own device. They stand for those on a peer. Once it has
stored the flag, the shard and the flag reach the peer. The release of the flag covers only what comes before it for the
thread that stores it. So the model reads the whole place as this thread: it finds an element that was not stored yet,
and a store that nothing orders before the flag. What the flag releases, and at which scope, is then what the kernel's
instruction says.
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
class Push(ShardWriter):
    """The kernel of one rank, as it writes in the memory of another. `place`, `flag`: the addresses on its own device
    that stand for those of the shard and of the flag."""

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
        """The kernel is about to store. If it is the flag, the whole shard must be there for this thread, and both will
        reach the peer. Raises InterpreterError otherwise."""
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
        """Write the flag with the scope of the kernel's store, and with that of what it has released."""
        memory = self._own.memory
        epoch = int(memory.payload[self.flag - memory.origin])
        if strong is not None:
            strong = replace(strong, scope=min(strong.scope, self.sending.scope))
        scopes = [min(origin.scope, self.sending.scope) for origin in word.released]
        self.write_flag(epoch, strong, Ordering(max(scopes), releases=True) if scopes and strong else None)


def pushes(devices: Sequence[Run], sendings: Mapping[tuple[int, int], Sending]) -> list[Push]:
    """The kernels of all ranks, as they write on each other rank. `devices`: with their arguments in memory."""
    ranks = range(len(devices))
    found = []
    for source, device in enumerate(devices):
        own = [
            Push(source, target, devices, sendings.get((source, target), Sending()))
            for target in ranks
            if target != source
        ]
        device.memory.on_write = partial(_tell_all, [each.stored for each in own])
        found += own
    return found


def _tell_all(listeners: Sequence[Callable[[Access, Span], None]], access: Access, span: Span) -> None:
    for each in listeners:
        each(access, span)
