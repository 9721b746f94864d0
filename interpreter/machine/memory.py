"""Shared memory with the rules of ordering: when an agent may read or write each byte.

Each byte has its last writing thread with its epoch (clocks.py), and its last reader in each warp. An access to a byte
that another thread wrote, or a write to one that another thread read, must be ordered after it. Otherwise it is a race,
whether or not the order of agents in this run gives a wrong number. An agent that is a whole CTA (levels cta to
pipelined; `Access.lanes` None) needs a barrier after its own accesses too.

Bytes that cp.async or TMA fills are in flight from `start_copy` to `SharedMemory.land`: no access is allowed (PTX ISA,
"cp.async": the order of an access without a wait is undefined). Bytes that wgmma or TMA reads are open from `open_read`
to `close_reads`: no write is allowed. Both read through the async proxy: it does not see the writes of a thread until
the thread's `fence_proxy`, which a barrier must follow (PTX ISA, "Async proxy", "membar/fence"). In the same way a TMA
load may overwrite what a thread has read only after the thread's `fence_proxy` (proxy_fences.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.clocks import Clocks
from lowtide.interpreter.machine.global_memory import GlobalMemory
from lowtide.interpreter.machine.proxy_fences import ProxyFences
from lowtide.interpreter.machine.readers import Reads
from lowtide.interpreter.machine.reliances import CP_ASYNC_SEEN, READS_BEFORE_COPIES, Relied
from lowtide.interpreter.machine.words import Words
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

_LISTED = 256
"""The number of spans that an agent has written and not shown to the async proxy; beyond it, they are not listed."""


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

    `names` are the agents' names in messages, by default those of warps. Addresses begin at `origin`, from which places
    are counted. `spans` are shared by several CTAs.
    """

    state = ("_write_epoch", "_writer", "_write_site", "_shown_epoch")

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
            raise InterpreterError(
                f"a CTA of {warps} warps; at most {WARPS}: launch with fewer threads [warps-per-cta]"
            )
        self.clocks = Clocks(warps, names)
        self.words = Words()
        self.open_reads: list[list[OpenRead]] = [[] for _ in range(warps)]  # of each reader, oldest first
        self._reader_clocks = list(range(warps))  # readers are the agents, and asynchronous readers
        self._reads: dict[int, Reads] = {}  # by reader
        self._fences = ProxyFences()
        self.relied: Relied | None = None  # if given, what hardware is seen to forgive is noted there, and not refused
        # Writes hidden from the async proxy, by writing agent and span; None if there are too many.
        self._hidden: dict[int, dict[int, Span] | None] = {}
        self._hidden_by_sources: list[Span] = []
        self._objects: list[Buffer] = []
        self._fixed = size is not None
        units = self.entries(self.size)
        self._write_epoch: NDArray[np.int32] = np.zeros(units, np.int32)  # + 1; 0 never written
        self._writer: NDArray[np.int32] = np.zeros(units, np.int32)
        self._write_site: NDArray[np.uint16] = np.zeros(units, np.uint16)
        # The epoch of the fence that showed a write to the async proxy, + 1; 0 if nothing is hidden from it.
        self._shown_epoch: NDArray[np.int32] = np.zeros(units, np.int32)

    def place(self, name: str, start: int, size: int) -> None:
        """Name `size` bytes from `start`. Buffers may overlap: the last placed one gives the name in messages.

        Raises InterpreterError if they are beyond the shared memory of the launch.
        """
        end = start + size
        if end > self.size:
            if self._fixed:
                raise InterpreterError(
                    f"{name} ends at byte {end} of shared memory, the launch has {self.size}; launch with more"
                    " [smem-outside]"
                )
            for field in ("payload", "codes", *self.state):
                array = getattr(self, field)
                wanted = self.entries(end) if field in self.state else padded(end)
                setattr(self, field, np.pad(array, (0, wanted - len(array))))
            for reads in self._reads.values():
                reads.extend(self.entries(end))
            self.size = end
        self.buffers.append(Buffer(name, start, end))

    def add_reader(self, name: str) -> tuple[int, int]:
        """An asynchronous reader that is not an agent: its number among readers, and its clock."""
        clock = self.clocks.add_source(name)
        self._reader_clocks.append(clock)
        self.open_reads.append([])
        return len(self._reader_clocks) - 1, clock

    def refine(self, unit: int) -> None:
        """Keep state, and the reads of readers, for units of at most this many bytes."""
        factor = self.unit // unit
        super().refine(unit)
        for reads in self._reads.values() if factor > 1 else ():
            reads.refine(factor)

    def _reads_of(self, reader: int) -> Reads:
        found = self._reads.get(reader)
        if found is None:
            found = self._reads[reader] = Reads(self.entries(self.size))
        return found

    def claim(self, name: str, start: int, size: int) -> None:
        """From now on these bytes belong to an object that ordinary accesses may not access."""
        self._objects.append(Buffer(name, start, start + size))
        self.refine(min((start | size | LARGEST) & -(start | size | LARGEST), LARGEST))
        self._write_epoch[start // self.unit : (start + size) // self.unit] = IN_FLIGHT

    def disclaim(self, name: str, start: int, size: int) -> None:
        """The bytes of an object are plain memory again, with nothing written there."""
        self._objects = [each for each in self._objects if (each.name, each.start) != (name, start)]
        self._write_epoch[start // self.unit : (start + size) // self.unit] = 0

    def barrier(self, warps: list[int] | None = None) -> None:
        """bar.sync by `warps` (all if None): orders their accesses so far before all their later ones."""
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
        if is_proxy:
            self._check_fenced_reads(access, span)
        span.put(self.codes, codes)
        span.put(self.payload, payload)
        self._write_epoch[span.units] = IN_FLIGHT
        if not by_threads:
            self._shown_epoch[span.units] = 0
        if source is not None:
            self._writer[span.units] = source * LANES + WHOLE_AGENT
            if by_threads:
                self._hidden_by_sources.append(span)
        return InFlight(access, span)

    def land(self, copy: InFlight, epoch: int | None = None) -> None:
        """The bytes of a copy are now written, by the threads that started it.

        `epoch`: the epoch of the writer; by default the current one of the agent that started the copy.
        """
        present = self.clocks.epoch(copy.access.warp) if epoch is None else epoch
        self._write_epoch[self.renewed(copy.span).units] = present + 1

    def land_by(self, copy: InFlight, source: int, epoch: int) -> None:
        """The bytes of a copy by threads are now written, by a source of writes in an epoch of it.

        They stay hidden from the async proxy until an agent that knows the epoch executes `fence_proxy`.
        """
        span = self.renewed(copy.span)
        self._writer[span.units] = source * LANES + WHOLE_AGENT
        self._write_epoch[span.units] = epoch + 1
        self._hidden_by_sources.append(span)

    def land_numbers(self, span: Span, payload: Values, dtype: str, source: int, epoch: int) -> None:
        """Elements of a span are written by a source of writes in an epoch of it, through the async proxy."""
        span = self.renewed(span)
        self.put_numbers(span, payload, dtype)
        self._writer[span.units] = source * LANES + WHOLE_AGENT
        self._write_epoch[span.units] = epoch + 1
        self._shown_epoch[span.units] = 0

    def _show_of_sources(self, access: Access) -> None:
        """Show the writes of sources that the access's agent knows."""
        left = []
        for each in self._hidden_by_sources:
            units = self.renewed(each).units
            known = self._write_epoch[units] <= self.clocks.known[access.warp, self._writer[units] // LANES]
            shown = self._shown_epoch[units]
            shown[known] = 0
            self._shown_epoch[units] = shown
            if not known.all():
                left.append(each)
        self._hidden_by_sources = left

    def open_read(
        self, access: Access, addresses: Ints, dtype: str, count: int, reader: int | None = None
    ) -> tuple[Values, OpenRead]:
        """As `load`, through the async proxy; the bytes may still be read later, until `close_reads`.

        `reader` is the reader, if not the agent.
        """
        payload, span = self.seen(access, addresses, dtype, count)
        return payload, self.opened(access, span, reader)

    def see(self, access: Access, addresses: Ints, size: int) -> Span:
        """Bytes that the async proxy is about to read. Raises InterpreterError if the agent's op may not read them."""
        span = self.span(access, addresses, size)
        lane = lane_column(access)
        self._check_writers(access, span, lane, "reads", "read after write")
        self._check_shown(access, span, lane, "reads")
        return span

    def seen(self, access: Access, addresses: Ints, dtype: str, count: int) -> tuple[Values, Span]:
        """As `open_read`, without opening the bytes; `opened` opens the span."""
        span = self.see(access, addresses, ELEMENT_BYTES[dtype] * count)
        return self._read(access, span, dtype, count), span

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

        The async proxy then sees their writes, and its own writes are ordered after their reads. Bytes that are still
        in flight by their cp.async stay hidden.
        """
        self._fences.add(access.warp, self.clocks.epoch(access.warp), access.lanes)
        if self._hidden_by_sources:
            self._show_of_sources(access)
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
        mine = (writer == access.warp * LANES + lane) & (shown != IN_FLIGHT)
        hidden = (shown > self.clocks.known[access.warp, writer // LANES]) & ~mine
        if not hidden.any():
            return
        unfenced = hidden & (shown == IN_FLIGHT) if self.relied is not None else np.zeros_like(hidden)
        forgiven = unfenced & self._by_cp_async(self._write_site[span.units]) if unfenced.any() else unfenced
        for where in (hidden & ~forgiven, forgiven):
            if not where.any():
                continue
            row, byte = span.first(where)
            rule = self._why_hidden(span, where, verb)
            if self.relied is None or where is not forgiven:
                self.fail(access, span.addresses, row, byte, rule)
            self.relied.on(CP_ASYNC_SEEN, self.broken(access, span.addresses, row, byte, rule))

    def _why_hidden(self, span: Span, hidden: Values, verb: str) -> str:
        is_fenced = self._shown_epoch[span.units][hidden][0] != IN_FLIGHT
        lacks = "no barrier after its proxy fence" if is_fenced else "no proxy fence by it before the barrier"
        who = self._thread_name(int(self._writer[span.units][hidden][0]))
        by = self.by(int(self._write_site[span.units][hidden][0]))
        remedy = "put a barrier there" if is_fenced else "let the writer execute fence.proxy.async before a barrier"
        return (
            f"not visible to the async proxy: {verb} what {who} wrote, with {lacks}; it wrote{by}; {remedy}"
            " [async-proxy]"
        )

    def _by_cp_async(self, sites: Values) -> Values:
        """Which of these ops are cp.async."""
        copies = [number for number, op in enumerate(self._sites) if getattr(op, "name", "").startswith("cp.async.c")]
        return np.isin(sites, copies)

    def _before_read(self, access: Access, span: Span) -> None:
        warp, lane, units = access.warp, lane_column(access), span.units
        self._check_writers(access, span, lane, "reads", "read after write")
        if access.strong is None or not access.strong.is_atomic:  # an atomic operation is checked when it writes
            self._check_words(access, span, "reads")
        if access.strong is not None:
            self.words.note(access, span, self.clocks, self.site(access, span), writes=False)
            return
        epoch = self.clocks.epoch(warp) + 1
        reads, together = self._reads_of(warp), self.clocks.together(warp)
        again = None if lane is WHOLE_AGENT else (reads.epoch[units] > together) & (reads.lane[units] != lane)
        reads.note(units, epoch, lane, self.site(access, span), self._fences.count(warp))
        if again is not None:  # several lanes in one epoch: each differs from some other thread
            if not span.is_disjoint:
                again |= reads.lane[units] != lane
            if np.count_nonzero(again):
                reads.lane[units[again]] = WHOLE_AGENT
        for read in self.open_reads[warp]:
            read.span = self.renewed(read.span)
            reads.epoch[read.span.units] = IN_FLIGHT

    def _before_write(self, access: Access, span: Span) -> None:
        warp, lane, units = access.warp, lane_column(access), span.units
        self._check_writers(access, span, lane, "writes", "write after write")
        self._check_readers(access, span, lane)
        self._check_words(access, span, "writes")
        if access.strong is not None:
            self.words.note(access, span, self.clocks, self.site(access, span), writes=True)
            return
        thread = warp * LANES + lane
        hidden = self._hidden.setdefault(warp, {})
        if hidden is not None:
            hidden[id(span)] = span
            if len(hidden) > _LISTED:
                self._hidden[warp] = None
        self._writer[units] = thread
        self._write_site[units] = self.site(access, span)
        self._write_epoch[units] = self.clocks.epoch(warp) + 1
        self._shown_epoch[units] = IN_FLIGHT
        if lane is not WHOLE_AGENT and not span.is_disjoint:
            overwritten = self._writer[units] != thread
            if overwritten.any():
                row, byte = span.first(overwritten)
                self.fail(
                    access,
                    span.addresses,
                    row,
                    byte,
                    "race: two lanes write the same bytes in one instruction [shared-lanes-race]",
                )

    def _check_writers(self, access: Access, span: Span, lane: Any, verb: str, kind: str) -> None:
        known = self.clocks.known[access.warp]
        stored, writer = self._write_epoch[span.units], self._writer[span.units]
        racing = stored > known[writer >> LANE_BITS]
        if not np.count_nonzero(racing):  # all of these are ordered for the warp
            return
        same = (writer == access.warp * LANES + lane) & (writer % LANES != WHOLE_AGENT)
        racing &= ~same | (stored == IN_FLIGHT)
        self._refine(access, lane, racing, writer, stored)
        if racing.any():
            row, byte = span.first(racing)
            thread, at = int(writer[racing][0]), int(span.addresses[row]) + byte
            held = next((each.name for each in self._objects if each.start <= at < each.end), None)
            who, is_agent = self._thread_name(thread), thread // LANES < self.clocks.warps
            by = self.by(int(self._write_site[span.units][racing][0]))
            if held is not None:
                rule = (
                    f"{verb} the bytes of {held}; lay out shared memory so that buffers and mbarriers do not overlap"
                    " [mbarrier-bytes]"
                )
            elif stored[racing][0] == IN_FLIGHT:
                awaited = "its group" if is_agent else "the mbarrier's phase"
                rule = (
                    f"in flight: {verb} what an asynchronous copy of {who} fills, before a wait for {awaited}; it was "
                    f"started{by} [copy-in-flight]"
                )
            else:
                missing = "barrier between" if is_agent else "wait for the mbarrier's phase before"
                remedy = self._remedy(access, thread // LANES) if is_agent else "wait for that phase before this"
                rule = (
                    f"race ({kind}): {verb} what {who} wrote, with no {missing}; it wrote{by}; {remedy} [shared-race]"
                )
            self.fail(access, span.addresses, row, byte, rule)

    def _check_readers(self, access: Access, span: Span, lane: Any) -> None:
        known = self.clocks.known[access.warp]
        for reader in sorted(self._reads):
            reads, clock = self._reads[reader], self._reader_clocks[reader]
            if (IN_FLIGHT if self.open_reads[reader] else reads.latest) <= known[clock]:
                continue  # all of its reads are ordered for the warp
            stored = reads.epoch[span.units]
            racing = stored > known[clock]
            if reader == access.warp and access.warp < self.clocks.warps:  # not an agent of another CTA
                by = reads.lane[span.units]
                racing &= (by != lane) | (by == WHOLE_AGENT)
            if clock < self.clocks.warps:
                self._refine(access, lane, racing, clock * LANES + reads.lane[span.units].astype(np.int64), stored)
            if np.count_nonzero(racing):
                self._fail_read(access, span, racing, reader, bool(stored[racing][0] == IN_FLIGHT))

    def _refine(self, access: Access, lane: Any, racing: Values, thread: Ints, stored: Ints) -> None:
        """Clear entries of `racing` that are ordered by what single threads released or acquired."""
        if access.warp < self.clocks.warps and np.count_nonzero(racing):
            number = self.clocks.cta * WARPS * LANES + thread.astype(np.int64)
            self.clocks.refine(access.warp, lane, racing, number, stored)

    def _check_words(self, access: Access, span: Span, verb: str) -> None:
        """Raise for a race with a strong access of another thread. A write that is not strong ends the words there."""
        if not self.words.reaches(span):
            return
        found = self.words.race(access, span, self.clocks, verb != "reads")
        if found is not None:
            thread, did = found.thread % (WARPS * LANES), "wrote" if found.wrote else "read"
            rule = (
                f"race (strong access): {verb} what {self._thread_name(thread)} {did} by a strong operation, with no "
                f"barrier between; it did so{self.by(found.site)}; {self._remedy(access, thread // LANES)}, or access "
                "it by strong operations alone [shared-word-race]"
            )
            self.fail(access, span.addresses, found.row, found.byte, rule)
        if access.strong is None and verb != "reads":
            self.words.overwritten(span)

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

    def _fail_read(self, access: Access, span: Span, racing: Values, reader: int, is_open: bool) -> NoReturn:
        """Raise for a write of bytes that a reader has read, or may still read."""
        row, byte = span.first(racing)
        at, reads, clock = int(span.addresses[row]) + byte, self._reads[reader], self._reader_clocks[reader]
        who = self._thread_name(clock * LANES + int(reads.lane[at // self.unit]))
        if is_open:
            rule = (
                f"race (write after read): writes what {who} may still read by {self._open_op(reader, at)}; let it "
                "wait for that group, then put a barrier or an mbarrier's phase before this [race-with-open-read]"
            )
        else:
            by, remedy = self.by(int(reads.site[at // self.unit])), self._remedy(access, clock)
            rule = (
                f"race (write after read): writes what {who} read, with no barrier between; it read{by}; {remedy}"
                " [race-with-read]"
            )
        self.fail(access, span.addresses, row, byte, rule)

    def _remedy(self, access: Access, other: int) -> str:
        """The way to order an access after one of another thread, by the clock of that thread."""
        if other == access.warp:
            return "put a barrier of the warp (bar.warp.sync) or of the CTA between the two"
        if other >= self.clocks.warps:
            return f"wait for what {self._thread_name(other * LANES + WHOLE_AGENT)} does before this"
        return "put a barrier that both reach, or the arrival and wait of an mbarrier, between the two"

    def _open_op(self, warp: int, at: int) -> str:
        """The op of an agent with an open read of a byte."""
        for read in self.open_reads[warp]:
            addresses, ops = read.span.addresses, read.access.ops or (read.access.op,)
            rows = np.flatnonzero((addresses <= at) & (at < addresses + read.span.size))
            if rows.size:
                return ops[int(rows[0]) * len(ops) // len(addresses)].describe()
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
    by_threads: bool = False,
) -> InFlight:
    """An asynchronous copy of `size` bytes from each global address, zero-filled after the first `used` bytes (n,).

    Global memory is read at once; the bytes land by `destination.land`. `by_threads` as in `SharedMemory.start_copy`.
    Raises InterpreterError.
    """
    codes, payload = source.read_raw(access, global_addresses, size, used)
    return destination.start_copy(access, shared_addresses, codes, payload, by_threads=by_threads)
