"""Several GPUs: each rank stores the parts of D in its peers' memory, and each owner adds the parts of its rows.

The stream of a rank has the kernel, a flag on each rank, a wait for the flags of all ranks, and the sum of the parts
from rank 0 on. With `Calls.copies`, the kernel stores the parts in the rank's own memory instead, and then the copy
engine sends each part and a flag. For an all-reduce, the copy engine of the owner then copies the sum and a flag of
another kind to each other rank, while the stream waits for the flags of the other sums and reads them. The next call of
the stream begins when these copies have ended.

Two accesses of a window by different agents must be ordered by a flag (windows.py). Its write at the scope .sys
releases the earlier work of the stream (`STREAM_ORDER` in ranks.py), and the wait acquires that. The kernel's own
accesses are checked in the memory of its rank, as for one GPU. Waits, sums and copies are steps of the model, not
kernels.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import numpy as np

from lowtide.errors import InterpreterError
from lowtide.interpreter.api import Run
from lowtide.interpreter.machine.agents import Wait
from lowtide.interpreter.numbers.accesses import Access, Span
from lowtide.interpreter.numbers.cells import Buffer
from lowtide.interpreter.numbers.codes import ELEMENT_BYTES
from lowtide.interpreter.turns import Rank, Turns, take_turns
from lowtide.interpreter.windows import PARTS, SUMS, Calls, Group, Ints, Sendings

_COPIES = 2  # of the rows for one rank


@dataclass
class _Engine:
    """The copy engine of a rank. `steps`: those that are left."""

    number: int
    group: Group
    known: Ints
    steps: list[Callable[[], None]] = field(default_factory=list)

    def send(self, kind: str, known: Ints, call: int, rows: Mapping[int, Any]) -> None:
        """Enqueue copies of a call. `rows`: what is copied, by target, in this order; each target also gets a flag. The
        copies follow earlier work of the stream, which has the knowledge `known`."""
        self.steps.append(partial(self._learn, known.copy()))
        for target, values in rows.items():
            sending = self.group.sending(kind, self.number, target)
            parts = [each for each in np.array_split(np.arange(len(values)), _COPIES) if each.size]
            copies: list[Callable[[], None]] = [partial(self._copy, kind, target, call, values, each) for each in parts]
            tell = partial(self.group.tell, kind, self._agent, target, call, self.known)
            flag: list[Callable[[], None]] = [tell] if sending.flag else []
            self.steps += [*flag, *copies] if sending.flag_first else [*copies, *flag]

    def step(self) -> None:
        """The next copy of rows, or the write of a flag."""
        self.steps.pop(0)()

    @property
    def _agent(self) -> int:
        return self.group.size + self.number

    def _learn(self, known: Ints) -> None:
        np.maximum(self.known, known, out=self.known)
        self.known[self._agent] += 1  # the stream knows the copies before, but not those that follow

    def _copy(self, kind: str, target: int, call: int, values: Any, rows: Any) -> None:
        place = self.group.target(kind, self.number, target, call, values.shape)
        try:
            place.store(
                self._agent, self.known, call, tuple(np.meshgrid(rows, np.arange(values.shape[1]), indexing="ij"))
            )
        except InterpreterError as error:
            raise type(error)(f"rank {self.number}: {error}") from error
        held = np.zeros_like(values) if place.values is None else place.values.copy()
        held[rows] = values[rows]
        place.values = held


class _Stream:
    """The stream of one rank. `result`: of the last call."""

    def __init__(self, number: int, group: Group, begin: Callable[[], Run]) -> None:
        self._number, self._group, self._begin = number, group, begin
        self._known = np.zeros(2 * group.size, np.int64)
        self._known[number] = 1
        self.engine = _Engine(number, group, self._known.copy())
        self.rank = Rank(number, begin(), self._work())
        self.result: Any = None

    def _work(self) -> Turns:
        for call in range(1, self._group.calls.count + 1):
            run = self.rank.run = self._begin()
            run.place()
            if not self._group.calls.copies:
                run.memory.on_write = partial(self._stored, call, self._buffers(run))
            yield from self._tell(call, first=True)
            yield from run.host.in_turns(run.placed)
            self._deliver(run, call)
            yield from self._tell(call, first=False)
            yield from self._await(PARTS, call)
            self.result = self._sum_of(run, call)
            yield None
            if self._group.calls.sums is not None:
                yield from self._exchange(call)
            yield Wait(lambda: not self.engine.steps, lambda: "its copy engine has not ended")
            self._known = np.maximum(self._known, self.engine.known)

    def _await(self, kind: str, call: int) -> Iterator[Wait]:
        """Wait for the flags of all ranks, and acquire them. A rank sets no flag of a sum for itself."""
        group, ranks = self._group, range(self._group.size)
        flags = {each: group.flag(kind, self._number, each) for each in ranks if (kind, each) != (SUMS, self._number)}

        def late() -> dict[int, int]:
            return {source: flag.epoch for source, flag in flags.items() if flag.epoch < call}

        def why() -> str:
            of = "" if kind == PARTS else f" of a {kind}"
            return "; ".join(
                f"the flag{of} of rank {each} is {at}, and the epoch is {call}" for each, at in late().items()
            )

        yield Wait(lambda: not late(), why)
        for flag in flags.values():
            self._known = np.maximum(self._known, flag.released)

    def _exchange(self, call: int) -> Turns:
        """Send this rank's sum by the copy engine. The result becomes the sums of all ranks, (ranks, rows, N)."""
        own, group = self.result, self._group
        self.engine.send(SUMS, self._known, call, dict.fromkeys(self._peers, own))
        yield from self._await(SUMS, call)
        ranks = range(group.size)
        places = {
            each: group.place(SUMS, self._number, call, each, own.shape) for each in ranks if each != self._number
        }
        sums = {source: place.load(self._known, call) for source, place in places.items()}
        self.result = np.stack([sums.get(each, own) for each in ranks])

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
            target = self._group.target(PARTS, self._number, owner, call, (buffer.rows, buffer.columns))
            target.store(self._number, self._known, call, at)

    def _deliver(self, run: Run, call: int) -> None:
        """The values reach the owners when the kernel has ended. A read before that is reported as a race."""
        parts, known, group = run.results(), self._known, self._group
        if not group.calls.copies:
            for owner, values in enumerate(parts):
                group.target(PARTS, self._number, owner, call, values.shape).values = values
            return
        own = group.place(PARTS, self._number, call, self._number, parts[self._number].shape)
        own.store(self._number, known, call, tuple(np.indices(own.shape)))
        own.values = parts[self._number]
        self.engine.send(PARTS, known, call, {owner: parts[owner] for owner in self._peers})

    @property
    def _peers(self) -> list[int]:
        """The other ranks, in the order in which this one sends to them."""
        return [(self._number + step) % self._group.size for step in range(1, self._group.size)]

    def _tell(self, call: int, first: bool) -> Iterator[None]:
        """Set the flags that the stream sets: those on all ranks, or, if copies set the others, only that on this rank.
        If `first`, only flags that are set before the kernel, which is a fault; otherwise only the others."""
        for owner in [self._number] if self._group.calls.copies else range(self._group.size):
            sending = self._group.sending(PARTS, self._number, owner)
            if sending.flag and sending.flag_first is first:
                self._group.tell(PARTS, self._number, owner, call, self._known)
                yield None

    def _sum_of(self, run: Run, call: int) -> Any:
        """The sum of the parts, in f32 from rank 0 on, rounded once; of integers without rounding."""
        shape = self._buffers(run)[self._number]
        parts = [
            self._group.place(PARTS, self._number, call, source, (shape.rows, shape.columns)).load(self._known, call)
            for source in range(self._group.size)
        ]
        is_whole = np.issubdtype(parts[0].dtype, np.integer)
        total = parts[0] if is_whole else parts[0].astype(np.float32)
        for part in parts[1:]:
            total = total + (part if is_whole else part.astype(np.float32))
        return total.astype(parts[0].dtype)


def sum_on_owners(begin: Sequence[Callable[[], Run]], sendings: Sendings, calls: Calls, draw: Random) -> list[Any]:
    """For each rank, the sum of the parts of its rows in the last call: (rows, N) in D's type. If sums are sent, those
    of all ranks: (ranks, rows, N). `begin`: for each rank, a function that begins a run of its kernel. Raises
    InterpreterError, which names the ranks, for races, deadlocks, and parts or sums that are missing."""
    group = Group(len(begin), sendings, calls)
    streams = [_Stream(number, group, each) for number, each in enumerate(begin)]
    take_turns([stream.rank for stream in streams], [stream.engine for stream in streams], draw)
    return [stream.result for stream in streams]
