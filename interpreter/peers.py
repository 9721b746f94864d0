"""Several GPUs: each rank stores the parts of D in its peers' memory, and each owner adds the parts of its rows.

The work of a rank is that of one stream: the kernel, a flag on each rank, a wait for the flags of all ranks, and the
sum of the parts from rank 0 on. For an all-reduce, the copy engine of the owner then copies the sum to all other ranks,
each with a flag of another kind, while the stream waits for the flags of the other sums and reads them. The next call
of the stream begins when these copies have ended.

Two accesses of a window by different agents must be ordered by a flag (windows.py): its write at the scope .sys, behind
the work before it in the stream (`STREAM_ORDER` in ranks.py), is a release; the wait acquires. The kernel's own
accesses are checked in the memory of its rank, as for one GPU. Waits, sums and copies are steps of the model, not
kernels.
"""

from collections.abc import Callable, Iterator, Sequence
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

_COPIES = 2  # of the rows of a sum for one rank


@dataclass
class _Engine:
    """The copy engine of a rank, which sends the sum of a call. `steps`: for each that is left, the target and rows;
    None in place of rows: the flag."""

    number: int
    group: Group
    known: Ints
    steps: list[Any] = field(default_factory=list)
    call: int = 0
    sum: Any = None

    def begin(self, known: Ints, call: int, total: Any) -> None:
        """The engine gets the copies of a call, behind earlier work of the stream that knows `known`."""
        self.known = np.maximum(known, self.known)
        self.known[self.group.size + self.number] += 1  # the stream knows the copies of earlier calls, but not these
        self.call, self.sum = call, total
        parts = [each for each in np.array_split(np.arange(len(total)), _COPIES) if each.size]
        for step in range(1, self.group.size):
            target = (self.number - step) % self.group.size
            sending = self.group.sending(SUMS, self.number, target)
            flag, copies = [(target, None)] * sending.flag, [(target, each) for each in parts]
            self.steps += [*flag, *copies] if sending.flag_first else [*copies, *flag]

    def step(self) -> None:
        """The next copy of rows, or the write of a flag."""
        target, rows = self.steps.pop(0)
        agent = self.group.size + self.number
        if rows is None:
            self.group.tell(SUMS, agent, target, self.call, self.known)
            return
        columns = np.arange(self.sum.shape[1])
        place = self.group.target(SUMS, self.number, target, self.call, self.sum.shape)
        try:
            place.store(agent, self.known, self.call, tuple(np.meshgrid(rows, columns, indexing="ij")))
        except InterpreterError as error:
            raise type(error)(f"rank {self.number}: {error}") from error
        values = np.zeros_like(self.sum) if place.values is None else place.values.copy()
        values[rows] = self.sum[rows]
        place.values = values


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
        """The copy engine sends this rank's sum; the result becomes that of all ranks, (ranks, rows, N)."""
        own, group, engine = self.result, self._group, self.engine
        engine.begin(self._known, call, own)
        yield from self._await(SUMS, call)
        ranks = range(group.size)
        places = {
            each: group.place(SUMS, self._number, call, each, own.shape) for each in ranks if each != self._number
        }
        sums = {source: place.load(self._known, call) for source, place in places.items()}
        self.result = np.stack([sums.get(each, own) for each in ranks])
        yield Wait(lambda: not engine.steps, lambda: "its copy engine has not ended")
        self._known = np.maximum(self._known, engine.known)

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
        """Copy the values to the owners when the kernel has ended. A read before that is reported as a race."""
        for owner, values in enumerate(run.results()):
            self._group.target(PARTS, self._number, owner, call, values.shape).values = values

    def _tell(self, call: int, first: bool) -> Iterator[None]:
        """Set this rank's flags on all ranks: if `first`, those that are set before the kernel (a fault), otherwise the
        others."""
        for owner in range(self._group.size):
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
