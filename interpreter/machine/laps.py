"""Loops in which nothing changes: they never end.

A *lap* is an iteration of a loop by a warp. It is *quiet* if the registers that the loop writes are the same before and
after it, and no memory and no mbarrier has changed meanwhile. A store of the value that memory already holds is not a
change. What a warp does in a loop depends only on its registers, on memory and on the barriers that it meets there. So
if each agent either repeats a quiet lap, or waits for something that has not come during these laps, then all further
laps are the same. This is a deadlock. An example: one thread of a CTA polls a flag and stores the value to shared
memory, and all threads load it after a barrier.

Laps are compared only after some iterations, and less often if they differ, because most loops count something. Laps
of only some lanes of a warp are not compared: the other lanes may continue.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from lowtide.interpreter.machine.agents import Agent, AgentState, Wait
from lowtide.interpreter.program.graphs import Loop

_FIRST = 8  # iterations before laps are compared
_WATCHED = 1 << 10  # ticks for which stores are compared with what is there


@dataclass(eq=False)
class Lap:
    """Laps of a loop by a warp, `passes` of them; the one of pass `due` is compared. `registers` are those at its
    start, `count` and `start` the changes and the tick then. `polls`: what it polls. `op`: where the loop ends."""

    loop: Loop
    op: Any
    passes: int = 0
    due: int = _FIRST
    registers: list[Any] | None = None
    count: int = 0
    start: int = 0
    polls: Sequence[Wait] = field(default_factory=list)

    def describe(self) -> str:
        """Where the warp is, after its name."""
        poll = next((each for each in reversed(self.polls) if each.op is not None), None)
        if poll is not None:
            return f"waits at {poll.op.describe()}: {poll.why()}"
        return f"is at {self.op.describe()}: in a loop, in which nothing changes"


def is_due(state: AgentState, edge: Any) -> bool:
    """A warp closes a lap. Returns whether `close` must compare it."""
    lap = state.laps.get(edge)
    if lap is None:
        lap = state.laps[edge] = Lap(edge.loop, state.op)
    lap.passes += 1
    return bool(lap.passes >= lap.due)


def close(state: AgentState, edge: Any, registers: list[Any], polls: Sequence[Wait]) -> bool:
    """Compare a lap with the one before, by the registers that the loop writes. Returns whether it was quiet."""
    lap, changes = state.laps[edge], state.machine.memory.changes
    old, count, start = lap.registers, lap.count, lap.start
    is_same = old is not None and all(same(x, y) for x, y in zip(old, registers, strict=True))
    lap.due = lap.passes + 1 if is_same or old is None else 2 * lap.passes
    lap.registers = registers if is_same or old is None else None
    lap.count, lap.start, lap.op = changes.count, changes.tick, state.op
    state.quiet = None
    if is_same:
        changes.watched = changes.tick + _WATCHED
        if count == changes.count:
            state.quiet = Lap(lap.loop, lap.op, count=count, start=start, polls=[*polls])
    return state.quiet is not None


def leave(state: AgentState, block: int) -> None:
    """The warp comes to a block; if that is outside of the loop of its last lap, it does something else."""
    if state.quiet is not None and block not in state.quiet.loop.blocks:
        state.quiet = None


def is_stuck(running: Sequence[Agent]) -> bool:
    """Whether no agent can do anything new: each repeats quiet laps, or has not continued since they began and
    still cannot."""
    changes = running[0].state.machine.memory.changes
    waiting, starts = [], []
    for agent in running:
        laps = [state.quiet for state in _states(agent)]
        if all(lap is not None and lap.count == changes.count for lap in laps):
            starts += [lap.start for lap in laps]
        else:
            waiting.append(agent)
    return bool(starts) and not any(
        each.waits is None or each.moved >= min(starts) or each.waits.ready() for each in waiting
    )


def _states(agent: Agent) -> Iterable[AgentState]:
    return [member.state for member in agent.members] or [agent.state]


def same(x: Any, y: Any) -> bool:
    """Whether two values of a slot are equal; false if that cannot be determined."""
    if x is y:
        return True
    if isinstance(x, tuple) and isinstance(y, tuple):
        return len(x) == len(y) and all(same(a, b) for a, b in zip(x, y, strict=True))
    if hasattr(x, "payload") and type(x) is type(y) and x.dtype == y.dtype:
        return bool(np.array_equal(x.payload, y.payload))
    bits = (int, float, np.generic, np.ndarray)
    return isinstance(x, bits) and isinstance(y, bits) and bool(np.all(np.equal(x, y)))
