"""mbarrier objects: phases that complete by arrivals and by bytes (PTX ISA, "mbarrier").

A phase completes when no arrival and no byte is pending. A wait acquires what the arrivals of the completed phases have
released. Bytes that TMA writes are visible only to agents that waited for the phase that counted them: each mbarrier
has its own clock, with its phases as epochs.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from lowtide.interpreter.machine.agents import AgentState, Cta, Steps, Wait
from lowtide.interpreter.machine.clocks import Clocks
from lowtide.interpreter.machine.views import NOTHING, Knowledge, View, joined, nothing
from lowtide.interpreter.numbers.accesses import WHOLE_AGENT, Described

MAX_ARRIVALS = 2**20 - 1
MAX_BYTES = 2**20 - 1  # of the tx-count (PTX ISA, "tx-count")
OBJECT_BYTES = 8


@dataclass(eq=False)
class Mbarrier:
    """One mbarrier: `arrivals` expected in each phase, those `pending` in the current one, and its pending bytes.

    `completed` is the number of finished phases. `source` is its clock among `clocks`. `gathered` is the knowledge
    released by the arrivals of the current phase, `released` what a wait acquires; `abroad` and `learned_abroad` are
    the same for arrivals by agents of other CTAs, by rank. `heard` and `told` are the same for what arriving agents
    know of other CTAs.
    `home` is its CTA, and `born` the time of its initialisation (clusters.py). `load` is the last copy that signals it:
    its phase and its op. At level nvvm, `initialised` is the initialising agent and its epoch, with whether a fence has
    shown it to TMA.
    """

    name: str
    arrivals: int
    clocks: Clocks
    source: int = 0
    pending: int = 0
    bytes: int = 0
    completed: int = 0
    gathered: Knowledge = field(default_factory=nothing)
    released: Knowledge = field(default_factory=nothing)
    load: tuple[int, Described] | None = None
    initialised: tuple[int, int] | None = None
    is_fenced: bool = True
    home: Cta | None = None
    born: int = 0
    abroad: dict[int, Knowledge] = field(default_factory=dict)
    learned_abroad: dict[int, Knowledge] = field(default_factory=dict)
    heard: View = NOTHING
    told: View = NOTHING

    @classmethod
    def of(cls, name: str, arrivals: int, cta: Cta, born: int) -> Mbarrier:
        """An mbarrier after its initialisation, in phase 0."""
        clocks = cta.shared.clocks
        source = clocks.add_source(f"TMA on {name}")
        return cls(name, arrivals, clocks, source, pending=arrivals, home=cta, born=born)

    @property
    def is_unused(self) -> bool:
        """Whether it is as it was initialised."""
        return (self.completed, self.pending, self.bytes, self.load) == (0, self.arrivals, 0, None)

    @property
    def key(self) -> tuple[int, str]:
        """Its key in a launch: the number of its CTA, and its name."""
        return -1 if self.home is None else self.home.index, self.name

    @property
    def state(self) -> str:
        """Its state, for messages."""
        parts = [f"{self.pending} of {self.arrivals} arrivals"] if self.pending else []
        parts += [f"{self.bytes} bytes"] if self.bytes > 0 else []
        lacks = f"lacks {' and '.join(parts)}" if parts else "is about to complete"
        return f"phase {self.completed} (parity {self.completed & 1}) of {self.name} {lacks}"

    def passed(self, parity: int) -> bool:
        """Whether the most recent phase of this parity has completed."""
        return self.completed & 1 != parity


def wait(state: AgentState, op: Described, barrier: Mbarrier, parity: int) -> Steps:
    """Wait until the phase of this parity has completed (mbarrier.try_wait.parity until it is true)."""
    if parity not in (0, 1):
        raise state.violation(op, f"a phase is known by its parity, 0 or 1, not {parity} [parity-waited]")
    yield Wait(lambda: barrier.passed(parity), lambda: f"for phase parity {parity}: {barrier.state}")
    learn(state, op, barrier, parity)


def learn(state: AgentState, op: Described, barrier: Mbarrier, parity: int) -> None:
    """The agent acquires the knowledge of a successful wait."""
    if state.machine.order is not None:
        state.machine.order.learn(state.key, op, barrier, parity)
    state.cta.shared.clocks.acquire(state.warp, barrier.released)
    if not barrier.told.is_empty:
        state.cta.shared.clocks.learn(state.warp, WHOLE_AGENT, barrier.told)
    for rank, knowledge in barrier.learned_abroad.items():
        other = state.cta.cluster.ctas[rank]
        other.shared.clocks.acquire(other.guest(state), knowledge)


def arrive(
    state: AgentState, op: Described, barrier: Mbarrier, count: int = 1, expected: int = 0, relaxed: bool = False
) -> None:
    """Expect this many more bytes, then arrive `count` times. `relaxed`: earlier accesses are not released."""
    if expected:
        expect(state, op, barrier, expected)
    if count > barrier.pending:
        raise state.violation(
            op,
            f"arrives {'once' if count == 1 else f'{count} times'} more at {barrier.name}, whose phase "
            f"{barrier.completed} has {barrier.arrivals - barrier.pending} of its {barrier.arrivals} arrivals and "
            f"lacks {barrier.bytes} bytes; wait for the phase before arriving for the next, or expect as many arrivals "
            "as there are [too-many-arrivals]",
        )
    _signal(state, op, barrier)
    if not relaxed:
        _release(state, barrier)
    barrier.pending -= count
    _complete(state, op, barrier)


def _signal(state: AgentState, op: Described, barrier: Mbarrier) -> None:
    state.touch(barrier.key, "arrive")
    state.machine.memory.changes.count += 1
    if state.machine.order is not None:
        state.machine.order.signal(state.key, op, barrier)


def _release(state: AgentState, barrier: Mbarrier) -> None:
    """Release the agent's accesses to waits for the current phase."""
    cta, clocks = state.cta, state.cta.shared.clocks
    view = clocks.released(state.warp)
    knowledge = view.ctas[clocks.cta]
    if cta is not barrier.home or clocks.heard[state.warp] is not NOTHING:
        barrier.heard = barrier.heard.joined(view)
    if cta is barrier.home:
        barrier.gathered = joined(barrier.gathered, knowledge)
    else:
        barrier.abroad[cta.rank] = joined(barrier.abroad.get(cta.rank, nothing()), knowledge)
        guest = None if barrier.home is None else barrier.home.guests.get((cta.rank, state.warp))
        if guest is not None:  # its accesses there
            barrier.gathered = joined(barrier.gathered, barrier.clocks.release(guest))


def expect(state: AgentState, op: Described, barrier: Mbarrier, expected: int) -> None:
    """expect_tx: the current phase waits for this many more bytes."""
    _signal(state, op, barrier)
    barrier.bytes += expected
    if not 0 <= expected <= MAX_BYTES or barrier.bytes > MAX_BYTES:
        raise state.violation(
            op,
            f"{barrier.bytes} bytes pending on {barrier.name}; an mbarrier counts to {MAX_BYTES}: use smaller stages"
            " [pending-bytes]",
        )


def complete_bytes(state: AgentState, op: Described, barrier: Mbarrier, phase: int, count: int) -> None:
    """complete_tx: `count` bytes of a copy started in `phase` have landed."""
    if barrier.completed != phase:
        raise state.violation(
            op,
            f"its {count} bytes land on {barrier.name} when phase {phase}, which they belong to, has completed without "
            "them; expect the bytes of all boxes that signal one phase [bytes-too-late]",
        )
    state.touch(barrier.key, "arrive")
    state.machine.memory.changes.count += 1
    barrier.bytes -= count
    _complete(state, op, barrier)


def note_load(state: AgentState, op: Described, barrier: Mbarrier) -> None:
    """A copy that signals the current phase has started; an agent must wait for it before the kernel ends."""
    if barrier.load is None:
        assert barrier.home is not None
        barrier.home.at_end.append(lambda ending: _check_waited(ending, barrier))
    barrier.load = barrier.completed, op
    _signal(state, op, barrier)


def _check_waited(state: AgentState, barrier: Mbarrier) -> None:
    """At the end of the CTA. Raises InterpreterError if a copy may still write its shared memory."""
    assert barrier.load is not None
    phase, op = barrier.load
    if barrier.clocks.known[:, barrier.source].max() <= phase:
        raise state.violation(
            op,
            f"the kernel ends and nobody has waited for phase {phase} of {barrier.name}, which it signals; wait for "
            "every copy into shared memory before the last thread ends [phase-unwaited]",
        )


def _complete(state: AgentState, op: Described, barrier: Mbarrier) -> None:
    """End the phase if nothing is pending."""
    if barrier.pending:
        return
    if barrier.bytes < 0:
        raise state.violation(
            op,
            f"phase {barrier.completed} of {barrier.name} has all its arrivals and {-barrier.bytes} bytes more than "
            "were expected; expect the bytes of all boxes that signal it [bytes-unexpected]",
        )
    if barrier.bytes == 0:
        barrier.completed += 1
        if state.machine.order is not None:
            state.machine.order.complete(barrier)
        barrier.pending = barrier.arrivals
        ended = np.zeros(barrier.source + 1, np.int32)
        ended[barrier.source] = barrier.completed
        barrier.released = joined(joined(barrier.released, barrier.gathered), ended)
        barrier.gathered = nothing()
        for rank, knowledge in barrier.abroad.items():
            barrier.learned_abroad[rank] = joined(barrier.learned_abroad.get(rank, nothing()), knowledge)
        barrier.abroad = {}
        barrier.told, barrier.heard = barrier.told.joined(barrier.heard), NOTHING
