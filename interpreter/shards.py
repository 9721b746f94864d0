"""What writes a rank's shard of A, and then its flag, in the memory of another rank: copy engines, and the base of
kernels that send (sent_shards.py)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from lowtide.errors import InterpreterError
from lowtide.interpreter.api import Run
from lowtide.interpreter.machine import patterns
from lowtide.interpreter.machine.clocks import Clocks
from lowtide.interpreter.machine.patterns import Ordering
from lowtide.interpreter.machine.views import ELSEWHERE, Strong
from lowtide.interpreter.machine.words import Word
from lowtide.interpreter.numbers.accesses import Access, Span
from lowtide.interpreter.numbers.codes import ELEMENT_BYTES
from lowtide.interpreter.turns import Sending

FLAG = "i32"
_PARTS = 3  # of the copy of a shard


@dataclass(frozen=True)
class _Step:
    """What a writer does next, for messages."""

    text: str

    def describe(self) -> str:
        return self.text


@dataclass
class ShardWriter:
    """Writes the shard of rank `source`, and then its flag, in the memory of rank `target`. `steps`: what is left to
    do. `noted`: its writes so far, in order. The third element is the ordering of the release; None if the write
    releases nothing."""

    source: int
    target: int
    devices: Sequence[Run]
    sending: Sending
    clocks: Clocks = field(init=False)
    steps: list[Callable[[], None]] = field(default_factory=list)
    noted: list[tuple[Access, Span, Ordering | None]] = field(default_factory=list)
    who: ClassVar[str]

    def __post_init__(self) -> None:
        self.clocks = Clocks(1, [self._name])
        self._run.memory.devices.append(self._note_again)

    @property
    def _name(self) -> str:
        return f"{self.who} of rank {self.source}"

    @property
    def _run(self) -> Run:
        return self.devices[self.target]

    @property
    def _number(self) -> int:
        return ELSEWHERE + self.source

    def step(self) -> None:
        """The next copy of rows, or the write of the flag."""
        self._run.memory.enter(self._number, self.clocks)
        step = self.steps.pop(0)
        try:
            step()
        except InterpreterError as error:
            raise type(error)(f"rank {self.target}: {error}") from error

    def enqueue(self, copies: Sequence[Callable[[], None]], flag: Callable[[], None]) -> None:
        """Add the steps that send a shard: the copies, and then the flag. A fault (`sending`) may change this."""
        flags = [flag] if self.sending.flag else []
        self.steps += [*flags, *copies] if self.sending.flag_first else [*copies, *flags]

    def write_rows(self, rows: Any, values: Any) -> None:
        """Write rows of the shard. `rows`: their numbers. `values`: their payload, (number of rows, K)."""
        matrix, memory = self.matrix("a"), self._run.memory
        if not rows.size or not matrix.shape[2]:
            return
        place = self.source if self.sending.place is None else self.sending.place
        batch, row = (stride * matrix.element.bytes for stride in matrix.strides)
        addresses = matrix.address + place * batch + rows * row
        access = self._access(f"copy of shard {self.source} to rank {self.target}", len(rows))
        memory.store(access, addresses, values, matrix.element.name, matrix.shape[2], align=matrix.element.bytes)
        span = memory.span(access, addresses, matrix.shape[2] * matrix.element.bytes, matrix.element.bytes)
        self.noted.append((access, span, None))

    def write_flag(self, epoch: int, strong: Strong | None, ordering: Ordering | None) -> None:
        """Write the flag. `strong`: None for a weak store. `ordering`: of the release; None if the store releases
        nothing."""
        matrix, memory = self.matrix("arrived"), self._run.memory
        address = np.array([matrix.address + self.source * ELEMENT_BYTES[FLAG]])
        access = replace(self._access(f"flag of shard {self.source} at rank {self.target}", 1), strong=strong)
        memory.store(access, address, np.array([[epoch - self.sending.behind]]), FLAG)
        span = memory.span(access, address, ELEMENT_BYTES[FLAG])
        self.noted.append((access, span, ordering))
        self._release(span, ordering)

    def _release(self, span: Span, ordering: Ordering | None) -> None:
        if ordering is not None:
            word: Word = self._run.memory.words.at(int(span.addresses[0]), ELEMENT_BYTES[FLAG])
            patterns.write(self.clocks, 0, 0, word, ordering)

    def _note_again(self) -> None:
        """A launch has begun. It does not order these writes before what follows, so they are noted again."""
        memory = self._run.memory
        memory.enter(self._number, self.clocks)
        for access, span, ordering in self.noted:
            memory.note_write(access, memory.renewed(span))
            self._release(span, ordering)

    def _access(self, what: str, rows: int) -> Access:
        return Access(self._number, 0, np.zeros(rows, np.int32), _Step(what), "", self._name)

    def matrix(self, name: str, rank: int | None = None) -> Any:
        """An operand of the kernel of rank `rank`, in its memory; None: of the target."""
        at = next(at for at, each in enumerate(self._run.arguments) if each.name == name)
        return self.devices[self.target if rank is None else rank].placed[at]


class CopyEngine(ShardWriter):
    """Copies the shard in parts, and then writes the flag."""

    who = "the copy engine"

    def __post_init__(self) -> None:
        super().__post_init__()
        self.enqueue([partial(self._copy, part) for part in range(_PARTS)], self._flag)

    def _copy(self, part: int) -> None:
        matrix = self.matrix("a")
        rows = np.array_split(np.arange(matrix.shape[1]), _PARTS)[part]
        payload, _ = self.devices[self.source].memory.contents(self.matrix("a", self.source).name)
        self.write_rows(rows, payload.reshape(matrix.shape[0], -1, matrix.shape[2])[self.source, rows])

    def _flag(self) -> None:
        turn = next(each.value for each in self._run.arguments if each.name == "turn")
        scope = self.sending.scope
        self.write_flag(int(np.asarray(turn)[1]), Strong(scope, ELEMENT_BYTES[FLAG]), Ordering(scope, releases=True))
