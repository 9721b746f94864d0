"""Whether the result of a run holds for every order of its agents: the report, and the checks during a run.

The rule and its argument: docs/verification.md, "Every interleaving". program/dependence.py checks its premise about
the program. The checks here, of each run: the phase of each arrival, the phase of each wait, and the agents that meet
in a barrier do not depend on timing.

The *past* is what has happened before in any order: for each mbarrier the number of finished phases, and for each agent
the number of phases that it has waited for. Unlike the clocks of memory, copies pass it on too: they begin after the
waits of their thread and end before their bytes are counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from lowtide.interpreter.numbers.accesses import Described
from lowtide.interpreter.program.dependence import Dependence


class Phased(Protocol):
    """An mbarrier: its name in messages, and the number of its finished phases."""

    name: str
    completed: int


Agent: TypeAlias = tuple[int, int]
"""A CTA and one of its agents."""

Past: TypeAlias = dict[Any, int]
"""By mbarrier, the number of finished phases; by agent and mbarrier, the number of phases that the agent waited for."""

_SHOWN = 8


@dataclass(eq=False)
class Report:
    """Filled by `interpret`: the orders of agents for which the run speaks.

    `kernels`: the kernels that ran, each with the places where its control flow or addresses depend on data or timing.
    `timed`: the parts of the run's synchronisation that depend on timing, as texts.
    """

    kernels: dict[str, list[Dependence]] = field(default_factory=dict)
    timed: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether the run's verdict holds for every order of agents; true for a run without kernels."""
        return not self.timed and not any(self.kernels.values())

    def note(self, text: str) -> None:
        """Note that something depends on timing."""
        if text not in self.timed:
            self.timed.append(text)

    def __str__(self) -> str:
        if self.holds:
            return (
                "for every order of agents: control flow, addresses and synchronisation depend on neither data nor "
                "timing"
            )
        found = [str(each) for dependences in self.kernels.values() for each in dependences] + self.timed
        more = [f"and {len(found) - _SHOWN} more"] if len(found) > _SHOWN else []
        return "\n".join(["for this order of agents only:", *(f"  {line}" for line in [*found[:_SHOWN], *more])])


@dataclass(eq=False)
class Order:
    """The past of the agents of one launch. Violations of the rule are noted in `report`."""

    report: Report
    past: dict[Agent, Past] = field(default_factory=dict)
    gathered: dict[Phased, Past] = field(default_factory=dict)
    over: dict[Phased, list[Past]] = field(default_factory=dict)  # by phase: the knowledge that a wait for it gains
    waited: dict[Phased, dict[Agent, int]] = field(default_factory=dict)  # the phase that each last waited for, + 1
    users: dict[Any, set[int]] = field(default_factory=dict)  # by CTA, barrier and number of agents
    released: dict[Any, Past] = field(default_factory=dict)  # by semaphore, or round of a cluster's barrier
    arrivals: dict[int, int] = field(default_factory=dict)  # by semaphore, since it was reset
    awaited: dict[int, int] = field(default_factory=dict)  # by semaphore: the smallest number that a wait was for

    def of(self, agent: Agent) -> Past:
        """The past of an agent, to be added to."""
        return self.past.setdefault(agent, {})

    # mbarriers

    def signal(self, agent: Agent, op: Described, barrier: Phased) -> None:
        """An agent arrives at an mbarrier, expects bytes there, or starts a copy that signals it."""
        past = self.of(agent)
        if past.get(barrier, 0) < barrier.completed:
            self.report.note(
                f"{op.describe()} counts for phase {barrier.completed} of {barrier.name}, but nothing orders it after "
                f"phase {barrier.completed - 1}, for which it may count too; wait for that phase before"
            )
        join(self.gathered.setdefault(barrier, {}), past)

    def complete(self, barrier: Phased) -> None:
        """A phase has ended, the last of `barrier.completed`. No agent may still have to wait for the one before it."""
        gathered, over = self.gathered.pop(barrier, {}), self.over.setdefault(barrier, [])
        for agent, waited in self.waited.get(barrier, {}).items():
            if waited == barrier.completed - 1 and gathered.get((agent, barrier), 0) < waited:
                self.report.note(
                    f"phase {barrier.completed - 1} of {barrier.name} may end before agent {agent[1]} of CTA "
                    f"{agent[0]} has seen phase {waited - 1} end, whose parity is then that of the present phase; let "
                    "it arrive for a phase only after it has waited for the one before"
                )
        over.append(gathered)

    def learn(self, agent: Agent, op: Described, barrier: Phased, parity: int) -> None:
        """A wait for a parity, or a poll, has succeeded."""
        past = self.of(agent)
        known = past.get(barrier, 0)
        phase = known if known & 1 == parity else known - 1
        if phase < 0:  # the phase before the first, which has ended
            return
        if barrier.completed > phase + 1:
            self.report.note(
                f"{op.describe()} waits for phase {phase} of {barrier.name} when phase {barrier.completed - 1} is over "
                "and may have to wait for a later phase of that parity"
            )
        join(past, self.over[barrier][phase])
        past[barrier] = max(known, phase + 1)
        past[agent, barrier] = phase + 1
        waits = self.waited.setdefault(barrier, {})
        waits[agent] = phase + 1

    # Barriers and semaphores

    def enter(self, cta: int, name: str, agent: int, expected: int, op: Described) -> None:
        """An agent arrives at a barrier of this many agents."""
        users = self.users.setdefault((cta, name, expected), set())
        users.add(agent)
        if len(users) > expected:
            self.report.note(
                f"{op.describe()}: barrier {name} of {expected} warps is used by {len(users)}; which of them meet "
                "depends on timing; give each group its own barrier"
            )

    def meet(self, agents: Iterable[Agent]) -> None:
        """A barrier's round has ended: its agents have the same past."""
        pasts = [self.of(agent) for agent in agents]
        together: Past = {}
        for past in pasts:
            join(together, past)
        for past in pasts:
            past.update(together)

    def release(self, agent: Agent, key: Any) -> None:
        """An agent releases its past to agents that acquire from `key`."""
        join(self.released.setdefault(key, {}), self.of(agent))

    def acquire(self, agent: Agent, key: Any) -> None:
        """An agent acquires the past released to `key`."""
        join(self.of(agent), self.released.get(key, {}))

    def count(self, op: Described, address: int, arrivals: int = 0, awaited: int | None = None) -> None:
        """Arrivals at a semaphore, or a wait for a number of them: it must be for all that there will be."""
        self.arrivals[address] = self.arrivals.get(address, 0) + arrivals
        if awaited is not None:
            self.awaited[address] = min(awaited, self.awaited.get(address, awaited))
        if self.arrivals[address] > self.awaited.get(address, self.arrivals[address]):
            self.report.note(
                f"{op.describe()}: a wait is for {self.awaited[address]} arrivals at a semaphore that gets more; which "
                "it sees depends on timing"
            )

    def reset(self, address: int) -> None:
        """A semaphore is zero again."""
        self.arrivals.pop(address, None)
        self.awaited.pop(address, None)
        self.released.pop(address, None)


def join(into: Past, more: Past) -> None:
    """The union of two pasts."""
    for key, value in more.items():
        if into.get(key, 0) < value:
            into[key] = value
