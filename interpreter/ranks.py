"""Several GPUs: a kernel on each rank, and the copy engines that fill the shards of A, in one interpretation.

Each rank has a device with memory of its own. The agents of all devices take turns, drawn from a seed. The copy engine
of a rank copies its own shard to each other rank, in parts, and then writes the flag of the shard there, in the order
of its stream (`STREAM_ORDER`). A wait for a flag that nobody writes any more is a deadlock. What a copy engine writes
is ordered before the accesses of a kernel only by an acquire of the flag at the scope .sys.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from types import MappingProxyType
from typing import Any

import numpy as np

from lowtide.errors import InterpreterError
from lowtide.interpreter.api import Loaded, Run
from lowtide.interpreter.machine import patterns
from lowtide.interpreter.machine.clocks import Clocks
from lowtide.interpreter.machine.options import MAX_STEPS, Observers, Options
from lowtide.interpreter.machine.patterns import Ordering
from lowtide.interpreter.machine.views import ELSEWHERE, Strong
from lowtide.interpreter.machine.words import Word
from lowtide.interpreter.numbers import domains
from lowtide.interpreter.numbers.accesses import Access, Span
from lowtide.interpreter.numbers.codes import ELEMENT_BYTES
from lowtide.interpreter.peers import sum_on_owners
from lowtide.interpreter.turns import Rank, Sending, take_turns
from lowtide.interpreter.windows import Calls

STREAM_ORDER = (
    "stream order: a copy of a copy engine or the stores of a kernel, and the write of a flag behind it on the same "
    "stream, are writes and a release at the scope .sys for a kernel on another GPU"
)
"""What this model assumes of copy engines, because the PTX ISA does not say it. benchmarks/litmus/run_peers.py tests
it."""

_PARTS = 3  # of the copy of a shard
_FLAG = "i32"
_CALLS = Calls()


@dataclass(frozen=True)
class _Step:
    """What a copy engine does next, for messages."""

    text: str

    def describe(self) -> str:
        return self.text


@dataclass
class _CopyEngine:
    """Copies the shard of one rank to another, and writes its flag. `noted`: what it has written, in order."""

    source: int
    target: int
    devices: Sequence[Run]
    sending: Sending
    clocks: Clocks = field(init=False)
    noted: list[tuple[Access, Span]] = field(default_factory=list)
    steps: list[Any] = field(init=False)  # parts of the copy, None for the flag

    def __post_init__(self) -> None:
        self.clocks = Clocks(1, [f"the copy engine of rank {self.source}"])
        flags: list[int | None] = [None] if self.sending.flag else []
        parts: list[int | None] = [*range(_PARTS)]
        self.steps = [*flags, *parts] if self.sending.flag_first else [*parts, *flags]
        self._run.memory.devices.append(self._note_again)

    @property
    def _run(self) -> Run:
        return self.devices[self.target]

    @property
    def _number(self) -> int:
        return ELSEWHERE + self.source

    def step(self) -> None:
        """The next copy of rows, or the write of the flag."""
        self._run.memory.enter(self._number, self.clocks)
        part = self.steps.pop(0)
        try:
            if part is None:
                self._flag()
            else:
                self._copy(part)
        except InterpreterError as error:
            raise type(error)(f"rank {self.target}: {error}") from error

    def _copy(self, part: int) -> None:
        matrix, memory = self._matrix("a"), self._run.memory
        rows = np.array_split(np.arange(matrix.shape[1]), _PARTS)[part]
        if not rows.size or not matrix.shape[2]:
            return
        place = self.source if self.sending.place is None else self.sending.place
        payload, _ = self.devices[self.source].memory.contents(self._matrix("a", self.source).name)
        values = payload.reshape(matrix.shape[0], -1, matrix.shape[2])[self.source, rows]
        batch, row = (stride * matrix.element.bytes for stride in matrix.strides)
        addresses = matrix.address + place * batch + rows * row
        access = self._access(f"copy of shard {self.source} to rank {self.target}", len(rows))
        memory.store(access, addresses, values, matrix.element.name, matrix.shape[2], align=matrix.element.bytes)
        span = memory.span(access, addresses, matrix.shape[2] * matrix.element.bytes, matrix.element.bytes)
        self.noted.append((access, span))

    def _flag(self) -> None:
        matrix, memory = self._matrix("arrived"), self._run.memory
        address = np.array([matrix.address + self.source * ELEMENT_BYTES[_FLAG]])
        turn = self._run.arguments[self._place("turn")].value
        epoch = int(np.asarray(turn)[1]) - self.sending.behind
        access = self._access(f"flag of shard {self.source} at rank {self.target}", 1)
        access = replace(access, strong=Strong(self.sending.scope, ELEMENT_BYTES[_FLAG]))
        memory.store(access, address, np.array([[epoch]]), _FLAG)
        span = memory.span(access, address, ELEMENT_BYTES[_FLAG])
        self.noted.append((access, span))
        self._release(span)

    def _release(self, span: Span) -> None:
        word: Word = self._run.memory.words.at(int(span.addresses[0]), ELEMENT_BYTES[_FLAG])
        patterns.write(self.clocks, 0, 0, word, Ordering(self.sending.scope, releases=True))

    def _note_again(self) -> None:
        """A launch has begun. It does not order these writes before what follows, so they are noted again."""
        memory = self._run.memory
        memory.enter(self._number, self.clocks)
        for access, span in self.noted:
            memory.note_write(access, memory.renewed(span))
            if access.strong is not None:
                self._release(span)

    def _access(self, what: str, rows: int) -> Access:
        lanes = np.zeros(rows, np.int32)
        return Access(self._number, 0, lanes, _Step(what), "", f"the copy engine of rank {self.source}")

    def _place(self, name: str) -> int:
        return next(at for at, each in enumerate(self._run.arguments) if each.name == name)

    def _matrix(self, name: str, rank: int | None = None) -> Any:
        return self.devices[self.target if rank is None else rank].placed[self._place(name)]


def interpret_ranks(
    module: Any,
    ranks: Sequence[Mapping[str, Any]],
    *,
    sms: int = 2,
    seed: int = 0,
    domain: str = "float",
    max_steps: int = MAX_STEPS,
    sendings: Mapping[tuple[int, int], Sending] = MappingProxyType({}),
    calls: Calls = _CALLS,
) -> list[Any]:
    """Run a product whose shards arrive (`GemmSpec(arrivals=True)`) on all ranks. Returns the results of each rank.

    `ranks`: the inputs of each rank, as for `interpret`. They have the rank's own shard of A, `a[rank]`, and its flag.
    The copy engines of the other ranks overwrite the other shards and flags: their contents in `a` and `arrived` are
    those of an earlier call. `seed` determines the order of agents, devices and copies. `sendings`: faults of copies,
    by (source, target). The other arguments are those of `interpret`.

    If D is a list (`lists="d"`), all of A is there, and product q has the rows that rank q owns. Each rank sends it to
    rank q's memory and sets a flag there. The owner waits for all flags, and adds the parts of its rows (peers.py). The
    result of a rank is this sum, (M, N) in D's type; if owners send their sums to all ranks (`Calls.sums`), it is
    (ranks, M, N). `calls`: the number of calls and slots, and how parts and sums are sent. `sendings`: faults of parts,
    by (source, owner).

    Raises InterpreterError as `interpret` does, with the rank. Also raises it if all ranks that have not ended wait,
    with what each waits for.
    """
    loaded, numbers = module if isinstance(module, Loaded) else Loaded(module), domains.domain(domain)
    options = Options(sms, seed, max_steps, timeless=True)
    devices = [Run(loaded, inputs, numbers, options, Observers()) for inputs in ranks]
    _check(devices)
    if devices[0].stores_to_list:
        begin = [partial(Run, loaded, inputs, numbers, options, Observers()) for inputs in ranks]
        with np.errstate(all="ignore"):
            return sum_on_owners(begin, sendings, calls, Random(seed))
    with np.errstate(all="ignore"):
        for device in devices:
            device.place()
        pairs = [(source, target) for source in range(len(ranks)) for target in range(len(ranks)) if source != target]
        engines = [_CopyEngine(*pair, devices, sendings.get(pair, Sending())) for pair in pairs]
        take_turns([Rank(*each) for each in enumerate(devices)], engines, Random(seed))
    return [device.results(("a", "arrived")) for device in devices]


def _check(devices: Sequence[Run]) -> None:
    """Raises InterpreterError for a product without arrivals, or if the inputs do not fit the ranks and their order."""
    for number, device in enumerate(devices):
        given = {each.name: each for each in device.arguments}
        if not {"arrived", "turn"} <= {*given}:
            raise InterpreterError("ranks run products whose shards arrive: GemmSpec(arrivals=True) [ranks-arrivals]")
        shards, rank = np.shape(given["a"].value)[0], int(np.asarray(given["turn"].value)[0])
        rank = number if device.stores_to_list else rank  # there, it says where a rank begins
        if shards != len(devices) or rank != number:
            raise InterpreterError(
                f"inputs {number} of {len(devices)} ranks: a has {shards} shards, and turn says rank {rank}; give the "
                f"inputs of ranks 0 to {len(devices) - 1}, in order, with a shard for each [ranks-shards]"
            )
