"""The ring's protocol: checked acquire, commit, wait and release, for a CTA of one agent, several warps, or roles.

Producers fill the slots in ring order and consumers read them in ring order: the k-th has index k mod stages and phase
⌊k / stages⌋ mod 2. Without roles every agent is both. A slot is full once every producer has committed it, and
empty once every consumer has released it. Instances of a consumer role take turns: one of them reads each fill of a
slot, and all their waits together are in ring order. A copy into a slot lands when the slot is first waited for. Each
acquire makes the slot unwritten, so that reading data of an earlier round is an error, except in buffers that the ring
keeps. A wait comes after the accesses before the commits, an acquire after the accesses before the releases.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from lowtide.interpreter.machine.agents import AgentState, Barrier, Cta, Steps, Wait
from lowtide.interpreter.machine.barriers import barrier, name_with_end
from lowtide.interpreter.machine.memory import InFlight
from lowtide.interpreter.machine.shared_buffers import SharedBuffer
from lowtide.interpreter.machine.views import Knowledge, joined, nothing
from lowtide.interpreter.numbers.codes import UNWRITTEN
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.program import RingUsers
from lowtide.interpreter.program.types import Ring

WRITE, READ = "write", "read"


@dataclass(eq=False)
class Stage:
    """One slot of a ring: how often each agent has done each verb on it since the ring was last drained.

    `full` and `empty` are the knowledge that a wait, or an acquire, gains.
    """

    acquired: list[int]
    committed: list[int]
    waited: list[int]
    released: list[int]
    copies: list[InFlight] = field(default_factory=list)
    landing: list[tuple[InFlight, int]] = field(default_factory=list)  # committed, with the epoch of the copying agent
    full: Knowledge = field(default_factory=nothing)
    empty: Knowledge = field(default_factory=nothing)

    @classmethod
    def of(cls, agents: int) -> Stage:
        return cls([0] * agents, [0] * agents, [0] * agents, [0] * agents)


@dataclass(eq=False)
class RingState:
    """A ring in one CTA: the offsets of its buffers, its slots, and the numbers that each agent has acquired and waited
    for. Slot s has buffer s mod `copies` of each.

    `readers` are, for each consumer, the agents that take turns with it, including itself: those of the same rank in
    the instances of its role. `shift` is the position in ring order at which the counts begin: 0 at first. After a
    drain the ring restarts or continues, as its first acquire says (None until then, with `following` for the
    continuation).
    """

    type: Ring
    starts: tuple[int, ...]
    kept: tuple[int, ...]
    copies: tuple[int, ...]
    stages: list[Stage]
    acquired: list[int]
    waited: list[int]
    producers: tuple[int, ...]
    consumers: tuple[int, ...]
    readers: dict[int, tuple[int, ...]]
    shift: int | None = 0
    following: int = 0

    @classmethod
    def of(
        cls,
        type: Ring,
        starts: tuple[int, ...],
        kept: tuple[int, ...],
        copies: tuple[int, ...],
        cta: Cta,
        users: RingUsers,
    ) -> RingState:
        """A ring that these roles use; without roles, all agents."""
        seats = cta.machine.seats
        stages = [Stage.of(len(seats)) for _ in range(type.stages)]
        producers, consumers = (
            tuple(seat.index for seat in seats if seat.role is None or seat.role in roles)
            for roles in (users.producers, users.consumers)
        )
        ranks: dict[tuple[int | None, int], list[int]] = {(seat.role, seat.first): [] for seat in seats}
        for seat in seats:
            ranks[seat.role, seat.first].append(seat.index)
        turns = {index: tuple(ranks[seats[index].role, seats[index].first]) for index in consumers}
        return cls(type, starts, kept, copies, stages, [0] * len(seats), [0] * len(seats), producers, consumers, turns)

    @property
    def has_roles(self) -> bool:
        """Whether producers and consumers are different agents."""
        return self.producers != self.consumers

    def status(self, index: int, warp: int) -> str:
        """The last actions on a slot by an agent and by the agents on the other side of the ring."""
        stage = self.stages[index]
        writers = (warp,) if warp in self.producers else self.producers
        readers = (warp,) if warp in self.consumers else self.consumers
        if any(stage.acquired[agent] > stage.committed[agent] for agent in writers):
            return "being written"
        if any(stage.waited[agent] > stage.released[agent] for agent in readers):
            return "being read"
        committed = max((stage.committed[agent] for agent in writers), default=0)
        waited = min((self.read(stage.waited, agent) for agent in readers), default=0)
        return "committed" if committed > waited else "empty"

    def read(self, counts: list[int], agent: int) -> int:
        """How often an agent, or one that takes turns with it, has waited for or released a slot, by their counts."""
        return sum(counts[other] for other in self.readers.get(agent, (agent,)))

    def buffers(self, index: int, right: SlotRight | None = None) -> list[SharedBuffer]:
        """The buffers of one slot."""
        return [
            SharedBuffer(start + index % count * buffer.bytes, buffer, right)
            for start, count, buffer in zip(self.starts, self.copies, self.type.buffers, strict=True)
        ]

    def place(self, count: int) -> tuple[int, int]:
        """(index, phase) of the `count`-th slot in ring order."""
        return count % self.type.stages, count // self.type.stages % 2


@dataclass(frozen=True, slots=True)
class SlotRight:
    """An agent's right to write one slot, until it commits it, or to read it, until it releases it."""

    ring: RingState
    index: int
    warp: int
    round: int
    use: str

    @property
    def stage(self) -> Stage:
        return self.ring.stages[self.index]

    @property
    def holds(self) -> bool:
        stage, warp = self.stage, self.warp
        begun, ended = (stage.acquired, stage.committed) if self.use == WRITE else (stage.waited, stage.released)
        return begun[warp] == self.round and ended[warp] == self.round - 1

    def check(self, state: AgentState, op: DecodedOp, use: str) -> None:
        """Raise InterpreterError unless the slot may now be used in this way."""
        if self.use != use or not self.holds:
            between = "acquire and commit" if use == WRITE else "wait and release"
            raise state.violation(
                op,
                f"{use}s slot {self.index}, which is {self.ring.status(self.index, self.warp)}; {use} between its "
                f"{between} [slot-use]",
            )

    def start(self, copy: InFlight) -> None:
        """A copy into the slot has started; it lands when the slot is first waited for."""
        self.stage.copies.append(copy)


def acquire(state: AgentState, op: DecodedOp, ring: RingState, index: int, phase: int) -> Steps:
    """Wait until all consumers have released the slot; returns the right to write it."""
    if ring.shift is None:
        ring.shift = 0 if (index, phase) == (0, 0) else ring.following
    warp = state.warp
    _check_order(state, op, ring, ring.acquired[warp], (index, phase), "acquires")
    stage = ring.stages[index]
    before = stage.acquired[warp]
    released = partial(ring.read, stage.released)
    yield from _until(state, ring.consumers, released, before, f"for slot {index} phase {phase}", "releases")
    is_first = max(stage.acquired) == before
    ring.acquired[warp] += 1
    stage.acquired[warp] += 1
    state.cta.shared.clocks.acquire(warp, stage.empty)
    if is_first:
        for number, buffer in enumerate(ring.buffers(index)):
            if number in ring.kept:
                continue
            state.cta.shared.codes[buffer.address : buffer.address + buffer.type.bytes] = UNWRITTEN
    return SlotRight(ring, index, warp, stage.acquired[warp], WRITE)


def commit(state: AgentState, op: DecodedOp, right: SlotRight) -> None:
    """All copies into the slot have started. Readers see the writes of threads to it through any proxy: the
    instructions for that are chosen at a later level."""
    right.check(state, op, WRITE)
    state.cta.shared.fence_proxy(state.access(op))
    clocks, stage, warp = state.cta.shared.clocks, right.stage, right.warp
    mine = [copy for copy in stage.copies if copy.access.warp == warp]
    stage.landing += [(copy, clocks.epoch(warp)) for copy in mine]
    stage.copies = [copy for copy in stage.copies if copy.access.warp != warp]
    stage.full = joined(stage.full, clocks.release(warp))
    stage.committed[warp] += 1


def wait(state: AgentState, op: DecodedOp, ring: RingState, index: int, phase: int) -> Steps:
    """Wait until all producers have committed the slot, and land its copies; returns the right to read it."""
    warp = state.warp
    _check_order(state, op, ring, ring.read(ring.waited, warp), (index, phase), "waits for")
    stage = ring.stages[index]
    needed = ring.read(stage.waited, warp) + 1
    committed = stage.committed.__getitem__
    yield from _until(state, ring.producers, committed, needed, f"for slot {index} phase {phase}", "commits")
    ring.waited[warp] += 1
    stage.waited[warp] += 1
    _land(state, stage)
    state.cta.shared.clocks.acquire(warp, stage.full)
    return SlotRight(ring, index, warp, stage.waited[warp], READ)


def release(state: AgentState, op: DecodedOp, right: SlotRight) -> None:
    """The slot is no longer read."""
    right.check(state, op, READ)
    _check_retired(state, op, right)
    stage = right.stage
    stage.empty = joined(stage.empty, state.cta.shared.clocks.release(right.warp))
    stage.released[right.warp] += 1


def _check_retired(state: AgentState, op: DecodedOp, right: SlotRight) -> None:
    """Raise InterpreterError while a wgmma of the agent may still read the slot."""
    for read in state.cta.shared.open_reads[right.warp]:
        for buffer in right.ring.buffers(right.index):
            end = buffer.address + buffer.type.bytes
            if ((read.span.addresses < end) & (read.span.addresses + read.span.size > buffer.address)).any():
                raise state.violation(
                    op,
                    f"releases slot {right.index}, which {read.access.op.describe()} may still read; wait for it by "
                    "sm.mma_wait [slot-retired]",
                )


def tail(state: AgentState, op: DecodedOp, ring: RingState) -> Steps:
    """Wait until all copies have landed and all readers have finished.

    Without roles all agents come here, and the ring may restart. In a producer's role the ring continues.
    """
    warp = state.warp
    if ring.has_roles:
        yield from _tail_of_role(state, op, ring)
        return
    for index in range(len(ring.stages)):
        status = ring.status(index, warp)
        if status.startswith("being"):
            way_out = "commit" if status == "being written" else "release"
            raise state.violation(
                op, f"drains the ring while slot {index} is {status}; {way_out} it first [ring-undrained]"
            )
    meeting = f"drain of the ring at byte {ring.starts[0]}"
    gate = state.cta.barriers.setdefault(meeting, Barrier())
    if len(gate.arrived) == len(state.team.members) - 1:  # the last to come
        total = ring.acquired[warp] + (ring.shift or 0)
        for stage in ring.stages:
            stage.landing += [(copy, state.cta.shared.clocks.epoch(copy.access.warp)) for copy in stage.copies]
            _land(state, stage)
        agents = len(ring.acquired)
        ring.stages = [Stage.of(agents) for _ in ring.stages]
        ring.acquired, ring.waited = [0] * agents, [0] * agents
        ring.shift, ring.following = None, total % (2 * ring.type.stages)
    yield from barrier(state, op, meeting)


def _tail_of_role(state: AgentState, op: DecodedOp, ring: RingState) -> Steps:
    warp = state.warp
    if warp not in ring.producers:
        raise state.violation(op, "a ring with roles is drained by its producer; move it there [drained-by-producer]")
    for index, stage in enumerate(ring.stages):
        if stage.acquired[warp] > stage.committed[warp]:
            raise state.violation(
                op, f"drains the ring while slot {index} is being written; commit it first [drained-while-written]"
            )
    for index, stage in enumerate(ring.stages):
        needed = stage.committed[warp]
        released = partial(ring.read, stage.released)
        yield from _until(state, ring.consumers, released, needed, f"for slot {index} to drain", "releases")
        state.cta.shared.clocks.acquire(warp, stage.empty)


def _until(
    state: AgentState, agents: tuple[int, ...], count: Callable[[int], int], needed: int, what: str, verb: str
) -> Steps:
    """Wait until each of the agents has done a verb this often."""

    def missing() -> list[int]:
        return [agent for agent in agents if count(agent) < needed]

    def why() -> str:
        names = ", ".join(name_with_end(state.cta, agent) for agent in missing())
        by = f": not {names}" if state.machine.roles else ""
        return f"{what} that nobody {verb}{by}" if len(missing()) == len(agents) else f"{what}; who {verb}{by}"

    if missing():
        yield Wait(lambda: not missing(), why)


def check_drained(state: AgentState, op: DecodedOp, ring: RingState, what: str) -> None:
    """Raise InterpreterError while the agent, or one of another role, uses any slot."""
    for index in range(len(ring.stages)):
        status = ring.status(index, state.warp)
        if status != "empty":
            raise state.violation(
                op,
                f"{what} while slot {index} of the ring is {status}; drain it by sm.producer_tail"
                " [ring-drained-before]",
            )


def _land(state: AgentState, stage: Stage) -> None:
    for copy, epoch in stage.landing:
        state.cta.shared.land(copy, epoch=epoch)
    stage.landing, stage.copies = [], []


def _check_order(
    state: AgentState, op: DecodedOp, ring: RingState, count: int, given: tuple[int, int], verb: str
) -> None:
    expected = ring.place(count + (ring.shift or 0))
    if given != expected:
        raise state.violation(
            op,
            f"{verb} slot {given[0]} phase {given[1]}, but the next in ring order is slot {expected[0]} "
            f"phase {expected[1]}; step both by sm.ring_advance [ring-order]",
        )
