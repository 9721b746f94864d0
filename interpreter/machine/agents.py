"""Agents: who runs a program. One resumable agent (a generator) a CTA at collective levels, a warp from atoms on; by
roles, where a kernel has them (teams.py).

An agent runs until it yields a `Wait`. The scheduler picks the next agent among those that can go on, in an order drawn
from a seed; where none can, it reports who waits for what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.copies import AsyncCopies
from lowtide.interpreter.machine.global_memory import GlobalMemory
from lowtide.interpreter.machine.memory import SharedMemory
from lowtide.interpreter.machine.teams import WARP, Role, Seat, everyone, seats_of, team_of
from lowtide.interpreter.numbers.cells import Access, Ints
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.program.program import DecodedOp, Program, Steps, run_block, violation


@dataclass(slots=True)
class Wait:
    """What an agent waits for. `why` is asked only when nobody can go on."""

    ready: Callable[[], bool]
    why: Callable[[], str]


_REGISTERS = 65536  # of an SM


def registers_that_fit(threads: int) -> int:
    """Registers of each of the threads of one CTA at most: they are handed out by eight."""
    return min(256, _REGISTERS // threads // 8 * 8)


@dataclass(frozen=True)
class LaunchRequest:
    """What `tile.launch` asks for. `shared_memory` in bytes, None before shared memory is laid out."""

    kernel: str
    grid: int
    threads: int
    shared_memory: int | None
    arguments: tuple[Any, ...]


@dataclass(eq=False)
class Machine:
    """What all agents of a launch share, or what the host function runs on (`launch` given, `grid` 0).

    `collective` says that a CTA is one agent (no op speaks of warps yet), else each warp is one; with `roles`, each
    role is one, else each warpgroup of a consumer role. `registers` are what each thread enters with; 0 where
    the kernel does not say.
    """

    level: str
    domain: Domain
    memory: GlobalMemory
    sms: int
    grid: int = 0
    threads: int = WARP
    collective: bool = True
    launch: Callable[[LaunchRequest, DecodedOp], None] | None = None
    roles: tuple[Role, ...] = ()
    registers: int = 0

    @cached_property
    def seats(self) -> tuple[Seat, ...]:
        """The agents of each CTA."""
        return seats_of(self.threads, self.collective, self.roles)


@dataclass(eq=False)
class Barrier:
    """One barrier of a CTA (bar.sync): which agents have arrived in this round, and how many rounds are over."""

    arrived: dict[int, DecodedOp] = field(default_factory=dict)
    rounds: int = 0


class Cta:
    """One CTA: its shared memory, cp.async in flight, barriers, and what ops made, by the slot of their result.

    `spawned` are agents that an op has started and the scheduler has not yet taken up.
    """

    def __init__(self, index: int, machine: Machine, shared_memory: int | None, origin: int = 0) -> None:
        self.index = index
        self.machine = machine
        self.everyone = everyone(machine.seats)
        names = [seat.name for seat in machine.seats]
        self.shared = SharedMemory(len(names), shared_memory, machine.domain.payload, names, origin)
        self.copies = AsyncCopies(self.shared)
        self.barriers: dict[str, Barrier] = {}
        self.rings: dict[int, Any] = {}
        self.mbarriers: dict[int, Any] = {}  # by slot, at level nvvm by address
        self.warpgroups: dict[int, Any] = {}  # what wgmma keeps for each
        self.stores: dict[tuple[int, int], Any] = {}  # groups of TMA stores, by agent and lane
        self.registers: dict[int, int] = {}  # a thread's, of each warp that has changed them
        self.free_registers = 0
        self.spawned: list[Agent] = []
        self.ended: set[int] = set()
        self.role_ended: set[int] = set()
        self.at_end: list[Callable[[AgentState], None]] = []  # what must hold when the last agent has ended


class AgentState:
    """One agent: its SSA values and where it stands.

    `warp` is its number in the CTA, `lanes` its threads, `thread` their numbers in the CTA or, where a kernel has
    sm.roles, in the role. `team` are the agents it does collective ops with. `doing` names an agent that runs no op of
    its own. `role` is the name of its role at level nvvm, `fenced` says that a wgmma.fence covers its registers.
    """

    __slots__ = (
        "cta",
        "doing",
        "fenced",
        "lanes",
        "machine",
        "mask",
        "mmas",
        "op",
        "role",
        "seat",
        "team",
        "thread",
        "values",
        "warp",
    )

    def __init__(self, machine: Machine, cta: Cta, seat: Seat, slots: int, doing: str = "") -> None:
        self.machine = machine
        self.cta = cta
        self.seat = seat
        self.team = cta.everyone
        self.warp = seat.index
        self.values: list[Any] = [None] * slots
        self.mask: NDArray[np.bool_] | None = None
        self.lanes: NDArray[np.int32] = np.arange(seat.lanes, dtype=np.int32)
        self.thread: NDArray[np.int32] = self.lanes + np.int32(seat.first)
        self.op: DecodedOp | None = None
        self.doing = doing
        self.role = ""
        self.fenced = False
        self.mmas: list[Any] = []  # groups of wgmma that no wait has covered, oldest first

    @property
    def share(self) -> slice:
        """Which of the parts of an op that all threads do together are this agent's: every n-th, for n agents."""
        return slice(self.team.members.index(self.warp), None, len(self.team.members))

    def access(self, op: DecodedOp, lanes: Ints | None = None) -> Access:
        """Who accesses memory by `op`: `lanes`, one for each address, or the whole agent."""
        return Access(self.cta.index, self.warp, lanes, op, self.machine.level, self.name)

    @property
    def name(self) -> str:
        """The agent's name in its CTA."""
        return f"{self.seat.name} ({self.role})" if self.role else self.seat.name

    def who(self) -> str:
        """The agent's name in messages."""
        if self.machine.launch is not None:
            return "host"
        if self.doing:
            return f"CTA {self.cta.index} {self.doing}"
        alone = self.machine.collective and not self.machine.roles
        return f"CTA {self.cta.index}" if alone else f"CTA {self.cta.index} {self.name}"

    def enter_role(self) -> None:
        """From here on collective ops are its role's."""
        if self.seat.role is not None:
            self.team = team_of(self.machine.seats, self.seat.role)

    def leave_role(self) -> None:
        """From here on collective ops are the whole CTA's."""
        self.team = self.cta.everyone
        self.cta.role_ended.add(self.warp)


def together(state: AgentState, op: DecodedOp) -> None:
    """Raise InterpreterError in divergent code, for an op that all threads of the agent execute together."""
    if state.mask is not None:
        missing = np.flatnonzero(~state.mask).tolist()
        raise violation(
            state, op, f"all threads must execute it together; lanes {missing} do not: take it out of the branch"
        )


def barrier(state: AgentState, op: DecodedOp, identifier: int | str = 0, warps: int | None = None) -> Steps:
    """bar.sync: wait until `warps` agents (all of the team by default) have arrived (PTX ISA, "bar, barrier").

    Orders every access of the agents that meet, to shared and global memory. Raises InterpreterError in divergent code.
    """
    if state.mask is not None:
        raise violation(
            state, op, f"a barrier in divergent code: lanes {np.flatnonzero(~state.mask).tolist()} do not arrive"
        )
    cta, members = state.cta, state.team.members
    expected = warps or len(members)
    name = f"{identifier}" if state.team is cta.everyone else f"{identifier} of role {state.team.name}"
    gate = cta.barriers.setdefault(name, Barrier())
    gate.arrived[state.warp] = op
    if len(gate.arrived) >= expected:
        cta.shared.barrier(sorted(gate.arrived))
        gate.arrived = {}
        gate.rounds += 1
        yield Wait(lambda: True, lambda: "")
        return
    mine = gate.rounds

    def why() -> str:
        missing = sorted(set(members) - set(gate.arrived))
        names = ", ".join(name_with_end(cta, warp) for warp in missing)
        kind = "agents" if state.machine.roles else "warps"
        return f"barrier {name}: {len(gate.arrived)} of {expected} {kind} have arrived, not {names}"

    yield Wait(lambda: gate.rounds > mine, why)


def name_with_end(cta: Cta, agent: int) -> str:
    """An agent's name, and whether it, or its role, has ended."""
    has_ended = agent in cta.ended or agent in cta.role_ended
    return f"{cta.machine.seats[agent].name}{' (ended)' if has_ended else ''}"


def without_roles(state: AgentState, op: DecodedOp) -> None:
    """Raise InterpreterError inside sm.roles, for an op that is interpreted by warps: agents of roles are none."""
    if state.machine.roles:
        raise violation(state, op, "not interpreted in a role; there copies are by TMA and products by wgmma")


@dataclass(eq=False)
class Agent:
    state: AgentState
    steps: Steps
    waits: Wait | None = None

    def can_go_on(self) -> bool:
        return self.waits is None or self.waits.ready()


def spawn(state: AgentState, doing: str, op: DecodedOp, steps: Callable[[AgentState], Steps]) -> None:
    """Start what `op` leaves to run by itself beside the CTA's agents, as a copy by TMA: `doing` names it."""
    cta = state.cta
    aside = AgentState(state.machine, cta, state.seat, 0, doing)
    aside.op = op
    cta.spawned.append(Agent(aside, steps(aside)))


def start_cta(machine: Machine, program: Program, index: int, request: LaunchRequest) -> list[Agent]:
    """The agents of CTA `index` of a launch, about to begin."""
    cta = Cta(index, machine, request.shared_memory, program.shared_origin)
    for name, start, size in program.buffers:
        cta.shared.place(name, start, size)
    machine.memory.enter(index, cta.shared.clocks)
    agents = []
    for seat in machine.seats:
        state = AgentState(machine, cta, seat, program.slots)
        for slot, value in zip(program.block.arguments, request.arguments, strict=True):
            state.values[slot] = value
        agents.append(Agent(state, _whole(state, program)))
    return agents


def _whole(state: AgentState, program: Program) -> Steps:
    yield from run_block(state, program.block)
    cta = state.cta
    if state.mmas and state.op is not None:
        raise violation(state, state.op, f"ends with {len(state.mmas)} groups of wgmma in flight; wait for them before")
    cta.ended.add(state.warp)
    if len(cta.ended) == len(state.machine.seats):
        for check in cta.at_end:
            check(state)


def run_all(
    ctas: Iterator[list[Agent]], resident: int, seed: int, on_end: Callable[[int], None] = lambda cta: None
) -> None:
    """Run CTAs to their end, `resident` at a time, agents in an order drawn from `seed`; `on_end` hears of each end.

    Raises InterpreterError when nobody can go on.
    """
    order = Random(seed)
    running: list[Agent] = []
    held: dict[int, int] = {}  # CTA -> agents not yet ended

    def refill() -> None:
        while len(held) < resident and (agents := next(ctas, None)) is not None:
            held[agents[0].state.cta.index] = len(agents)
            running.extend(agents)

    refill()
    while running:
        able = [agent for agent in running if agent.can_go_on()]
        if not able:
            raise _deadlock(running)
        agent = order.choice(able)
        ended, cta = not _resume(agent), agent.state.cta
        index = cta.index
        if cta.spawned:
            running.extend(cta.spawned)
            held[index] += len(cta.spawned)
            cta.spawned = []
        if ended:
            running.remove(agent)
            held[index] -= 1
            if held[index] == 0:
                del held[index]
                on_end(index)
                refill()


def _resume(agent: Agent) -> bool:
    """Run until the next wait; False when the agent has ended."""
    agent.waits = advance(agent.state, agent.steps)
    return agent.waits is not None


def advance(state: AgentState, steps: Steps) -> Wait | None:
    """Run until the next wait; None at the end. What Python refuses to compute becomes an InterpreterError."""
    try:
        return next(steps)
    except StopIteration:
        return None
    except (ArithmeticError, ValueError, IndexError, TypeError, KeyError) as error:
        if state.op is None:
            raise
        raise violation(state, state.op, f"{type(error).__name__}: {error}") from error


def _deadlock(running: list[Agent]) -> InterpreterError:
    lines = [
        f"  {agent.state.who()} waits at {agent.state.op.describe()}: {agent.waits.why()}"
        for agent in running[:16]
        if agent.state.op is not None and agent.waits is not None
    ]
    more = [f"  and {len(running) - 16} more"] if len(running) > 16 else []
    return InterpreterError(
        "\n".join([f"deadlock, level {running[0].state.machine.level}: nobody can go on", *lines, *more])
    )
