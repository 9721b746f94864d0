"""Windows of ranks on each other: who stored and read each element, and the flags that order them.

Two agents of a rank access windows: its stream, and its copy engine, which works beside the stream. Agent r is the
stream of rank r of R, and agent R + r its copy engine. `known` is the knowledge of an agent: for each agent, the time
up to which its work is ordered before what this one does next. An agent's own time grows with each flag that it sets.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.views import Scope
from lowtide.interpreter.turns import Sending

Ints = NDArray[np.int64]
Sendings = Mapping[tuple[int, int], Sending]
PARTS, SUMS = "part", "sum"
"""Kinds of windows and flags: a rank's part of a sum, for its owner; an owner's sum, for all ranks."""


@dataclass(frozen=True)
class Calls:
    """`count` calls of a product, one after the other. They use the `slots` slots of a window in turn. At least two
    slots are needed: with one, a rank stores its part of the next call where the owner may still read. `sums`: None, or
    the faults of sending sums, by (owner, target). If it is not None, owners send their sums to all ranks. `copies`:
    whether copy engines send the parts after the kernel; otherwise the kernel stores them in the windows."""

    count: int = 3
    slots: int = 2
    sums: Sendings | None = None
    copies: bool = False


@dataclass
class Place:
    """The place where the agent `source` stores, in one slot of the window of the rank `owner`.

    For each element, `writer` is 1 + the agent that stored it last (0: none), `stored` that agent's time of the store,
    and `call` the call of the store. `read` is the time of the last read by the owner's stream, before or after the
    store.
    """

    kind: str
    owner: int
    source: int
    ranks: int
    shape: tuple[int, int]
    values: Any = None
    writer: Ints = field(init=False)
    stored: Ints = field(init=False)
    call: Ints = field(init=False)
    read: Ints = field(init=False)

    def __post_init__(self) -> None:
        self.writer, self.stored, self.call, self.read = (np.zeros(self.shape, np.int64) for _ in range(4))

    def store(self, agent: int, known: Ints, call: int, at: Any) -> None:
        """Note that an agent stores elements. `at`: the indices of their rows and of their columns. Raises
        InterpreterError for a race."""
        writer, stored = self.writer[at], self.stored[at]
        late = (writer > 0) & (writer != agent + 1) & (stored > known[writer - 1])
        if late.any():
            self._fail(f"stores {self._name(at, late)}, which rank {self._rank(writer[late][0])} stored")
        if agent != self.owner and (late := self.read[at] > known[self.owner]).any():
            what = "for the sum of an earlier call" if self.kind == PARTS else "in an earlier call"
            self._fail(f"stores {self._name(at, late)}, which rank {self.owner} reads {what}")
        self.writer[at], self.stored[at], self.call[at] = agent + 1, known[agent], call

    def load(self, known: Ints, call: int) -> Any:
        """Returns all elements, which the owner's stream reads in a call. Raises InterpreterError for a race, and if
        the source has not stored them in this call."""
        at: Any = np.indices(self.shape)
        late = (self.writer > 0) & (self.writer != self.owner + 1) & (self.stored > known[self.writer - 1])
        if late.any():
            self._fail(f"reads {self._name(at, late)}, which rank {self._rank(self.writer[late][0])} stored")
        wrong = (self.writer != self.source + 1) | (self.call != call)
        if wrong.any():
            writer, of = self.writer[wrong][0], self.call[wrong][0]
            what = f"rank {self._rank(writer)} stored it last, in call {of}" if writer else "no rank has stored it"
            raise InterpreterError(
                f"reads {self._name(at, wrong)} in call {call}; {what}: rank {self.source % self.ranks} must store it "
                "in this call [ranks-part]"
            )
        self.read[...] = known[self.owner]
        return self.values

    def _rank(self, writer: int) -> int:
        return (int(writer) - 1) % self.ranks

    def _name(self, at: Any, chosen: Any) -> str:
        row, column = (int(each[chosen][0]) for each in at)
        source = self.source % self.ranks
        return f"element [{row}, {column}] of the {self.kind} of rank {source} in the memory of rank {self.owner}"

    def _fail(self, what: str) -> None:
        raise InterpreterError(
            f"race of ranks: {what}, and nothing orders the two accesses; set a flag at the scope .sys after the first,"
            " and wait for it before the second [ranks-race]"
        )


@dataclass
class _Flag:
    """A rank's flag on a rank. `released`: the knowledge that an agent gets when it acquires the flag."""

    epoch: int = 0
    released: Any = 0


@dataclass
class Group:
    """What the ranks share: places in windows, and flags, by (kind, owner, source)."""

    size: int
    sendings: Sendings
    calls: Calls
    _flags: dict[tuple[str, int, int], _Flag] = field(default_factory=dict)
    _places: dict[tuple[str, int, int, int], Place] = field(default_factory=dict)

    def sending(self, kind: str, source: int, owner: int) -> Sending:
        faults = self.sendings if kind == PARTS else self.calls.sums or MappingProxyType({})
        return faults.get((source, owner), Sending())

    def flag(self, kind: str, owner: int, source: int) -> _Flag:
        return self._flags.setdefault((kind, owner, source), _Flag())

    def tell(self, kind: str, agent: int, owner: int, call: int, known: Ints) -> None:
        """An agent sets its rank's flag on the rank `owner`. The agent's own time grows."""
        source = agent % self.size
        sending = self.sending(kind, source, owner)
        reaches = sending.scope is Scope.sys or owner == source
        flag = self.flag(kind, owner, source)
        flag.epoch, flag.released = call - sending.behind, known.copy() if reaches else np.zeros_like(known)
        known[agent] += 1

    def place(self, kind: str, owner: int, call: int, source: int, shape: tuple[int, int]) -> Place:
        """The place of the rows of rank `source` in the window of rank `owner`. All places have the same shape."""
        is_copied = kind == SUMS or (self.calls.copies and source != owner)
        key, agent = (kind, owner, call % self.calls.slots, source), source + self.size * is_copied
        return self._places.setdefault(key, Place(kind, owner, agent, self.size, shape))

    def target(self, kind: str, source: int, owner: int, call: int, shape: tuple[int, int]) -> Place:
        """The place where rank `source` stores its rows for an owner: its own, unless there is a fault."""
        place = self.sending(kind, source, owner).place
        return self.place(kind, owner, call, source if place is None else place, shape)
