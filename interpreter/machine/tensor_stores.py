"""TMA stores: boxes of shared memory into a matrix, in groups that a thread commits and waits for.

PTX ISA, "cp.async.bulk.tensor", "cp.async.bulk.commit_group", "cp.async.bulk.wait_group". A store reads shared memory,
through the async proxy, at any time until a wait with `.read` covers its group: until then the bytes may not be
written. It writes the matrix at any time until a wait without `.read`, or the end of the kernel: until then it may not
be accessed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.ordered_memory import OpenRead
from lowtide.interpreter.machine.tensor_maps import ALIGNMENT, BoxPlaces, TensorMap, places
from lowtide.interpreter.numbers.accesses import WHOLE_AGENT, Access, Described, Span

_GRANULE = 16  # bytes: the least that the last store of a row writes, with zeros beyond the tensor (seen on an H200)


Change: TypeAlias = Callable[[Any, Any], Any]
"""Elements of a box, and those in memory, to the new ones."""


@dataclass(eq=False)
class Store:
    """One box in flight: the bytes that it reads and writes, and the op that started it."""

    op: Described
    read: OpenRead
    written: list[tuple[Access, Span]]


@dataclass(eq=False)
class Groups:
    """The bulk groups of one thread: `committed` of them so far, each with its stores while they read or write."""

    started: list[Store] = field(default_factory=list)
    committed: int = 0
    reading: dict[int, list[Store]] = field(default_factory=dict)
    writing: dict[int, list[Store]] = field(default_factory=dict)


def groups_of(state: AgentState, lane: int = WHOLE_AGENT) -> Groups:
    """The groups of one thread, or of the thread that acts for an agent."""
    stores = state.cta.stores
    if (state.warp, lane) not in stores:
        made = stores[state.warp, lane] = Groups()
        state.cta.at_end.append(lambda ending: _check_read(ending, made))
    found: Groups = stores[state.warp, lane]
    return found


def store_box(
    state: AgentState, op: Described, map: TensorMap, corner: tuple[int, ...], address: int, lane: int = WHOLE_AGENT
) -> None:
    """cp.async.bulk.tensor: one thread starts a store of the box at a shared address. Coordinates outermost first.

    Elements outside the tensor are dropped, in units of 16 bytes: a unit in which a row ends is written completely.
    Raises InterpreterError for a misaligned box, rows that end within a unit whose rest may not be overwritten, a box
    that the async proxy may not see, and a race.
    """
    if address % ALIGNMENT:
        raise state.violation(
            op, f"a box at shared memory address {address:#x}; TMA needs a multiple of {ALIGNMENT} [stored-box-address]"
        )
    box = places(map, corner, address)
    element = map.element
    row_bytes = map.shape[-1] * element.bytes
    behind = -row_bytes % _GRANULE
    if behind and not state.machine.memory.holds(map.matrix.address + row_bytes, behind):
        raise state.violation(
            op,
            f"a TMA store into rows of {row_bytes} bytes, which writes {_GRANULE} at a time and so overwrites the "
            "bytes after a row [store-granule]",
        )
    access, payload, read = _read(state, map, box, lane)
    written = _write(state, access, box, payload, element.name, element.bytes)
    groups_of(state, lane).started.append(Store(op, read, written))


def _read(state: AgentState, map: TensorMap, box: BoxPlaces, lane: int) -> tuple[Access, np.ndarray, OpenRead]:
    """The access to a box, its elements in shared memory, and the read, which stays open."""
    lanes = None if lane == WHOLE_AGENT else np.full(len(box.shared), lane)
    assert state.op is not None
    access, element = state.access(state.op, lanes), map.element
    payload, read = state.cta.shared.open_read(access, box.shared, element.name, box.size // element.bytes)
    return access, payload, read


def reduce_box(
    state: AgentState, op: Described, map: TensorMap, corner: tuple[int, ...], at: tuple[int, int], change: Change
) -> None:
    """cp.reduce.async.bulk.tensor: as `store_box` at a shared address by a lane, but each element inside the tensor
    becomes a function of its old value and the element of the box."""
    address, lane = at
    if address % ALIGNMENT:
        raise state.violation(
            op,
            f"a box at shared memory address {address:#x}; TMA needs a multiple of {ALIGNMENT} [reduced-box-address]",
        )
    box, width = places(map, corner, address), map.element.bytes
    access, payload, read = _read(state, map, box, lane)
    for used in np.unique(box.used[box.used > 0]):
        chosen = box.used == used
        values = payload[chosen, : int(used) // width]
        part = replace(access, lanes=None if access.lanes is None else np.asarray(access.lanes)[chosen])
        state.machine.memory.change(part, box.globals[chosen], int(used), map.element.name, partial(change, values))
    groups_of(state, lane).started.append(Store(op, read, []))


def _write(
    state: AgentState, access: Access, box: BoxPlaces, payload: np.ndarray, dtype: str, width: int
) -> list[tuple[Access, Span]]:
    """The part of a box that is in the matrix, in whole units, written asynchronously."""
    written = []
    for used in np.unique(box.used[box.used > 0]):
        chosen = box.used == used
        lanes = None if access.lanes is None else np.asarray(access.lanes)[chosen]
        whole = min(-(-int(used) // _GRANULE) * _GRANULE, payload.shape[1] * width)
        part, count = replace(access, lanes=lanes), whole // width
        span = state.machine.memory.start_store(part, box.globals[chosen], payload[chosen, :count], dtype, count)
        written.append((part, span))
    return written


def commit(state: AgentState, lane: int = WHOLE_AGENT) -> None:
    """cp.async.bulk.commit_group: the thread's stores since the last commit become a group."""
    groups = groups_of(state, lane)
    groups.reading[groups.committed] = groups.started
    groups.writing[groups.committed] = groups.started
    groups.started = []
    groups.committed += 1


def wait(state: AgentState, pending: int, read: bool, lane: int = WHOLE_AGENT) -> None:
    """cp.async.bulk.wait_group: all but the `pending` youngest groups are done, or have `read` their boxes."""
    groups, shared, memory = groups_of(state, lane), state.cta.shared, state.machine.memory
    covered = groups.committed - pending
    for number in [number for number in groups.reading if number < covered]:
        reads = [store.read for store in groups.reading.pop(number)]
        shared.close_reads(state.warp, reads, shared.clocks.epoch(state.warp), lane)
    for number in [number for number in groups.writing if number < covered and not read]:
        for store in groups.writing.pop(number):
            for access, span in store.written:
                memory.land_store(access, span)


def _check_read(state: AgentState, groups: Groups) -> None:
    """At the end of the CTA. Raises InterpreterError if a store may still read its shared memory."""
    for store in (*groups.started, *(store for stores in groups.reading.values() for store in stores)):
        raise state.violation(
            store.op,
            "the CTA ends and nobody has waited until this store has read shared memory; wait for all groups "
            "(sm.tma_store_wait read 0) before the last thread ends [store-unread]",
        )
