"""Barriers of a CTA and of a warp (PTX ISA, "bar, barrier", "bar.warp.sync").

bar is barrier.aligned. Without .aligned, the lanes of a warp may arrive apart (gathering.py).
"""

from typing import Any

from lowtide.interpreter.machine import named_barriers
from lowtide.interpreter.machine.agents import AgentState, Steps
from lowtide.interpreter.machine.barriers import warp_barrier
from lowtide.interpreter.machine.convoys import Convoy
from lowtide.interpreter.program.batches import NotTogether
from lowtide.interpreter.ptx.running import Op
from lowtide.interpreter.ptx.table import Table

TABLE = Table()

_SECTION = "Parallel Synchronization and Communication Instructions: bar, barrier"
_FORMS = ("bar", "bar.cta", "barrier", "barrier.cta")


def _named(what: str) -> tuple[str, ...]:
    return tuple(f"{form}.{what}" for form in _FORMS)


def _sync_together(convoy: Convoy, op: Op) -> None:
    """bar.sync by warps of a convoy. Raises NotTogether, and changes nothing, if some of them would have to wait."""
    operands = [read(convoy.values) for read in op.readers]
    if not all(isinstance(each, int) for each in operands) or not convoy.apart.isdisjoint(op.operands):
        raise NotTogether
    named_barriers.sync_together(convoy.by_cta(op), op, *operands)


@TABLE.effects(*_named("sync"), words="aligned", section=_SECTION, by_convoy=_sync_together)
def barrier_sync(state: AgentState, op: Op, identifier: Any, threads: Any = None) -> Steps:
    yield from named_barriers.sync(state, op, identifier, threads)


@TABLE.effects(*_named("arrive"), words="aligned", section=_SECTION)
def barrier_arrive(state: AgentState, op: Op, identifier: Any, threads: Any) -> None:
    named_barriers.arrive(state, op, identifier, threads)


@TABLE.effects(
    *_named("red"),
    words="popc and or u32 pred aligned",
    section=_SECTION,
    results=1,
    prepare=lambda form: next(word for word in named_barriers.REDUCTIONS if word in form.words),
)
def barrier_red(state: AgentState, op: Op, identifier: Any, threads: Any, predicate: Any = None) -> Steps:
    """d, a, c, or d, a, b, c: the number of threads, b, may be left out."""
    count, holds = (None, threads) if predicate is None else (threads, predicate)
    found = yield from named_barriers.reduce(state, op, op.data, (identifier, count), holds)
    return found


TABLE.effects("bar.warp.sync", section=_SECTION.replace("bar, barrier", "bar.warp.sync"))(warp_barrier)
