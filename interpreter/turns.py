"""What ranks in one interpretation have in common: how one sends to another, and the turns that they take."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from lowtide.errors import InterpreterError
from lowtide.interpreter.api import Run
from lowtide.interpreter.machine.agents import Wait
from lowtide.interpreter.machine.views import Scope

_PACES = (0.5, 0.1, 0.01)  # the share of turns that copy engines have
Turns = Iterator[Wait | InterpreterError | None]


@dataclass(frozen=True)
class Sending:
    """How a rank sends a shard of A, or a part of D, to another rank. Values other than the defaults are faults.

    `flag`: whether the flag is written. `behind`: how much smaller the epoch in the flag is than it should be.
    `flag_first`: whether the flag is written before the data. `scope`: the scope of the write of the flag. `place`: the
    rank in whose place the data are stored; None: the sender. The flag is always that of the sender.
    """

    flag: bool = True
    behind: int = 0
    flag_first: bool = False
    scope: Scope = Scope.sys
    place: int | None = None


class Engine(Protocol):
    """A copy engine. `steps`: those that are left. `step` takes the first of them."""

    steps: list[Any]

    def step(self) -> None: ...


@dataclass
class Rank:
    """A rank's host function. `stuck`: what it waits for, or the deadlock of its agents; None if it can continue.
    `changes`: the number of changes of its memory after its last turn."""

    number: int
    run: Run
    turns: Turns | None = None
    stuck: Wait | InterpreterError | None = None
    changes: int = 0

    @property
    def can_continue(self) -> bool:
        if isinstance(self.stuck, Wait):
            return self.stuck.ready()
        return self.stuck is None or self.run.memory.changes.count != self.changes

    def why(self) -> str:
        """Why it cannot continue."""
        what = f"the host function waits: {self.stuck.why()}" if isinstance(self.stuck, Wait) else str(self.stuck)
        return f"rank {self.number}: {what}"

    def step(self) -> bool:
        """A turn of an agent. Returns whether the rank has ended."""
        self.turns = self.turns or self.run.host.in_turns(self.run.placed)
        try:
            self.stuck = next(self.turns)
        except StopIteration:
            return True
        except InterpreterError as error:
            raise type(error)(f"rank {self.number}: {error}") from error
        self.changes = self.run.memory.changes.count
        return False


def take_turns(ranks: list[Rank], engines: Sequence[Engine], draw: Random) -> None:
    """Run all ranks and copy engines to completion. Raises InterpreterError if no rank can continue."""
    pace, running = draw.choice(_PACES), list(ranks)
    while running or any(each.steps for each in engines):
        able = [rank for rank in running if rank.can_continue]
        busy = [each for each in engines if each.steps]
        if busy and (not able or draw.random() < pace):
            draw.choice(busy).step()
        elif able:
            rank = draw.choice(able)
            if rank.step():
                running.remove(rank)
        elif running:
            lines = "\n".join(rank.why() for rank in running)
            raise InterpreterError(f"deadlock of ranks: none can continue:\n{lines} [ranks-deadlock]")
