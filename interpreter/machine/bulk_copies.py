"""Copies of consecutive bytes by the TMA unit (PTX ISA, "cp.async.bulk", "cp.reduce.async.bulk").

They land in shared memory as boxes of tensors do (tensor_maps.py), and store in groups (tensor_stores.py). An address
in shared memory of a cluster may be in another CTA.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import NotInterpreted
from lowtide.interpreter.machine import mbarrier_objects, mbarriers, register_memory, tensor_maps, tensor_stores, tma
from lowtide.interpreter.machine.agents import AgentState, Steps
from lowtide.interpreter.machine.clusters import owner
from lowtide.interpreter.machine.lanes import active_lane_numbers, active_rows, by_lane, one_lane, uniform
from lowtide.interpreter.machine.mbarriers import Mbarrier
from lowtide.interpreter.machine.memory import SharedMemory
from lowtide.interpreter.machine.ordered_memory import OpenRead
from lowtide.interpreter.machine.scheduling import spawn
from lowtide.interpreter.machine.tensor_stores import Change, Store
from lowtide.interpreter.numbers.accesses import Access, Described, Span
from lowtide.interpreter.numbers.cells import Cells
from lowtide.interpreter.numbers.codes import ELEMENT_BYTES, UNWRITTEN, ZERO_TYPE
from lowtide.interpreter.numbers.domains import Domain

UNIT = 16  # bytes: addresses and sizes are multiples


def _checked(state: AgentState, op: Described, size: Any, **addresses: Any) -> tuple[int, ...]:
    """The size and the addresses of a copy by one lane."""
    one_lane(state, op, "start a bulk copy")
    found = [uniform(state, op, each) for each in (size, *addresses.values())]
    names = ("size", *addresses)
    wrong = next((name for name, value in zip(names, found, strict=True) if value % UNIT), None)
    if wrong is not None or found[0] <= 0:
        value = found[names.index(wrong or "size")]
        raise state.violation(
            op, f"the {wrong or 'size'} of a bulk copy is {value:#x}; it is a multiple of {UNIT} bytes [bulk-multiple]"
        )
    return tuple(found)


def load(state: AgentState, op: Described, places: tuple[Any, Any, Any], barrier: Any, mask: Any = None) -> None:
    """Copy bytes from global memory to shared memory, of the CTA of the destination or of all in a multicast mask.

    `places`: destination, source, and number of bytes.
    """
    size, to, source = _checked(state, op, places[2], destination=places[0], source=places[1])
    signalled = _signalled(state, op, to, barrier, mask)
    data = state.machine.memory.read_raw(state.access(op), np.array([source]), size, None)
    _start(state, op, to, data, signalled)


def _signalled(state: AgentState, op: Described, to: int, barrier: Any, mask: Any) -> list[Mbarrier]:
    found = tma.signalled_by(state, op, barrier, mask)
    home = owner(state, op, to)
    if mask is None and found[0].home is not home:
        raise state.violation(
            op,
            f"copies to CTA {home.index} and signals {found[0].name} of another CTA; both are in one CTA [bulk-home]",
        )
    return found


def _start(state: AgentState, op: Described, to: int, data: tuple[Any, Any], signalled: list[Mbarrier]) -> None:
    """The bytes begin to land at an address of a CTA of the cluster."""
    home = owner(state, op, to)
    own = np.array([to - home.shared.origin + state.cta.shared.origin])
    tensor_maps.arrive_in(state, op, own, data, signalled)


def copy_within(state: AgentState, op: Described, places: tuple[Any, Any, Any], barrier: Any) -> None:
    """Copy bytes of the CTA's own shared memory to a CTA of the cluster. They may be read until they have landed."""
    size, to, source = _checked(state, op, places[2], destination=places[0], source=places[1])
    signalled = _signalled(state, op, to, barrier, None)
    access, shared = state.access(op), state.cta.shared
    span = shared.see(access, np.array([source]), size)
    data = _raw(shared, access, span)
    read, epoch = shared.opened(access, span), shared.clocks.epoch(state.warp)
    _start(state, op, to, data, signalled)
    spawn(state, f"bulk copy by {state.seat.name}", op, partial(_close, read, epoch))


def _close(read: OpenRead, epoch: int, aside: AgentState) -> Steps:
    yield from ()
    aside.cta.shared.close_reads(aside.warp, [read], epoch)


def _raw(cells: Cells, access: Access, span: Span) -> tuple[NDArray[Any], NDArray[Any]]:
    """Codes and payload of bytes that were written. Raises InterpreterError."""
    codes = span.get(cells.codes)
    if (codes == UNWRITTEN).any():
        byte = int(np.argmax(codes[0] == UNWRITTEN))
        cells.fail(access, span.addresses, 0, byte, "uninitialised: copies what was never written [bulk-unwritten]")
    return codes, span.get(cells.payload)


# Stores ---------------------------------------------------------------------------------------------------------------


def store(state: AgentState, op: Described, destination: Any, source: Any, size: Any) -> None:
    """Copy bytes of shared memory to global memory, in the thread's open bulk group."""
    count, to, start = _checked(state, op, size, destination=destination, source=source)
    lane = active_lane_numbers(state)[0]
    access, shared, memory = state.access(op, np.array([lane])), state.cta.shared, state.machine.memory
    span = shared.see(access, np.array([start]), count)
    codes, payload = _raw(shared, access, span)
    dtype = register_memory.type_there(memory, np.array([to]))
    if dtype is None:
        written = memory.start_raw_store(access, np.array([to]), codes, payload)
    else:
        values = elements(shared, access, span, dtype, state.machine.domain)
        written = memory.start_store(access, np.array([to]), values, dtype, values.shape[1])
    read = shared.opened(access, span)
    tensor_stores.groups_of(state, lane).started.append(Store(op, read, [(access, written)]))


def elements(cells: SharedMemory, access: Access, span: Span, dtype: str, domain: Domain) -> NDArray[Any]:
    """Bytes read as elements of a type, as integers also if they were written as numbers of the same bits: payload
    (1, n)."""
    width = ELEMENT_BYTES[dtype]
    first = cells.dtypes_at(access, span.addresses + cells.origin)
    there = next(iter(first), ZERO_TYPE)
    if dtype[0] not in "fb" and there[0] in "fb":
        held = cells.numbers(access, span, there)
        words = np.ascontiguousarray(domain.to_bits(held, there)).view(f"i{width}")
        return words.astype(cells.payload.dtype)
    return cells.numbers(access, span, dtype)


# Reductions -----------------------------------------------------------------------------------------------------------


def reduce(state: AgentState, op: Described, places: tuple[Any, Any, Any], dtype: str, change: Change) -> None:
    """As `store`, but each element of a type becomes a function of its old value and the copied one."""
    count, to, start = _checked(state, op, places[2], destination=places[0], source=places[1])
    lane = active_lane_numbers(state)[0]
    access, shared = state.access(op, np.array([lane])), state.cta.shared
    span = shared.see(access, np.array([start]), count)
    there = register_memory.type_there(state.machine.memory, np.array([to]))
    halves = there == "i32" and dtype == "i64"  # as which integers of 8 bytes are in memory
    if there is not None and ELEMENT_BYTES[there] != ELEMENT_BYTES[dtype] and not halves:
        rule = (
            f"reduces elements of {dtype} in an array of {there}; declare elements of the same width [reduced-elements]"
        )
        raise state.violation(op, rule, NotInterpreted)
    values = elements(shared, access, span, dtype, state.machine.domain)
    state.machine.memory.change(access, np.array([to]), count, dtype, partial(change, values))
    tensor_stores.groups_of(state, lane).started.append(Store(op, shared.opened(access, span), []))


def reduce_within(
    state: AgentState, op: Described, places: tuple[Any, Any, Any], barrier: Any, dtype: str, change: Change
) -> None:
    """As `copy_within`, but each element of a type becomes a function of its old value and the copied one."""
    count, to, start = _checked(state, op, places[2], destination=places[0], source=places[1])
    (signalled,) = _signalled(state, op, to, barrier, None)
    access, shared = state.access(op), state.cta.shared
    span = shared.see(access, np.array([start]), count)
    values = elements(shared, access, span, dtype, state.machine.domain)
    read, epoch = shared.opened(access, span), shared.clocks.epoch(state.warp)
    mbarriers.note_load(state, op, signalled)
    landing = _Reduction(signalled, signalled.completed, np.array([to]), dtype, partial(change, values))
    spawn(state, f"bulk reduction by {state.seat.name}", op, partial(_land_reduced, op, landing, count))
    spawn(state, f"bulk reduction by {state.seat.name}", op, partial(_close, read, epoch))


@dataclass(frozen=True)
class _Reduction:
    """Elements at addresses that are about to be changed, and the phase of the mbarrier that counts them."""

    barrier: Mbarrier
    phase: int
    addresses: NDArray[Any]
    dtype: str
    change: Callable[[Any], Any]


def _land_reduced(op: Described, landing: _Reduction, count: int, aside: AgentState) -> Steps:
    yield from ()
    barrier = landing.barrier
    assert barrier.home is not None
    shared = barrier.home.shared
    access = aside.access(op)
    span = shared.span(access, landing.addresses, count)
    new = landing.change(shared.numbers(access, span, landing.dtype))
    shared.land_numbers(span, new, landing.dtype, barrier.source, landing.phase)
    mbarriers.complete_bytes(aside, op, barrier, landing.phase, count)


# Stores of registers --------------------------------------------------------------------------------------------------


def store_async(
    state: AgentState, op: Described, addresses: Any, parts: Sequence[Any], width: int, barrier: Any
) -> None:
    """st.async: each active lane stores registers of `width` bytes in a CTA of the cluster, and they land later."""
    size = width * len(parts)
    staging = Cells("registers", 0, UNIT * len(state.lanes), state.machine.domain.payload)
    rows = state.lanes.astype(np.int64) * UNIT
    register_memory.store(state, (op,), staging, (rows,), (parts,), width)
    access, active = active_rows(state, op, by_lane(addresses))
    span = staging.span(access, rows if state.mask is None else rows[state.mask], size)
    codes, payload = span.get(staging.codes), span.get(staging.payload)
    _, signals = active_rows(state, op, by_lane(barrier))
    for signal in np.unique(signals):
        chosen = signals == signal
        home = owner(state, op, int(signal))
        own = active[chosen] - home.shared.origin + state.cta.shared.origin
        signalled = mbarrier_objects.in_cta(state, op, home, int(signal))
        tensor_maps.arrive_in(state, op, own, (codes[chosen], payload[chosen]), [signalled], by_threads=True)
