"""Several GPUs: each rank stores the parts of D in its peers' memory, and each owner adds the parts of its rows.

The work of a rank is that of one stream: the kernel, a flag on each rank, a wait for the flags of all ranks, and the
sum of the parts from rank 0 on. Two accesses of a window by different ranks must be ordered by a flag: its write at
the scope .sys, behind the work before it in the stream (`STREAM_ORDER` in ranks.py), is a release; the wait acquires.
The kernel's own accesses are checked in the memory of its rank, as for one GPU. The wait and the sum are steps of the
model, not kernels.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import InterpreterError
from lowtide.interpreter.api import Run
from lowtide.interpreter.machine.agents import Wait
from lowtide.interpreter.machine.views import Scope
from lowtide.interpreter.numbers.accesses import Access, Span
from lowtide.interpreter.numbers.cells import Buffer
from lowtide.interpreter.numbers.codes import ELEMENT_BYTES
from lowtide.interpreter.turns import Rank, Sending, Turns, take_turns

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Calls:
    """`count` calls of a product, one after the other. They use the `slots` slots of a window in turn. At least two
    slots are needed: with one, a rank stores its part of the next call where the owner may still read."""

    count: int = 3
    slots: int = 2


@dataclass
class _Part:
    """The place of one rank's part in one slot of an owner's window.

    For each element, `writer` is 1 + the rank that stored it last (0: none), `stored` that rank's time of the store,
    and `call` its call. `read` is the owner's time of its last read, which may be before or after the store.
    """

    owner: int
    place: int
    shape: tuple[int, int]
    values: Any = None
    writer: Ints = field(init=False)
    stored: Ints = field(init=False)
    call: Ints = field(init=False)
    read: Ints = field(init=False)

    def __post_init__(self) -> None:
        self.writer, self.stored, self.call, self.read = (np.zeros(self.shape, np.int64) for _ in range(4))

    def store(self, rank: int, known: Ints, call: int, at: tuple[Ints, Ints]) -> None:
        """Note that a rank stores the elements `at`. `known`: for each rank, the time up to which its work is ordered
        before the store. Raises InterpreterError for a race."""
        writer, stored = self.writer[at], self.stored[at]
        late = (writer > 0) & (writer != rank + 1) & (stored > known[writer - 1])
        if late.any():
            self._fail(f"stores {self._name(at, late)}, which rank {writer[late][0] - 1} stored")
        if rank != self.owner and (late := self.read[at] > known[self.owner]).any():
            self._fail(f"stores {self._name(at, late)}, which rank {self.owner} reads for the sum of an earlier call")
        self.writer[at], self.stored[at], self.call[at] = rank + 1, known[rank], call

    def load(self, known: Ints, call: int) -> Any:
        """All elements: the owner reads them for the sum of a call. Raises InterpreterError for a race, and if the part
        was not stored in this call by its rank."""
        at: Any = np.indices(self.shape)
        late = (self.writer > 0) & (self.writer != self.owner + 1) & (self.stored > known[self.writer - 1])
        if late.any():
            self._fail(f"reads {self._name(at, late)}, which rank {self.writer[late][0] - 1} stored")
        wrong = (self.writer != self.place + 1) | (self.call != call)
        if wrong.any():
            writer, of = self.writer[wrong][0], self.call[wrong][0]
            what = f"rank {writer - 1} stored it last, in call {of}" if writer else "no rank has stored it"
            raise InterpreterError(
                f"reads {self._name(at, wrong)} in call {call}; {what}: rank {self.place} must store it in this call "
                "[ranks-part]"
            )
        self.read[...] = known[self.owner]
        return self.values

    def _name(self, at: tuple[Ints, Ints], chosen: Any) -> str:
        row, column = (int(each[chosen][0]) for each in at)
        return f"element [{row}, {column}] of the part of rank {self.place} in the memory of rank {self.owner}"

    def _fail(self, what: str) -> None:
        raise InterpreterError(
            f"race of ranks: {what}, nothing orders the two; set a flag at the scope .sys behind the first, and wait "
            "for it before the second [ranks-race]"
        )


@dataclass
class _Flag:
    """A rank's flag on another rank: its epoch, and what a rank that acquires it learns."""

    epoch: int = 0
    released: Any = 0


@dataclass
class _Group:
    """What the ranks share: the parts by (owner, slot, place), and the flags by (owner, source)."""

    size: int
    sendings: Mapping[tuple[int, int], Sending]
    calls: Calls
    flags: dict[tuple[int, int], _Flag] = field(init=False)
    parts: dict[tuple[int, int, int], _Part] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ranks = range(self.size)
        self.flags = {(owner, source): _Flag() for owner in ranks for source in ranks}

    def sending(self, source: int, owner: int) -> Sending:
        return self.sendings.get((source, owner), Sending())

    def part(self, owner: int, call: int, place: int, shape: tuple[int, int]) -> _Part:
        """Parts have the same shape on all ranks."""
        key = owner, call % self.calls.slots, place
        return self.parts.setdefault(key, _Part(owner, place, shape))

    def target(self, source: int, owner: int, call: int, shape: tuple[int, int]) -> _Part:
        """Where a rank stores its part for an owner."""
        place = self.sending(source, owner).place
        return self.part(owner, call, source if place is None else place, shape)


class _Stream:
    """The stream of one rank. `_known`: for each rank, the time up to which its work is ordered before the next step of
    this stream. The rank's own time increases by 1 with each flag that it sets."""

    def __init__(self, number: int, group: _Group, begin: Callable[[], Run]) -> None:
        self._number, self._group, self._begin = number, group, begin
        self._known = np.zeros(group.size, np.int64)
        self._known[number] = 1
        self.rank = Rank(number, begin(), self._work())
        self.sum: Any = None

    def _work(self) -> Turns:
        for call in range(1, self._group.calls.count + 1):
            run = self.rank.run = self._begin()
            run.place()
            run.memory.on_write = partial(self._stored, call, self._buffers(run))
            yield from self._tell(call, first=True)
            yield from run.host.in_turns(run.placed)
            self._deliver(run, call)
            yield from self._tell(call, first=False)
            yield Wait(partial(self._has_all, call), partial(self._why, call))
            for source in range(self._group.size):
                self._known = np.maximum(self._known, self._group.flags[self._number, source].released)
            self._add(run, call)
            yield None

    def _buffers(self, run: Run) -> list[Buffer]:
        return [run.memory.buffer(name) for name in run.placed[run.output].names_of_parts()]

    def _stored(self, call: int, buffers: Sequence[Buffer], access: Access, span: Span) -> None:
        """Note a store of the kernel: elements of an owner's matrix are in that owner's memory."""
        for owner, buffer in enumerate(buffers):
            rows = (span.addresses >= buffer.start) & (span.addresses < buffer.end)
            if not rows.any():
                continue
            width = ELEMENT_BYTES[buffer.dtype]
            offsets = (span.addresses[rows, None] + np.arange(0, span.size, width) - buffer.start).reshape(-1)
            at = offsets // buffer.stride, offsets % buffer.stride // width
            target = self._group.target(self._number, owner, call, (buffer.rows, buffer.columns))
            target.store(self._number, self._known, call, at)

    def _deliver(self, run: Run, call: int) -> None:
        """Copy the values to the owners when the kernel has ended. A read before that is reported as a race."""
        for owner, values in enumerate(run.results()):
            self._group.target(self._number, owner, call, values.shape).values = values

    def _tell(self, call: int, first: bool) -> Iterator[None]:
        """Set this rank's flags on all ranks: if `first`, those that are set before the kernel (a fault), otherwise the
        others."""
        for owner in range(self._group.size):
            sending = self._group.sending(self._number, owner)
            if sending.flag and sending.flag_first is first:
                reaches = sending.scope is Scope.sys or owner == self._number
                released = self._known.copy() if reaches else np.zeros_like(self._known)
                self._group.flags[owner, self._number] = _Flag(call - sending.behind, released)
                self._known[self._number] += 1
                yield None

    def _missing(self, call: int) -> list[int]:
        flags = self._group.flags
        return [source for source in range(self._group.size) if flags[self._number, source].epoch < call]

    def _has_all(self, call: int) -> bool:
        return not self._missing(call)

    def _why(self, call: int) -> str:
        found = [(source, self._group.flags[self._number, source].epoch) for source in self._missing(call)]
        return "; ".join(f"the flag of rank {source} is {epoch}, and the epoch is {call}" for source, epoch in found)

    def _add(self, run: Run, call: int) -> None:
        """The sum of the parts, in f32 from rank 0 on, rounded once; of integers without rounding."""
        shape = self._buffers(run)[self._number]
        parts = [
            self._group.part(self._number, call, source, (shape.rows, shape.columns)).load(self._known, call)
            for source in range(self._group.size)
        ]
        is_whole = np.issubdtype(parts[0].dtype, np.integer)
        total = parts[0] if is_whole else parts[0].astype(np.float32)
        for part in parts[1:]:
            total = total + (part if is_whole else part.astype(np.float32))
        self.sum = total.astype(parts[0].dtype)


def sum_on_owners(
    begin: Sequence[Callable[[], Run]], sendings: Mapping[tuple[int, int], Sending], calls: Calls, draw: Random
) -> list[Any]:
    """For each rank, the sum of the parts of its rows in the last call: (rows, N) in D's type. `begin`: for each rank,
    a function that begins a run of its kernel. Raises InterpreterError, which names the ranks, for races, deadlocks,
    and parts that are missing."""
    group = _Group(len(begin), sendings, calls)
    streams = [_Stream(number, group, each) for number, each in enumerate(begin)]
    take_turns([stream.rank for stream in streams], [], draw)
    return [stream.sum for stream in streams]
