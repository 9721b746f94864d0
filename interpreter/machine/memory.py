"""Shared memory with the rules of ordering: which agent may read and write which bytes, and when.

Each byte remembers the thread that wrote it last and in which epoch (clocks.py), and its last reader in each warp. An
access to a byte that another thread wrote, or a write to one that another thread read, must be ordered after it, else
it is a race, whether or not this run's order of agents shows a wrong number. An agent that is a whole CTA (levels cta
to pipelined; `Access.lanes` None) needs a barrier after its own accesses too.

Bytes that cp.async or TMA fills are in flight from `start_copy` to `SharedMemory.land`: nobody may touch them (PTX ISA,
"cp.async": the order of an access without a wait is undefined). Bytes that wgmma or TMA reads are open from `open_read`
to `close_reads`: nobody may write them. Both read through the async proxy: what a thread wrote is hidden from it until
the thread's `fence_proxy`, which a barrier must follow (PTX ISA, "Async proxy", "membar/fence").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.clocks import Clocks
from lowtide.interpreter.machine.global_memory import GlobalMemory
from lowtide.interpreter.numbers.cells import (
    ELEMENT_BYTES,
    IN_FLIGHT,
    LANE_BITS,
    LANES,
    LARGEST,
    WARPS,
    WHOLE_AGENT,
    Access,
    Buffer,
    Cells,
    Ints,
    Span,
    Values,
    lane_column,
    padded,
    thread_name,
)


@dataclass(slots=True)
class InFlight:
    """Bytes of shared memory that an asynchronous copy fills."""

    access: Access
    span: Span

    def rows(self, chosen: NDArray[np.bool_]) -> InFlight:
        """The copies of some lanes."""
        span, lanes = self.span, self.access.lanes
        part = Span(span.addresses[chosen], span.size, span.chunk, span.unit, span.end)
        return InFlight(replace(self.access, lanes=None if lanes is None else np.asarray(lanes)[chosen]), part)


@dataclass(eq=False, slots=True)
class OpenRead:
    """Bytes of shared memory that an asynchronous op may still read: those of its span."""

    access: Access
    span: Span


class SharedMemory(Cells):
    """Shared memory of one CTA of `warps` agents. With `size` None it grows with the buffers placed in it.

    `names` are the agents' in messages, by default those of warps. Addresses begin at `origin`; places are counted from
    there. `spans` are those that several CTAs share.
    """

    state = ("_write_epoch", "_writer", "_write_site", "_shown_epoch", "_read_epoch", "_reader", "_read_site")

    def __init__(
        self,
        warps: int,
        size: int | None = None,
        payload: Any = np.float64,
        names: Sequence[str] = (),
        origin: int = 0,
        spans: dict[Any, Span] | None = None,
    ) -> None:
        super().__init__("shared memory", origin, size or 0, payload, spans)
        if warps > WARPS:
            raise InterpreterError(f"a CTA of {warps} warps; at most {WARPS}: launch with fewer threads")
        self.clocks = Clocks(warps, names)
        self.open_reads: list[list[OpenRead]] = [[] for _ in range(warps)]  # of each reader, oldest first
        self._reader_clocks = np.arange(warps)  # readers are the agents, and what reads on nobody's behalf
        self._objects: list[Buffer] = []
        self._fixed = size is not None
        units = self.entries(self.size)
        self._write_epoch: NDArray[np.int32] = np.zeros(units, np.int32)  # + 1; 0 never written
        self._writer: NDArray[np.int32] = np.zeros(units, np.int32)
        self._write_site: NDArray[np.uint16] = np.zeros(units, np.uint16)
        # The epoch of the fence that showed a write to the async proxy, + 1; 0 where nothing is hidden from it.
        self._shown_epoch: NDArray[np.int32] = np.zeros(units, np.int32)
        readers = warps + warps // 4  # an asynchronous one for each warpgroup
        self._read_epoch: NDArray[np.int32] = np.zeros((readers, units), np.int32)  # + 1; 0 never read
        self._reader: NDArray[np.uint8] = np.zeros((readers, units), np.uint8)  # lane
        self._read_site: NDArray[np.uint16] = np.zeros((readers, units), np.uint16)

    def place(self, name: str, start: int, size: int) -> None:
        """Name `size` bytes from `start`. Buffers may overlap: the one placed last gives the name in messages.

        Raises InterpreterError where they lie beyond the shared memory of the launch.
        """
        end = start + size
        if end > self.size:
            if self._fixed:
                raise InterpreterError(
                    f"{name} ends at byte {end} of shared memory, the launch has {self.size}; launch with more"
                )
            for field in ("payload", "codes", *self.state):
                array = getattr(self, field)
                wanted = self.entries(end) if field in self.state else padded(end)
                more = [(0, 0)] * (array.ndim - 1) + [(0, wanted - array.shape[-1])]
                setattr(self, field, np.pad(array, more))
            self.size = end
        self.buffers.append(Buffer(name, start, end))

    def add_reader(self, name: str) -> tuple[int, int]:
        """An asynchronous reader that is not an agent: its number among readers, and its clock."""
        clock = self.clocks.add_source(name)
        if len(self._reader_clocks) == len(self._read_epoch):
            for field in ("_read_epoch", "_reader", "_read_site"):
                array = getattr(self, field)
                setattr(self, field, np.concatenate((array, np.zeros_like(array[:1]))))
        self._reader_clocks = np.append(self._reader_clocks, clock)
        self.open_reads.append([])
        return len(self._reader_clocks) - 1, clock

    def claim(self, name: str, start: int, size: int) -> None:
        """From now on these bytes belong to an object that ordinary accesses may not touch."""
        self._objects.append(Buffer(name, start, start + size))
        self.refine(min((start | size | LARGEST) & -(start | size | LARGEST), LARGEST))
        self._write_epoch[start // self.unit : (start + size) // self.unit] = IN_FLIGHT

    def barrier(self, warps: list[int] | None = None) -> None:
        """bar.sync by `warps` (all when None): their accesses so far are before all their later ones."""
        self.clocks.barrier(warps)

    def warp_sync(self, warp: int) -> None:
        """bar.warp.sync: as `barrier` among the lanes of one warp."""
        self.clocks.warp_sync(warp)

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

        `source` is the clock that the write counts by, where not the agent's own: the copy is then one by TMA, which
        writes through the async proxy. `by_threads`: it writes as threads do, hidden from that proxy until they fence.
        Raises InterpreterError for an access out of bounds or misaligned, bytes in flight already, a race, and what the
        async proxy may not overwrite yet.
        """
        span = self.span(access, addresses, codes.shape[1])
        if source is not None:
            lane = lane_column(access)
            self._check_writers(access, span, lane, "writes", "write after write")
            self._check_shown(access, span, lane, "overwrites")
        self._before_write(access, span)
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

        `epoch`: in which epoch of who writes them; by default the present one of the agent that started the copy.
        """
        present = self.clocks.epoch(copy.access.warp) if epoch is None else epoch
        self._write_epoch[self.renewed(copy.span).units] = present + 1

    def open_read(
        self, access: Access, addresses: Ints, dtype: str, count: int, reader: int | None = None
    ) -> tuple[Values, OpenRead]:
        """As `load`, through the async proxy; the bytes may still be read later, until `close_reads`.

        `reader` is who reads them, where not the agent.
        """
        reader = access.warp if reader is None else reader
        read = OpenRead(access, self.span(access, addresses, ELEMENT_BYTES[dtype] * count))
        lane = lane_column(access)
        self._check_writers(access, read.span, lane, "reads", "read after write")
        self._check_shown(access, read.span, lane, "reads")
        payload = self._read(access, read.span, dtype, count)
        self.open_reads[reader].append(read)
        self._note_read(reader, read, IN_FLIGHT)
        return payload, read

    def check_open_read(self, access: Access, read: OpenRead) -> None:
        """As `open_read`, of what another agent has opened for the same reader: raises where this one may not read."""
        read.span = self.renewed(read.span)
        lane = lane_column(access)
        self._check_writers(access, read.span, lane, "reads", "read after write")
        self._check_shown(access, read.span, lane, "reads")

    def close_reads(self, reader: int, reads: Sequence[OpenRead], epoch: int, lane: int = WHOLE_AGENT) -> None:
        """These reads of a reader are done, in this epoch of it; `lane` is who knows it without a barrier."""
        closed = set(map(id, reads))
        self.open_reads[reader] = [read for read in self.open_reads[reader] if id(read) not in closed]
        for read in reads:
            self._note_read(reader, read, epoch + 1, lane)
        for read in self.open_reads[reader]:
            self._note_read(reader, read, IN_FLIGHT)

    def _note_read(self, reader: int, read: OpenRead, epoch: int, lane: int = WHOLE_AGENT) -> None:
        read.span = self.renewed(read.span)
        self._read_epoch[reader][read.span.units] = epoch
        self._reader[reader][read.span.units] = lane
        self._read_site[reader][read.span.units] = self.site(read.access, read.span)

    def fence_proxy(self, access: Access) -> None:
        """fence.proxy.async by these lanes (all of the agent when None): shows what they wrote to the async proxy.

        Not what their cp.async, which writes as the threads do, has yet to fill.
        """
        hidden = (self._shown_epoch == IN_FLIGHT) & (self._writer // LANES == access.warp)
        hidden &= self._write_epoch != IN_FLIGHT
        if access.lanes is not None:
            hidden &= np.isin(self._writer % LANES, access.lanes)
        self._shown_epoch[hidden] = self.clocks.epoch(access.warp) + 1

    def _check_shown(self, access: Access, span: Span, lane: Any, verb: str) -> None:
        """Raise for bytes of threads that the async proxy may not see yet."""
        shown = self._shown_epoch[span.units]
        if not np.count_nonzero(shown):
            return
        writer = self._writer[span.units]
        mine = (writer == access.warp * LANES + lane) & (shown != IN_FLIGHT)
        hidden = (shown > self.clocks.known[access.warp, writer // LANES]) & ~mine
        if hidden.any():
            row, byte = span.first(hidden)
            is_fenced = shown[hidden][0] != IN_FLIGHT
            lacks = "no barrier after its proxy fence" if is_fenced else "no proxy fence by it before the barrier"
            who = self._thread_name(int(writer[hidden][0]))
            by = self.by(int(self._write_site[span.units][hidden][0]))
            remedy = "put a barrier there" if is_fenced else "let the writer execute fence.proxy.async before a barrier"
            rule = f"not visible to the async proxy: {verb} what {who} wrote, with {lacks}; it wrote{by}; {remedy}"
            self.fail(access, span.addresses, row, byte, rule)

    def _before_read(self, access: Access, span: Span) -> None:
        warp, lane, units = access.warp, lane_column(access), span.units
        self._check_writers(access, span, lane, "reads", "read after write")
        epoch = self.clocks.epoch(warp) + 1
        read_epoch, reader = self._read_epoch[warp], self._reader[warp]
        if lane is WHOLE_AGENT:
            reader[units] = WHOLE_AGENT
        else:
            again = (read_epoch[units] == epoch) & (reader[units] != lane)
            reader[units] = lane
            if not span.is_disjoint:
                again |= reader[units] != lane
            if np.count_nonzero(again):  # several lanes in one epoch: each is another thread than the rest
                reader[units[again]] = WHOLE_AGENT
        read_epoch[units] = epoch
        self._read_site[warp][units] = self.site(access, span)
        for read in self.open_reads[warp]:
            read.span = self.renewed(read.span)
            read_epoch[read.span.units] = IN_FLIGHT

    def _before_write(self, access: Access, span: Span) -> None:
        warp, lane, units = access.warp, lane_column(access), span.units
        self._check_writers(access, span, lane, "writes", "write after write")
        self._check_readers(access, span, lane)
        thread = warp * LANES + lane
        self._writer[units] = thread
        self._write_site[units] = self.site(access, span)
        self._write_epoch[units] = self.clocks.epoch(warp) + 1
        self._shown_epoch[units] = IN_FLIGHT
        if lane is not WHOLE_AGENT and not span.is_disjoint:
            overwritten = self._writer[units] != thread
            if overwritten.any():
                row, byte = span.first(overwritten)
                self.fail(access, span.addresses, row, byte, "race: two lanes write the same bytes in one instruction")

    def _check_writers(self, access: Access, span: Span, lane: Any, verb: str, kind: str) -> None:
        known = self.clocks.known[access.warp]
        stored, writer = self._write_epoch[span.units], self._writer[span.units]
        racing = stored > known[writer >> LANE_BITS]
        if not np.count_nonzero(racing):  # the warp knows of all of it
            return
        same = (writer == access.warp * LANES + lane) & (writer % LANES != WHOLE_AGENT)
        racing &= ~same | (stored == IN_FLIGHT)
        if racing.any():
            row, byte = span.first(racing)
            thread, at = int(writer[racing][0]), int(span.addresses[row]) + byte
            held = next((each.name for each in self._objects if each.start <= at < each.end), None)
            who, is_agent = self._thread_name(thread), thread // LANES < self.clocks.warps
            by = self.by(int(self._write_site[span.units][racing][0]))
            if held is not None:
                rule = f"{verb} the bytes of {held}; lay out shared memory so that buffers and mbarriers do not overlap"
            elif stored[racing][0] == IN_FLIGHT:
                awaited = "its group" if is_agent else "the mbarrier's phase"
                rule = (
                    f"in flight: {verb} what an asynchronous copy of {who} fills, before a wait for {awaited}; it was"
                )
                rule += f" started{by}"
            else:
                missing = "barrier between" if is_agent else "wait for the mbarrier's phase before"
                remedy = self._remedy(access, thread // LANES) if is_agent else "wait for that phase before this"
                rule = f"race ({kind}): {verb} what {who} wrote, with no {missing}; it wrote{by}; {remedy}"
            self.fail(access, span.addresses, row, byte, rule)

    def _check_readers(self, access: Access, span: Span, lane: Any) -> None:
        known = self.clocks.known[access.warp][self._reader_clocks]
        stored = self._read_epoch[: len(known)].take(span.units, axis=1)  # (readers, n, units)
        racing = stored > known[:, None, None]
        if not np.count_nonzero(racing):
            return
        if access.warp < self.clocks.warps:  # not an agent of another CTA
            reader = self._reader[access.warp][span.units]
            racing[access.warp] &= (reader != lane) | (reader == WHOLE_AGENT)
        if racing.any():
            reading, row, unit = (int(index[0]) for index in np.nonzero(racing))
            byte = unit * span.unit
            at = int(span.addresses[row]) + byte
            who = self._thread_name(self._reader_clocks[reading] * LANES + int(self._reader[reading, at // self.unit]))
            by, reader_clock = (
                self.by(int(self._read_site[reading, at // self.unit])),
                int(self._reader_clocks[reading]),
            )
            remedy = self._remedy(access, reader_clock)
            rule = f"race (write after read): writes what {who} read, with no barrier between; it read{by}; {remedy}"
            if stored[reading, row, unit] == IN_FLIGHT:
                rule = f"race (write after read): writes what {who} may still read by {self._open_op(reading, at)}"
                rule += "; let it wait for that group, and then a barrier or an mbarrier's phase come before this"
            self.fail(access, span.addresses, row, byte, rule)

    def _remedy(self, access: Access, other: int) -> str:
        """What would order an access after one of another thread, by the clock that counts that one."""
        if other == access.warp:
            return "put a barrier of the warp (bar.warp.sync) or of the CTA between the two"
        if other >= self.clocks.warps:
            return f"wait for what {self._thread_name(other * LANES + WHOLE_AGENT)} does before this"
        return "put a barrier that both reach, or the arrival and wait of an mbarrier, between the two"

    def _open_op(self, warp: int, at: int) -> str:
        """The op of an agent whose read of a byte is open."""
        for read in self.open_reads[warp]:
            if ((read.span.addresses <= at) & (at < read.span.addresses + read.span.size)).any():
                return read.access.op.describe()
        return "an asynchronous op"

    def _thread_name(self, thread: int) -> str:
        return thread_name(int(thread), self.clocks.names)


def start_copy(
    source: GlobalMemory,
    destination: SharedMemory,
    access: Access,
    shared_addresses: Ints,
    global_addresses: Ints,
    size: int,
    used: Ints | None = None,
    writer: int | None = None,
    by_threads: bool = False,
) -> InFlight:
    """An asynchronous copy of `size` bytes from each global address, zero-filled after the first `used` bytes (n,).

    Global memory is read at once; the bytes land by `destination.land`. `writer` is the clock that the write counts by,
    where not the agent's own; `by_threads` as in `SharedMemory.start_copy`. Raises InterpreterError.
    """
    codes, payload = source.read_raw(access, global_addresses, size, used)
    return destination.start_copy(access, shared_addresses, codes, payload, writer, by_threads)
