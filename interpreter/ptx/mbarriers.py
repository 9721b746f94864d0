"""mbarriers (PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier").

An address without a state space is generic; in .shared::cluster it may be in another CTA of the cluster.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lowtide.interpreter.machine import async_arrivals, mbarrier_objects
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.mbarrier_objects import Arrival
from lowtide.interpreter.ptx.lane_by_lane import lane_by_lane
from lowtide.interpreter.ptx.moves import GENERIC_SHARED
from lowtide.interpreter.ptx.running import Op
from lowtide.interpreter.ptx.table import Form, Table

TABLE = Table()

_SECTION = "Parallel Synchronization and Communication Instructions"
_OWN = "shared shared::cta b64"
_ANY = f"{_OWN} shared::cluster"
_SCOPES = "cta cluster"


@dataclass(frozen=True)
class _Form:
    """`place` gives the address in shared memory; `arrival` how it arrives; `expects`: its operand is bytes."""

    place: Callable[[Any], Any]
    arrival: Arrival
    expects: bool = False


def _prepare(form: Form) -> _Form:
    words, name = form.words, form.row.name
    is_generic = not any(word.startswith("shared") for word in words)
    place = (lambda address: address - GENERIC_SHARED) if is_generic else (lambda address: address)
    arrival = Arrival("relaxed" in words, "arrive_drop" in name, "noComplete" not in name)
    return _Form(place, arrival, name.endswith("expect_tx"))


@TABLE.effects("mbarrier.init", words=_OWN, section=f"{_SECTION}: mbarrier.init", prepare=_prepare)
@lane_by_lane
def init(state: AgentState, op: Op, address: Any, count: Any) -> None:
    mbarrier_objects.initialise(state, op, op.data.place(address), count)


@TABLE.effects("mbarrier.inval", words=_OWN, section=f"{_SECTION}: mbarrier.inval", prepare=_prepare)
@lane_by_lane
def inval(state: AgentState, op: Op, address: Any) -> None:
    mbarrier_objects.invalidate(state, op, op.data.place(address))


@TABLE.effects(
    "mbarrier.expect_tx",
    words=f"{_ANY} relaxed {_SCOPES}",
    section=f"{_SECTION}: mbarrier.expect_tx",
    prepare=_prepare,
)
@lane_by_lane
def expect_tx(state: AgentState, op: Op, address: Any, size: Any) -> None:
    mbarrier_objects.expect(state, op, op.data.place(address), size)


@TABLE.effects(
    "mbarrier.complete_tx",
    words=f"{_ANY} relaxed {_SCOPES}",
    section=f"{_SECTION}: mbarrier.complete_tx",
    prepare=_prepare,
)
@lane_by_lane
def complete_tx(state: AgentState, op: Op, address: Any, size: Any) -> None:
    mbarrier_objects.complete(state, op, op.data.place(address), size)


@TABLE.effects(
    *(f"mbarrier.{what}{how}" for what in ("arrive", "arrive_drop") for how in ("", ".expect_tx", ".noComplete")),
    words=f"{_ANY} release relaxed {_SCOPES}",
    section=f"{_SECTION}: mbarrier.arrive, mbarrier.arrive_drop",
    results=1,
    prepare=_prepare,
)
@lane_by_lane
def arrive(state: AgentState, op: Op, address: Any, count: Any = None) -> Any:
    """Each active lane arrives, at an mbarrier of its own CTA or of another CTA of the cluster; the operand is the
    number of arrivals, or with .expect_tx of bytes."""
    form: _Form = op.data
    times = 1 if count is None or form.expects else count
    size = count if form.expects else 0
    return mbarrier_objects.arrive(state, op, form.place(address), times, size, form.arrival)


_WAIT_SECTION = f"{_SECTION}: mbarrier.test_wait, mbarrier.try_wait"


@TABLE.effects(
    "mbarrier.try_wait.parity",
    "mbarrier.test_wait.parity",
    words=f"{_OWN} acquire relaxed {_SCOPES}",
    section=_WAIT_SECTION,
    results=1,
    acts=False,
    prepare=_prepare,
)
@lane_by_lane
def wait_parity(state: AgentState, op: Op, address: Any, parity: Any, patience: Any = None) -> bool:
    """Whether the phase of this parity has completed. A loop of it waits (machine/branches.py)."""
    return mbarrier_objects.poll_parity(state, op, op.data.place(address), parity)


@TABLE.effects(
    "mbarrier.try_wait",
    "mbarrier.test_wait",
    words=f"{_OWN} acquire relaxed {_SCOPES}",
    section=_WAIT_SECTION,
    results=1,
    acts=False,
    prepare=_prepare,
)
@lane_by_lane
def wait_state(state: AgentState, op: Op, address: Any, token: Any, patience: Any = None) -> bool:
    """As `wait_parity`, for the phase of an arrival's result."""
    return mbarrier_objects.poll_state(state, op, op.data.place(address), token)


@TABLE.effects(
    "mbarrier.pending_count", words="b64", section=f"{_SECTION}: mbarrier.pending_count", results=1, acts=False
)
def pending_count(state: AgentState, op: Op, token: Any) -> Any:
    return mbarrier_objects.pending_count(token)


@TABLE.effects(
    "cp.async.mbarrier.arrive",
    words=f"noinc {_OWN}",
    section=f"{_SECTION}: cp.async.mbarrier.arrive",
    prepare=lambda form: (_prepare(form).place, "noinc" in form.words),
)
@lane_by_lane
def arrive_by_copies(state: AgentState, op: Op, address: Any) -> None:
    """Each active lane's copies by cp.async so far arrive when they have landed."""
    place, is_counted = op.data
    async_arrivals.arrive(state, op, mbarrier_objects.at(state, op, place(address)), is_counted)
