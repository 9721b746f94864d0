"""The ring's protocol: acquire, commit, wait, release, each checked, for a CTA that is one agent or several warps.

Producers fill the slots in ring order and consumers read them in ring order: (index, phase) of the k-th is
(k mod stages, ⌊k / stages⌋ mod 2). A slot is full once every agent of the CTA has committed it, and empty once every
one has released it. What is copied into it lands when it is first waited for; it is unwritten anew each time it is
acquired, so that reading what an earlier round left there is an error. A wait and an acquire order all agents.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from lowtide.interpreter.agents import AgentState, Barrier, Wait, barrier
from lowtide.interpreter.cells import UNWRITTEN
from lowtide.interpreter.ir_types import Ring
from lowtide.interpreter.memory import InFlight
from lowtide.interpreter.program import DecodedOp, Steps, violation
from lowtide.interpreter.shared_buffers import SharedBuffer

WRITE, READ = "write", "read"


@dataclass(eq=False)
class Stage:
    """One slot of a ring: how often each agent has done each verb on it since the ring was last drained."""

    acquired: list[int]
    committed: list[int]
    waited: list[int]
    released: list[int]
    copies: list[InFlight] = field(default_factory=list)

    @classmethod
    def of(cls, agents: int) -> Stage:
        return cls([0] * agents, [0] * agents, [0] * agents, [0] * agents)

    def status(self, warp: int) -> str:
        """What an agent has last done with the slot."""
        if self.acquired[warp] > self.committed[warp]:
            return "being written"
        if self.waited[warp] > self.released[warp]:
            return "being read"
        return "committed" if self.committed[warp] > self.waited[warp] else "empty"


@dataclass(eq=False)
class RingState:
    """A ring in one CTA: where its buffers begin, its slots, and how many each agent has acquired and waited for.

    `shift` is where in ring order the counts begin: 0 at first; after a drain the ring begins anew or goes on, as its
    first acquire says (None until then, with `following` where it would go on).
    """

    type: Ring
    starts: tuple[int, ...]
    stages: list[Stage]
    acquired: list[int]
    waited: list[int]
    shift: int | None = 0
    following: int = 0

    @classmethod
    def of(cls, type: Ring, starts: tuple[int, ...], agents: int) -> RingState:
        return cls(type, starts, [Stage.of(agents) for _ in range(type.stages)], [0] * agents, [0] * agents)

    def buffers(self, index: int, right: SlotRight | None = None) -> list[SharedBuffer]:
        """The buffers of one slot."""
        return [
            SharedBuffer(start + index * buffer.bytes, buffer, right)
            for start, buffer in zip(self.starts, self.type.buffers, strict=True)
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
        """Raise InterpreterError unless the slot may now be used so."""
        if self.use != use or not self.holds:
            between = "acquire and commit" if use == WRITE else "wait and release"
            raise violation(
                state,
                op,
                f"{use}s slot {self.index}, which is {self.stage.status(self.warp)}; {use} between its {between}",
            )


def acquire(state: AgentState, op: DecodedOp, ring: RingState, index: int, phase: int) -> Steps:
    """Wait until all agents have released the slot; gives the right to write it."""
    if ring.shift is None:
        ring.shift = 0 if (index, phase) == (0, 0) else ring.following
    warp = state.warp
    _check_order(state, op, ring, ring.acquired[warp], (index, phase), "acquires")
    stage = ring.stages[index]
    before = stage.acquired[warp]
    if min(stage.released) < before:
        yield Wait(
            lambda: min(stage.released) >= before, lambda: f"for slot {index} phase {phase} that nobody releases"
        )
    is_first = max(stage.acquired) == before
    ring.acquired[warp] += 1
    stage.acquired[warp] += 1
    if is_first:
        state.cta.shared.barrier()  # what the releases order
        for buffer in ring.buffers(index):
            state.cta.shared.codes[buffer.address : buffer.address + buffer.type.bytes] = UNWRITTEN
    return SlotRight(ring, index, warp, stage.acquired[warp], WRITE)


def commit(state: AgentState, op: DecodedOp, right: SlotRight) -> None:
    """All copies into the slot have been started."""
    right.check(state, op, WRITE)
    right.stage.committed[right.warp] += 1


def wait(state: AgentState, op: DecodedOp, ring: RingState, index: int, phase: int) -> Steps:
    """Wait until all agents have committed the slot, and land its copies; gives the right to read it."""
    warp = state.warp
    _check_order(state, op, ring, ring.waited[warp], (index, phase), "waits for")
    stage = ring.stages[index]
    needed = stage.waited[warp] + 1
    if min(stage.committed) < needed:
        yield Wait(
            lambda: min(stage.committed) >= needed, lambda: f"for slot {index} phase {phase} that nobody commits"
        )
    ring.waited[warp] += 1
    stage.waited[warp] += 1
    _land(state, stage)
    return SlotRight(ring, index, warp, stage.waited[warp], READ)


def release(state: AgentState, op: DecodedOp, right: SlotRight) -> None:
    """The slot is no longer read."""
    right.check(state, op, READ)
    right.stage.released[right.warp] += 1


def tail(state: AgentState, op: DecodedOp, ring: RingState) -> Steps:
    """Wait until all agents come here; every copy has then landed, and the ring may begin anew."""
    warp = state.warp
    for index, stage in enumerate(ring.stages):
        status = stage.status(warp)
        if status.startswith("being"):
            way_out = "commit" if status == "being written" else "release"
            raise violation(state, op, f"drains the ring while slot {index} is {status}; {way_out} it before")
    meeting = f"drain of the ring at byte {ring.starts[0]}"
    gate = state.cta.barriers.setdefault(meeting, Barrier())
    if len(gate.arrived) == state.machine.warps - 1:  # the last to come
        total = ring.acquired[warp] + (ring.shift or 0)
        for stage in ring.stages:
            _land(state, stage)
        agents = len(ring.acquired)
        ring.stages = [Stage.of(agents) for _ in ring.stages]
        ring.acquired, ring.waited = [0] * agents, [0] * agents
        ring.shift, ring.following = None, total % (2 * ring.type.stages)
    yield from barrier(state, op, meeting)


def check_drained(state: AgentState, op: DecodedOp, ring: RingState, what: str) -> None:
    """Raise InterpreterError while the agent uses any slot."""
    for index, stage in enumerate(ring.stages):
        status = stage.status(state.warp)
        if status != "empty":
            raise violation(
                state, op, f"{what} while slot {index} of the ring is {status}; drain it by sm.producer_tail"
            )


def _land(state: AgentState, stage: Stage) -> None:
    for copy in stage.copies:
        state.cta.shared.land(copy)
    stage.copies = []
    state.cta.shared.barrier()


def _check_order(
    state: AgentState, op: DecodedOp, ring: RingState, count: int, given: tuple[int, int], verb: str
) -> None:
    expected = ring.place(count + (ring.shift or 0))
    if given != expected:
        raise violation(
            state,
            op,
            f"{verb} slot {given[0]} phase {given[1]}, but the next in ring order is slot {expected[0]} "
            f"phase {expected[1]}; step both by sm.ring_advance",
        )
