"""The numbered barriers of a CTA: bar.sync, bar.arrive, bar.red (PTX ISA, "bar, barrier").

A round of a barrier ends when as many threads as its instructions say have arrived; without a number, all threads of
the CTA that have not ended (CUDA C++ Programming Guide, "Independent Thread Scheduling"). Threads arrive by warps. All
release their earlier accesses, and those that wait acquire them (PTX ISA, "Memory Consistency Model").
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from lowtide.interpreter.machine.agents import AgentState, Barrier, Cta, Steps, Wait
from lowtide.interpreter.machine.barriers import all_arrive, name_with_end
from lowtide.interpreter.machine.lanes import uniform
from lowtide.interpreter.machine.teams import WARP
from lowtide.interpreter.machine.views import NOTHING, View
from lowtide.interpreter.numbers.accesses import WHOLE_AGENT, Described
from lowtide.interpreter.program.batches import NotTogether

REDUCTIONS: Mapping[str, Any] = MappingProxyType(
    {"popc": lambda votes: int(np.count_nonzero(votes)), "and": lambda votes: bool(votes.all()), "or": np.any}
)


@dataclass(eq=False)
class Numbered(Barrier):
    """`arrived` are the agents that wait, `passed` the number of arrivals that do not wait, in this round.

    `expected` is the number of warps that the round is for, 0 for all of the CTA that have not ended. `gathered` is
    what arrivals without a wait have released. `votes` are the predicates of threads, `results` their reduction by
    round.
    """

    passed: int = 0
    expected: int | None = None
    gathered: View = NOTHING
    votes: list[Any] = field(default_factory=list)
    results: dict[int, Any] = field(default_factory=dict)

    def is_whole(self, cta: Cta) -> bool:
        """Whether all that the round is for have arrived."""
        count = len(self.arrived) + self.passed
        return count >= (self.expected or len(cta.machine.seats) - len(cta.ended)) and count > 0


def sync(state: AgentState, op: Described, identifier: Any, threads: Any = None) -> Steps:
    """Wait until all have arrived."""
    yield from _wait(state, op, *_enter(state, op, identifier, threads))


def sync_together(ctas: Sequence[Sequence[AgentState]], op: Described, identifier: Any, threads: Any = None) -> None:
    """As `sync`, by warps that end a round of the barrier. `ctas`: the warps of each CTA. Raises NotTogether, and
    changes nothing, if the warps of a CTA do not begin and end a round by themselves."""
    if not all(_end_a_round(states, identifier, threads) for states in ctas):
        raise NotTogether
    for states in ctas:
        name, gate = _enter(states[0], op, identifier, threads)
        for state in states[1:] if states[0].machine.order is not None else ():
            _enter(state, op, identifier, threads)
        gate.arrived = dict.fromkeys([state.warp for state in states], op)
        _settle(states[0], name, gate)


def _end_a_round(states: Sequence[AgentState], identifier: int, threads: int | None) -> bool:
    """Whether a round of a barrier begins and ends with the arrival of these warps of a CTA."""
    cta = states[0].cta
    gate = cta.barriers.get(str(identifier))
    is_fresh = gate is None or (isinstance(gate, Numbered) and not gate.arrived and not gate.passed)
    if threads is None:
        return is_fresh and 0 <= identifier < 16 and len(states) == len(cta.machine.seats) - len(cta.ended)
    return is_fresh and 0 <= identifier < 16 and threads == len(states) * WARP


def arrive(state: AgentState, op: Described, identifier: Any, threads: Any) -> None:
    """Arrive and go on."""
    name, gate = _enter(state, op, identifier, threads)
    cta, clocks = state.cta, state.cta.shared.clocks
    gate.passed += 1
    gate.gathered = gate.gathered.joined(clocks.released(state.warp))
    if state.machine.order is not None:
        state.machine.order.release(state.key, (cta.index, name, gate.rounds))
    _settle(state, name, gate)


def reduce(state: AgentState, op: Described, how: str, at: tuple[Any, Any], predicate: Any) -> Steps:
    """As `sync` at a barrier for a number of threads; returns the number of threads whose predicate holds (popc), or
    whether it holds for all or any."""
    name, gate = _enter(state, op, *at)
    lanes = np.broadcast_to(np.asarray(predicate, np.bool_), state.lanes.shape)
    gate.votes.append(lanes if state.mask is None else lanes[state.mask])
    mine = gate.rounds
    yield from _wait(state, op, name, gate)
    return REDUCTIONS[how](gate.results[mine])


def _enter(state: AgentState, op: Described, identifier: Any, threads: Any) -> tuple[str, Numbered]:
    """The barrier with a number, which the warp arrives at."""
    all_arrive(state, op)
    number = uniform(state, op, identifier)
    count = None if threads is None else uniform(state, op, threads)
    if not 0 <= number < 16:
        raise state.violation(op, f"barrier {number}: a CTA has the barriers 0 … 15 [barrier-number]")
    if count is not None and (count <= 0 or count % WARP):
        raise state.violation(op, f"a barrier of {count} threads: give a multiple of {WARP} [barrier-threads]")
    name, expected = str(number), 0 if count is None else count // WARP
    gate = state.cta.barriers.setdefault(name, Numbered())
    assert isinstance(gate, Numbered)
    if gate.expected not in (None, expected):
        raise state.violation(
            op,
            f"barrier {name} for {_threads(expected)}, where others arrived in this round for "
            f"{_threads(gate.expected or 0)}; give all of them one number [barrier-counts]",
        )
    gate.expected = expected
    if state.machine.order is not None:
        state.machine.order.enter(state.cta.index, name, state.warp, expected or len(state.machine.seats), op)
    return name, gate


def _threads(warps: int) -> str:
    return f"{warps * WARP} threads" if warps else "all threads"


def _wait(state: AgentState, op: Described, name: str, gate: Numbered) -> Steps:
    """The warp has arrived, and waits for the end of the round."""
    gate.arrived[state.warp] = op
    mine = gate.rounds
    _settle(state, name, gate)

    def is_over() -> bool:
        _settle(state, name, gate)  # an agent may have ended
        return gate.rounds > mine

    def why() -> str:
        cta = state.cta
        members = range(len(cta.machine.seats))
        expected = gate.expected or len(members) - len(cta.ended)
        missing = [warp for warp in members if warp not in gate.arrived and (gate.expected or warp not in cta.ended)]
        names = ", ".join(name_with_end(cta, warp) for warp in missing)
        count = len(gate.arrived) + gate.passed
        passing = f", {gate.passed} of them without a wait" if gate.passed else ""
        return f"barrier {name}: {count} of {expected} warps have arrived{passing}, not {names}"

    yield Wait(is_over, why)


def _settle(state: AgentState, name: str, gate: Numbered) -> None:
    """End the round if all have arrived."""
    if not gate.is_whole(state.cta):
        return
    cta, waiting, order = state.cta, sorted(gate.arrived), state.machine.order
    if order is not None:
        keys = [(cta.index, agent) for agent in waiting]
        order.meet(keys)
        for key in keys:
            order.acquire(key, (cta.index, name, gate.rounds))
    clocks = cta.shared.clocks
    if waiting:
        cta.shared.barrier(waiting)
    for agent in waiting:
        clocks.learn(agent, WHOLE_AGENT, gate.gathered)
    if gate.votes:
        gate.results[gate.rounds] = np.concatenate(gate.votes)
    gate.arrived, gate.passed, gate.expected, gate.votes = {}, 0, None, []
    gate.gathered = NOTHING
    gate.rounds += 1
