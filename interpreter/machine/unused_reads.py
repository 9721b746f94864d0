"""Reads that race with a write, and whose value is never used: a race by the PTX ISA, which hardware forgives.

Compilers may let all threads of a CTA load an element, but only one of them store it: they guard the store and not the
load. The other threads may load the old or the new value, but nothing depends on it.

To check this costs time, so it is done only for loads that race. The first run that finds such a race says which load
to *watch*, and the launches run again (`launching.run`). Then each register of such a load depends on the load's lanes
(undefined.py), until it is overwritten. When an instruction with an effect uses such a register, the load is used: if
it has raced, the race is reported; otherwise it counts as an ordinary read from then on. When no register depends on it
any more, nothing refers to the `Read`, and it is freed.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, NoReturn
from weakref import ref

import numpy as np

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.reliances import UNUSED_READS, Relied
from lowtide.interpreter.numbers.accesses import Access, Span
from lowtide.interpreter.program.batches import NotTogether

_GRAIN = 16  # bytes; reads are kept by these
_MANY = 64  # reads of one grain, after which forgotten ones are removed

_STRONG = frozenset({"acquire", "relaxed", "volatile", "mmio"})


class Part(NamedTuple):
    """What one lane of a load reads: relative addresses; its thread, epoch and op, as the memory numbers them."""

    read: "ref[Read]"
    lane: int
    start: int
    end: int
    thread: int
    epoch: int
    site: int


@dataclass(eq=False)
class Read:
    """A load that is watched: `used` has a bit for each lane whose value is used, `races` the error of each lane that
    has raced. `note` makes parts of it reads like others."""

    note: Callable[[Iterable[Part]], None]
    parts: list[Part] = field(default_factory=list)
    used: int = 0
    races: dict[int, InterpreterError] = field(default_factory=dict)

    def use(self, lanes: int) -> None:
        """An effect depends on the values of some lanes, by their bits. Raises InterpreterError if one has raced."""
        for lane, error in self.races.items():
            if lanes >> lane & 1:
                raise error
        new, self.used = lanes & ~self.used, self.used | lanes
        if new:
            self.note(part for part in self.parts if new >> part.lane & 1)


@dataclass(eq=False)
class UnusedReads:
    """The watched loads of a memory, in one launch. `current`: the one that is executed now."""

    relied: Relied
    current: Read | None = None
    _parts: dict[int, list[Part]] = field(default_factory=dict)  # by grain

    def watch(self, op: Any) -> bool:
        """Whether a race of a load can be left to the next run, which watches it; that of other ops cannot."""
        line = line_of(op)
        if line is None or line in self.relied.watched:
            return False
        self.relied.wanted.add(line)
        return bool(self.relied.watched)  # the first run ends, because most races are faults

    def late(self, access: Access, lanes: Iterable[int], fail: Callable[[], NoReturn]) -> None:
        """Note that lanes read without order after a write. Calls `fail`, which raises, unless the load is watched."""
        if self.current is None:
            if access.ops or not self.watch(access.op):
                fail()
            return
        error = self.relied.note(UNUSED_READS, fail)
        for lane in lanes:
            self.current.races.setdefault(lane, error)

    def add(self, parts: Iterable[Part]) -> None:
        """The parts of the current load."""
        assert self.current is not None
        for part in parts:
            self.current.parts.append(part)
            for grain in range(part.start // _GRAIN, -(-part.end // _GRAIN)):
                held = self._parts.setdefault(grain, [])
                if len(held) % _MANY == _MANY - 1:
                    held[:] = [each for each in held if each.read() is not None]
                held.append(part)

    def before_write(
        self,
        access: Access,
        span: Span,
        is_late: Callable[[int, Part], bool],
        fail: Callable[[int, Part], NoReturn],
    ) -> None:
        """Rows of a span are written: loads of them that are not ordered before race. `is_late` says so of a row and a
        part. Raises NotTogether for several warps."""
        for row, start in enumerate(span.addresses.tolist() if self._parts else ()):
            end = start + span.size
            for grain in range(start // _GRAIN, -(-end // _GRAIN)):
                for part in self._parts.get(grain, ()):
                    read = part.read()
                    if read is None or part.start >= end or part.end <= start:
                        continue
                    if read.used >> part.lane & 1 or part.lane in read.races:
                        continue
                    if access.warps is not None:
                        raise NotTogether
                    if is_late(row, part):
                        read.races[part.lane] = self.relied.note(UNUSED_READS, partial(fail, row, part))


def line_of(op: Any) -> int | None:
    """The line of a load in the PTX; None for other ops."""
    instruction = getattr(op, "instruction", None)
    words = [] if instruction is None else instruction.name.split(".")
    is_load = bool(words) and words[0] in ("ld", "ldu") and not _STRONG.intersection(words)
    return int(instruction.line) if instruction is not None and is_load else None


def parts_of(read: Read, access: Access, span: Span, made: tuple[Any, Any, int]) -> list[Part]:
    """What each lane of a load reads. `made`: its threads, epochs and op."""
    columns = (np.broadcast_to(each, (len(span.addresses), 1))[:, 0].tolist() for each in made)
    lanes = np.asarray(access.lanes).tolist()
    return [
        Part(ref(read), lane, start, start + span.size, thread, epoch, site)
        for lane, start, thread, epoch, site in zip(lanes, span.addresses.tolist(), *columns, strict=True)
    ]
