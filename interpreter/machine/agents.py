"""Agents, which run a program, and the state that they share.

There is one resumable agent (a generator) per CTA at collective levels and one per warp from level atoms on; in a
kernel with roles, agents follow the roles (teams.py).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.copies import AsyncCopies
from lowtide.interpreter.machine.global_memory import GlobalMemory
from lowtide.interpreter.machine.interleavings import Order
from lowtide.interpreter.machine.map_fences import MapFences
from lowtide.interpreter.machine.map_uses import MapUses
from lowtide.interpreter.machine.memory import SharedMemory
from lowtide.interpreter.machine.options import Observers, Options
from lowtide.interpreter.machine.teams import WARP, Seat, Team, seats_of, team_of
from lowtide.interpreter.machine.views import Strong
from lowtide.interpreter.numbers.accesses import Access, Described, Ints, Span
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.numbers.registers import number
from lowtide.interpreter.program.program import Role


@dataclass(slots=True)
class Wait:
    """A wait of an agent. `ready`: whether it can continue. If no agent can, `otherwise` is called with the error of
    the deadlock, and returns whether this agent can continue after all; `why` says what it waits for. `op`: the op that
    waits, if it is not the last one that the agent has run."""

    ready: Callable[[], bool]
    why: Callable[[], str]
    op: Any = None
    otherwise: Callable[[InterpreterError], bool] | None = None


Steps: TypeAlias = Generator[Wait, None, Any]
"""The result of a handler that may wait."""


class Causes(dict[Any, NDArray[np.uint32]]):
    """What a register should not depend on, but does. For each source an array (n,): for each lane of the register, a
    bit for each lane of the source."""


ASK = "ask"
"""The agent only reads a word or an mbarrier."""

_REGISTERS = 65536  # per SM


def registers_that_fit(threads: int) -> int:
    """Maximum registers per thread in a CTA of `threads` threads: they are allocated in units of eight."""
    return min(256, _REGISTERS // threads // 8 * 8)


Extents: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True)
class Shape:
    """The sides of a launch along x, y and z: its grid and a cluster in CTAs, a block in threads."""

    grid: Extents
    block: Extents
    cluster: Extents = (1, 1, 1)

    @property
    def clusters(self) -> Extents:
        """The sides of the grid in clusters."""
        x, y, z = (side // of for side, of in zip(self.grid, self.cluster, strict=True))
        return x, y, z

    def cta(self, index: int) -> Extents:
        """The place of a CTA in the grid: CTAs are numbered cluster by cluster."""
        number, rank = divmod(index, prod(self.cluster))
        outer, inner = coordinates(number, self.clusters), coordinates(rank, self.cluster)
        x, y, z = (at * side + within for at, side, within in zip(outer, self.cluster, inner, strict=True))
        return x, y, z


def coordinates(number: Any, sides: Extents) -> tuple[Any, Any, Any]:
    """The place (x, y, z) of a number, or of an array of them, that counts along x first."""
    return number % sides[0], number // sides[0] % sides[1], number // (sides[0] * sides[1])


@dataclass(frozen=True)
class LaunchRequest:
    """The arguments of `tile.launch`. `shared_memory` in bytes, None before shared memory is laid out.

    `programmatic`: the kernel may start before the preceding kernels in the stream have ended. `cooperative`: all CTAs
    run at the same time. `cluster`: its CTAs along M and N. `shape`: the sides of a launch of PTX; without it all are
    along x, and each warp is full.
    """

    kernel: str
    grid: int
    threads: int
    shared_memory: int | None
    arguments: tuple[Any, ...]
    programmatic: bool = False
    cooperative: bool = False
    cluster: tuple[int, int] = (1, 1)
    shape: Shape | None = None


@dataclass(eq=False)
class Machine:
    """The state shared by all agents of a launch; or of the host function, which has `launch`, and `grid` 0.

    `collective`: whether ops are for whole CTAs or roles, and not for warps. This, `threads` and `roles` determine the
    agents (teams.py). `registers`: those of each thread at entry; 0 if the kernel does not say. `cluster`: its CTAs
    along M and N.
    """

    level: str
    domain: Domain
    memory: GlobalMemory
    options: Options = field(default_factory=Options)
    observers: Observers = field(default_factory=Observers)
    grid: int = 0
    threads: int = WARP
    collective: bool = True
    launch: Callable[[LaunchRequest, Any], Any] | None = None
    roles: tuple[Role, ...] = ()
    registers: int = 0
    parts: dict[int, dict[int, Any]] = field(default_factory=dict)  # partial sums, by slot of part 0 and part
    begun: dict[int, int] = field(default_factory=dict)  # by counter of waves: number of begun work tiles
    cluster: tuple[int, int] = (1, 1)
    shape: Shape | None = None
    dynamic_bytes: int = 0  # of shared memory, which the launch gives
    grid_workspace: int = 0  # its address (grid_workspace.py), 0 if there is none
    spans: dict[Any, Span] = field(default_factory=dict)  # of shared memory
    parameters: dict[int, range] = field(default_factory=dict)  # addresses of their bytes (parameters.py)
    order: Order | None = None  # checks whether the run speaks for every order of agents, if asked for
    map_fences: MapFences = field(default_factory=MapFences)
    map_uses: MapUses = field(default_factory=MapUses)
    ctas_together: int = 1  # the most CTAs of a convoy; 1 if a CTA may wait for another

    @cached_property
    def sides(self) -> Shape:
        """The sides of the launch, along x if it does not say."""
        return self.shape or Shape((self.grid, 1, 1), (self.threads, 1, 1), (prod(self.cluster), 1, 1))

    @cached_property
    def joins(self) -> bool:
        """Whether warps may form convoys (convoys.py): in PTX, if nothing depends on the order of the warps."""
        watched = self.observers.explorer is not None or self.observers.trace is not None
        is_several = self.threads > WARP or self.ctas_together > 1
        return self.level == "ptx" and is_several and not watched

    @cached_property
    def seats(self) -> tuple[Seat, ...]:
        """The agents of each CTA."""
        return seats_of(self.threads, self.collective, self.roles)


@dataclass(eq=False)
class Barrier:
    """One barrier of a CTA (bar.sync): the agents that have arrived in this round, and the number of finished
    rounds."""

    arrived: dict[int, Described] = field(default_factory=dict)
    rounds: int = 0


class Cta:
    """One CTA: its shared memory, cp.async in flight, barriers, and objects made by ops, by the slot of their result.

    `spawned`: agents that an op has started, but the scheduler does not run yet. `cluster`: the CTA's cluster
    (clusters.py), in which `rank` is its number. `guests`: the agents of other CTAs that access its shared memory.
    """

    def __init__(self, index: int, machine: Machine, shared_memory: int | None, origin: int = 0) -> None:
        self.index = index
        self.machine = machine
        self.everyone = Team("CTA", tuple(seat.index for seat in machine.seats))
        names = [seat.name for seat in machine.seats]
        self.shared = SharedMemory(len(names), shared_memory, machine.domain.payload, names, origin, machine.spans)
        self.shared.changes = machine.memory.changes
        if machine.level == "ptx":
            self.shared.numbers_of_bits = lambda bits, dtype: number(bits, dtype, machine.domain)
        if machine.shape is not None:
            self.shared.extent = (
                f"; the launch gives {machine.dynamic_bytes} bytes of it beside the kernel's own (shared_bytes)"
            )
        if machine.observers.relied is not None:
            self.shared.forgive(machine.observers.relied)
        self.copies = AsyncCopies(self.shared)
        self.barriers: dict[str, Barrier] = {}
        self.rings: dict[int, Any] = {}
        self.mbarriers: dict[int, Any] = {}  # by slot, at level nvvm by address
        self.warpgroups: dict[int, Any] = {}  # the state of wgmma for each
        self.reduced: dict[Any, Any] = {}  # partial results of agents, by op and tile
        self.exchanged: dict[int, Any] = {}  # data exchanged by agents in an op of the whole CTA, by agent
        self.rendezvous: dict[int, Any] = {}  # ops that the warps of a warpgroup execute together, by its number
        self.stores: dict[tuple[int, int], Any] = {}  # groups of TMA stores, by agent and lane
        self.registers: dict[int, int] = {}  # per thread, for each warp that has changed them
        self.free_registers = 0
        self.spawned: list[Agent] = []
        self.cluster: Any = None
        self.rank = 0
        self.guests: dict[tuple[int, int], int] = {}  # clocks, by CTA and agent
        self.visited: set[tuple[int, int]] = set()  # by guests: clock, and its arrivals at the cluster's barrier
        self.ended: set[int] = set()
        self.role_ended: set[int] = set()
        self.at_end: list[Callable[[AgentState], None]] = []  # conditions that must hold when the last agent has ended

    def guest(self, state: AgentState) -> int:
        """The clock number in this CTA of an agent of another CTA of the cluster that accesses its shared memory."""
        key = state.cta.rank, state.warp
        if key not in self.guests:
            made = self.guests[key] = self.shared.clocks.add_source(f"CTA {state.cta.index} {state.seat.name}")
            state.cta.shared.clocks.visit(state.warp, self.shared.clocks, made)
        return self.guests[key]


class AgentState:
    """One agent: its SSA values and its position.

    `warp` is its number in the CTA, `lanes` its threads, `thread` their numbers in the CTA or, in sm.roles, in the
    role. `present` are the lanes that exist and have not ended, None if all 32 do; `mask` begins as it. `team` are the
    agents with which it does collective ops. `doing` names an agent that runs no op of its own. `role` is the name of
    its role at level nvvm; `fenced` says that a wgmma.fence covers its registers. `polls` are its polls since the last
    iteration of a loop, `asked` the last word of a semaphore that one lane has, `steps` the number of ops that it has
    run (branches.py).
    """

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
        self.present: NDArray[np.bool_] | None = None
        self.op: Described | None = None
        self.asked: Any = None
        self.doing = doing
        self.role = ""
        self.fenced = False
        self.work_tiles = 0  # of all CTAs, in the current tile.work_tiles
        self.undefined: dict[int, Causes] = {}  # by slot (undefined.py)
        self.made_undefined: dict[int, Causes] = {}  # the same, by the present op
        self.polls: list[Wait] = []
        self.changes = 0
        self.strong: Strong | None = None
        self.remote: tuple[Cta, int] | None = None  # of accesses to another CTA: it, and the agent's clock there
        self.steps = 0
        self.laps: dict[Any, Any] = {}  # of loops, by the edge that closes them (laps.py)
        self.quiet: Any = None  # the last lap, if it has changed nothing
        self.mmas: list[Any] = []  # groups of wgmma not covered by a wait, oldest first
        self.accumulators: list[Any] = []  # at level ptx: registers that those groups may still write
        self.local: Any = None  # the memory of its threads, if they have any (variables.py)

    @property
    def acting(self) -> AgentState:
        """The agent that runs the present op: this agent, or one of its members (convoys.py)."""
        return self

    @property
    def all_ctas(self) -> tuple[Cta, ...]:
        """The agent's CTA; for a convoy, the CTAs of its warps."""
        return (self.cta,)

    def leaves_out(self, mask: NDArray[np.bool_]) -> bool:
        """Whether one of its CTAs has no lane in this mask of the agent's lanes."""
        return not mask.any()

    @property
    def key(self) -> tuple[int, int]:
        """The agent's CTA, and its number there."""
        return self.cta.index, self.warp

    @property
    def share(self) -> slice:
        """This agent's share of an op that all threads execute together: every n-th part of n agents."""
        return slice(self.team.members.index(self.warp), None, len(self.team.members))

    def leave(self, lanes: NDArray[np.bool_] | None) -> None:
        """These lanes, or all, have ended."""
        if lanes is not None:
            self.present = ~lanes if self.present is None else self.present & ~lanes

    @property
    def count(self) -> int:
        """The number of lanes that exist and have not ended."""
        return len(self.lanes) if self.present is None else int(self.present.sum())

    @property
    def missing(self) -> list[int]:
        """Lanes that exist and have not ended, but do not execute the present op."""
        if self.mask is None:
            return []
        there = ~self.mask if self.present is None else self.present & ~self.mask
        lanes: list[int] = np.flatnonzero(there).tolist()
        return lanes

    def touch(self, what: Any, how: str) -> None:
        """The agent reads a word or an mbarrier, or changes it by an operation; explored orders differ in these."""
        if self.machine.observers.explorer is not None:
            self.machine.observers.explorer.touch(what, how)

    def access(self, op: Described, lanes: Ints | None = None) -> Access:
        """An access to memory by `op`: `lanes`, one for each address, or the whole agent."""
        if self.remote is None:
            return Access(self.cta.index, self.warp, lanes, op, self.machine.level, self.name, strong=self.strong)
        guest, own = self.remote[1], (self.cta.shared.clocks, self.warp)
        return Access(self.cta.index, guest, lanes, op, self.machine.level, self.name, strong=self.strong, visitor=own)

    def access_of(self, ops: Sequence[Described], lanes: Ints | None = None) -> Access:
        """As `access`, by ops that run as one, or by a single one."""
        access = self.access(ops[0], lanes)
        if len(ops) > 1:
            access.ops = tuple(ops)
        return access

    @property
    def warps(self) -> int:
        """The number of its warps: more than one for a convoy (convoys.py)."""
        return 1

    def access_by_warps(self, ops: Sequence[Described], rows: int) -> Access:
        """As `access_of`, by whole warps, each with `rows` addresses for each op."""
        return self.access_of(ops)

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

    def violation(self, op: Described, rule: str, kind: type[InterpreterError] = InterpreterError) -> InterpreterError:
        """The error for a broken rule: the op, its location, this agent, and the rule."""
        return kind(f"{op.describe()}, level {self.machine.level}, {self.who()}: {rule}")

    def enter_role(self) -> None:
        """From now on, collective ops belong to its role."""
        if self.seat.role is not None:
            self.team = team_of(self.machine.seats, self.seat.role, self.seat.instance)

    def leave_role(self) -> None:
        """From now on, collective ops belong to the whole CTA."""
        self.team = self.cta.everyone
        self.cta.role_ended.add(self.warp)


@dataclass(eq=False)
class Agent:
    """`program`: what it runs. `members`: the agents of a convoy. `moved`: when it last continued, by the tick of
    `Changes`."""

    state: AgentState
    steps: Steps
    waits: Wait | None = None
    program: Any = None
    members: tuple[Agent, ...] = ()
    moved: int = 0
