"""Shared memory of a CTA, with copies and reads that run asynchronously, and what the async proxy sees of it.

Bytes that cp.async or TMA fills are in flight from `start_copy` to `SharedMemory.land`: no access is allowed (PTX ISA,
"cp.async": the order of an access without a wait is undefined). Bytes that wgmma or TMA reads are open from `open_read`
to `close_reads`: no write is allowed. Both read through the async proxy: it does not see the writes of a thread without
a `fence_proxy` between the write and the read, by any thread on the path that orders the two (PTX ISA, "Async proxy",
"membar/fence"). A TMA load may overwrite what a thread has read only after the thread's `fence_proxy`
(proxy_fences.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from lowtide.interpreter.machine.equal_stores import EqualStores
from lowtide.interpreter.machine.global_memory import GlobalMemory
from lowtide.interpreter.machine.ordered_memory import OpenRead, OrderedMemory
from lowtide.interpreter.machine.reliances import CP_ASYNC_SEEN, READS_BEFORE_COPIES, Relied
from lowtide.interpreter.numbers.accesses import LANE_BITS, LANES, WHOLE_AGENT, Access, Ints, Span, Values, lane_column
from lowtide.interpreter.numbers.cells import IN_FLIGHT, Buffer, Holds
from lowtide.interpreter.numbers.codes import ELEMENT_BYTES
from lowtide.interpreter.program.batches import NotTogether

_LISTED = 256
"""The number of spans that an agent has written and not shown to the async proxy; beyond it, they are not listed."""


@dataclass(slots=True)
class InFlight:
    """Bytes of shared memory that an asynchronous copy fills."""

    access: Access
    span: Span

    def rows(self, chosen: Any) -> InFlight:
        """The copies of some lanes. `chosen`: an index of rows."""
        ops, access = self.access.ops, self.access.of_rows(chosen)
        access.ops = ops
        return InFlight(access, self.span.rows(chosen))

    def by_warp(self) -> list[InFlight]:
        """The copies of each agent, if several have started them as one."""
        if self.access.warps is None:
            return [self]
        found = []
        for warp, rows in self.access.parts:
            found.append(part := self.rows(rows))
            part.access.warp, part.access.warps = warp, None
        return found


class SharedMemory(OrderedMemory):
    """Shared memory of one CTA; the arguments are those of OrderedMemory."""

    state = (*OrderedMemory.state, "_shown_epoch")

    def __init__(
        self,
        warps: int,
        size: int | None = None,
        payload: Any = np.float64,
        names: Sequence[str] = (),
        origin: int = 0,
        spans: dict[Any, Span] | None = None,
    ) -> None:
        super().__init__(warps, size, payload, names, origin, spans)
        self.relied: Relied | None = None  # if given, what hardware is seen to forgive is noted there, and not refused
        # Writes hidden from the async proxy, by writing agent and span; None if there are too many.
        self._hidden: dict[int, dict[int, Span] | None] = {}
        self._are_copies = np.zeros(0, np.bool_)  # by number of an op: whether it is a cp.async
        # The epoch of the fence that showed a write to the async proxy, + 1; 0 if nothing is hidden from it.
        self._shown_epoch: NDArray[np.int32] = np.zeros(self.entries(self.size), np.int32)

    def forgive(self, relied: Relied) -> None:
        """From now on, what hardware is seen to forgive is noted, and not refused."""
        self.relied, self.equals = relied, EqualStores(relied)

    def _end_object(self, span: Span, late: Values, relied: Relied, fail: Callable[[], NoReturn]) -> Buffer | None:
        ended = super()._end_object(span, late, relied, fail)
        if ended is not None:  # its initialisation is not hidden from the async proxy, either
            self._shown_epoch[ended.start // self.unit : ended.end // self.unit] = 0
        return ended

    def start_copy(
        self,
        access: Access,
        addresses: Ints,
        codes: Values,
        payload: Values,
        source: int | None = None,
        by_threads: bool = False,
    ) -> InFlight:
        """An asynchronous copy of raw bytes (n, size) begins: they are in flight until `land`.

        `source` is the clock of the write, if not the agent's own: the copy is then by TMA, through the async proxy,
        unless `by_threads`: it writes as threads do, hidden from that proxy until they fence. Raises InterpreterError
        for an access out of bounds or misaligned, bytes already in flight, a race, and bytes that the async proxy may
        not overwrite yet.
        """
        span = self.span(access, addresses, codes.shape[1])
        is_proxy = source is not None and not by_threads
        if is_proxy:
            lane = lane_column(access)
            self._check_writers(access, span, lane, "writes", "write after write")
            self._check_shown(access, span, lane, "overwrites")
        self._before_write(access, span)
        self.changes.count += 1
        if is_proxy:
            self._check_fenced_reads(access, span)
        span.put(self.codes, codes)
        span.put(self.payload, payload)
        self._write_epoch[span.units] = IN_FLIGHT
        if not by_threads:
            self._shown_epoch[span.units] = 0
        if source is not None:
            self._writer[span.units] = source * LANES + WHOLE_AGENT
        return InFlight(access, span)

    def land(self, copy: InFlight, epoch: int | None = None) -> None:
        """The bytes of a copy are now written, by the threads that started it.

        `epoch`: the epoch of the writer; by default the current one of the agent that started the copy.
        """
        present = self.clocks.epoch(copy.access.warp) if epoch is None else epoch
        self._write_epoch[self.renewed(copy.span).units] = present + 1

    def land_by(self, copy: InFlight, source: int, epoch: int) -> None:
        """The bytes of a copy by threads are now written, by a source of writes in an epoch of it.

        The async proxy sees them after a `fence_proxy` of an agent that knows the epoch.
        """
        span = self.renewed(copy.span)
        self._writer[span.units] = source * LANES + WHOLE_AGENT
        self._write_epoch[span.units] = epoch + 1

    def land_numbers(self, span: Span, payload: Values, dtype: str, source: int, epoch: int) -> None:
        """Elements of a span are written by a source of writes in an epoch of it, through the async proxy."""
        span = self.renewed(span)
        self.put_numbers(span, payload, dtype)
        self._writer[span.units] = source * LANES + WHOLE_AGENT
        self._write_epoch[span.units] = epoch + 1
        self._shown_epoch[span.units] = 0

    def open_read(
        self, access: Access, addresses: Ints, dtype: str, count: int, unwritten: Any = None
    ) -> tuple[Values, OpenRead]:
        """As `load`, through the async proxy; the bytes may still be read later, until `close_reads`. `unwritten`: the
        number that is read where nothing was written; without it, such a read is refused."""
        payload, span = self.seen(access, addresses, dtype, count, unwritten)
        return payload, self.opened(access, span)

    def see(self, access: Access, addresses: Ints, size: int) -> Span:
        """Bytes that the async proxy is about to read. Raises InterpreterError if the agent's op may not read them."""
        span = self.span(access, addresses, size)
        lane = lane_column(access)
        self._check_writers(access, span, lane, "reads", "read after write")
        self._check_shown(access, span, lane, "reads")
        return span

    def seen_by_all(self, access: Access, agents: Sequence[int], addresses: Ints, size: int) -> Span:
        """As `see`, for several agents that each read all of the bytes. Raises NotTogether if some agent may not read
        them, or if the agents must be checked one by one."""
        span = self.span(access, addresses, size)
        if self.equals is not None and self.equals.reaches(span.units):
            raise NotTogether
        known = self.clocks.known[agents].min(axis=0)[self._writer[span.units] >> LANE_BITS]
        if np.count_nonzero(self._write_epoch[span.units] > known):
            raise NotTogether
        shown = self._shown_epoch[span.units]
        hidden = shown > known
        if np.count_nonzero(hidden):
            for agent in agents:
                left = hidden & ~self._fenced_since(agent, WHOLE_AGENT, span)
                if np.count_nonzero(left) and not self._are_forgiven(span, left):
                    raise NotTogether
        return span

    def _fenced_since(self, agent: int, lane: Any, span: Span, rows: Any = slice(None)) -> Values:
        """Which bytes of these rows any thread has fenced, between their writes and the present of an agent's lanes."""
        units = span.units[rows]
        return self._fences.between(self.clocks, agent, lane, self._writer[units], self._write_epoch[units])

    def _are_forgiven(self, span: Span, hidden: Values) -> bool:
        """Whether these hidden writes are all in flight by cp.async, and the run already relies on reading such writes
        (`CP_ASYNC_SEEN`)."""
        is_told = self.relied is not None and CP_ASYNC_SEEN in self.relied.places
        return is_told and bool((~hidden | self._by_cp_async(self._write_site[span.units])).all())

    def seen(
        self, access: Access, addresses: Ints, dtype: str, count: int, unwritten: Any = None
    ) -> tuple[Values, Span]:
        """As `open_read`, without opening the bytes; `opened` opens the span."""
        span = self.see(access, addresses, ELEMENT_BYTES[dtype] * count)
        return self._read(access, span, dtype, count, unwritten), span

    def opened(self, access: Access, span: Span, reader: int | None = None) -> OpenRead:
        """From now on the async proxy may read the bytes, until `close_reads`."""
        reader = access.warp if reader is None else reader
        read = OpenRead(access, span)
        self.open_reads[reader].append(read)
        self._note_read(reader, read, IN_FLIGHT)
        return read

    def close_reads(self, reader: int, reads: Sequence[OpenRead], epoch: int, lane: int = WHOLE_AGENT) -> None:
        """These reads of a reader end, in this epoch of it; `lane` is the lane that knows it without a barrier."""
        closed = set(map(id, reads))
        self.open_reads[reader] = [read for read in self.open_reads[reader] if id(read) not in closed]
        for read in reads:
            self._note_read(reader, read, epoch + 1, lane)
        for read in self.open_reads[reader]:
            self._note_read(reader, read, IN_FLIGHT)

    def _note_read(self, reader: int, read: OpenRead, epoch: int, lane: int = WHOLE_AGENT) -> None:
        read.span = self.renewed(read.span)
        self._reads_of(reader).note(read.span.units, epoch, lane, self.site(read.access, read.span))

    def fence_proxy(self, access: Access) -> None:
        """fence.proxy.async by these lanes (all of the agent if None).

        The async proxy then sees their writes and the writes before a barrier that they have passed, and its own
        writes are ordered after their reads. Bytes that are still in flight by their cp.async stay hidden.
        """
        self._fences.add(access.warp, access.lanes, self.clocks)
        written = self._hidden.get(access.warp, {})
        if written is None:
            self._hidden[access.warp] = None if self._show(access, slice(None)) else {}
        else:
            left = {at: span for at, span in written.items() if self._show(access, self.renewed(span).units)}
            self._hidden[access.warp] = left

    def _show(self, access: Access, units: Any) -> bool:
        """Show the writes of the access's lanes there. Returns whether a write of their agent stays hidden."""
        writer = self._writer[units]
        mine = (self._shown_epoch[units] == IN_FLIGHT) & (writer // LANES == access.warp)
        shown = mine & (self._write_epoch[units] != IN_FLIGHT)
        if access.lanes is not None:
            shown &= np.isin(writer % LANES, access.lanes)
        epochs = self._shown_epoch[units]
        epochs[shown] = self.clocks.epoch(access.warp) + 1
        self._shown_epoch[units] = epochs
        return bool(np.count_nonzero(mine) > np.count_nonzero(shown))

    def _check_shown(self, access: Access, span: Span, lane: Any, verb: str) -> None:
        """Raise for bytes written by threads that the async proxy may not see yet."""
        shown = self._shown_epoch[span.units]
        if not np.count_nonzero(shown):
            return
        writer = self._writer[span.units]
        mine = (writer == access.agents * LANES + lane) & (shown != IN_FLIGHT)
        hidden = (shown > self.clocks.known[access.agents, writer // LANES]) & ~mine
        if not np.count_nonzero(hidden):
            return
        for agent, rows in access.parts:
            lanes = lane[rows] if isinstance(lane, np.ndarray) else lane
            hidden[rows] &= ~self._fenced_since(agent, lanes, span, rows)
        if not np.count_nonzero(hidden):
            return
        is_strict = self.relied is None  # a fence of the writer without a barrier after it does not make it worse
        forgiven = np.zeros_like(hidden) if is_strict else hidden & self._by_cp_async(self._write_site[span.units])
        for where in (hidden & ~forgiven, forgiven):
            if not where.any():
                continue
            relied = self.relied if where is forgiven else None
            if relied is not None and CP_ASYNC_SEEN in relied.places:
                continue  # only the first place is told
            if access.warps is not None:
                raise NotTogether
            row, byte = span.first(where)
            rule = self._why_hidden(span, where, verb)
            if relied is None:
                self.fail(access, span.addresses, row, byte, rule)
            relied.on(CP_ASYNC_SEEN, self.broken(access, span.addresses, row, byte, rule))

    def _why_hidden(self, span: Span, hidden: Values, verb: str) -> str:
        is_fenced = self._shown_epoch[span.units][hidden][0] != IN_FLIGHT
        lacks = "no barrier after its proxy fence" if is_fenced else "no proxy fence in between"
        who = self._thread_name(int(self._writer[span.units][hidden][0]))
        by = self.by(int(self._write_site[span.units][hidden][0]))
        fence = "let the writer execute fence.proxy.async before the barrier, or the reader after it"
        remedy = "put a barrier there" if is_fenced else fence
        return (
            f"not visible to the async proxy: {verb} what {who} wrote, with {lacks}; it wrote{by}; {remedy}"
            " [async-proxy]"
        )

    def _by_cp_async(self, sites: Values) -> Values:
        """Which of these ops are cp.async."""
        if len(self._are_copies) <= len(self._sites):
            are_copies = [getattr(op, "name", "").startswith("cp.async.c") for op in self._sites]
            self._are_copies = np.array([*are_copies, False])
        return self._are_copies[np.minimum(sites, len(self._sites))]

    def _before_write(self, access: Access, span: Span, holds: Holds | None = None) -> None:
        super()._before_write(access, span, holds)
        if access.strong is not None:
            return
        for warp, _ in access.parts:
            hidden = self._hidden.setdefault(warp, {})
            if hidden is not None:
                hidden[id(span)] = span
                if len(hidden) > _LISTED:
                    self._hidden[warp] = None
        self._shown_epoch[span.units] = IN_FLIGHT

    def _check_fenced_reads(self, access: Access, span: Span) -> None:
        """Raise if TMA may overwrite bytes before a thread has read them, because the thread executed no proxy fence.

        Reads by agents of other CTAs are not checked.
        """
        for reader, reads in self._reads.items():
            if reader >= self.clocks.warps:
                continue
            made = reads.fences[span.units]
            ordered = self._fences.ordered(reader, int(self.clocks.known[access.warp, reader]))
            unfenced = made >= ordered[reads.lane[span.units]]
            if np.count_nonzero(unfenced):
                row, byte = span.first(unfenced)
                unit = (int(span.addresses[row]) + byte) // self.unit
                who = self._thread_name(reader * LANES + int(reads.lane[unit]))
                rule = (
                    f"not ordered for the async proxy: overwrites what {who} read, with no proxy fence by it between "
                    f"its read and its release of the bytes; it read{self.by(int(reads.site[unit]))}; let the reader "
                    "execute fence.proxy.async before its barrier or arrival [async-proxy-reads]"
                )
                if self.relied is None:
                    self.fail(access, span.addresses, row, byte, rule)
                self.relied.on(READS_BEFORE_COPIES, self.broken(access, span.addresses, row, byte, rule))


def start_copy(
    source: GlobalMemory,
    destination: SharedMemory,
    access: Access,
    shared_addresses: Ints,
    global_addresses: Ints,
    size: int,
    used: Ints | None = None,
    by_threads: bool = False,
) -> InFlight:
    """An asynchronous copy of `size` bytes from each global address, zero-filled after the first `used` bytes (n,).

    Global memory is read at once; the bytes land by `destination.land`. `by_threads` as in `SharedMemory.start_copy`.
    Raises InterpreterError.
    """
    codes, payload = source.read_raw(access, global_addresses, size, used)
    return destination.start_copy(access, shared_addresses, codes, payload, by_threads=by_threads)
