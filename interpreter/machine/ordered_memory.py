"""The rules on the order in which threads may read and write each byte of shared memory.

Each byte has its last writing thread with its epoch (clocks.py), and its last reader in each warp. An access to a byte
that another thread wrote, or a write to one that another thread read, must be ordered after it. Otherwise it is a race,
whether or not the order of agents in this run gives a wrong number. An agent that is a whole CTA (levels cta to
pipelined; `Access.lanes` None) needs a barrier after its own accesses too.

Bytes that an asynchronous op may still read are open: no write is allowed. Bytes that one fills are in flight: no
access is allowed (memory.py starts and ends these).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.clocks import Clocks
from lowtide.interpreter.machine.equal_stores import Change, EqualStores, Made, by_unit
from lowtide.interpreter.machine.proxy_fences import ProxyFences
from lowtide.interpreter.machine.readers import Reads
from lowtide.interpreter.machine.reliances import UNUSED_MBARRIERS, Relied
from lowtide.interpreter.machine.words import Ended, Words
from lowtide.interpreter.numbers.accesses import (
    LANE_BITS,
    LANES,
    WARPS,
    WHOLE_AGENT,
    Access,
    Described,
    Ints,
    Span,
    Values,
    lane_column,
    thread_name,
)
from lowtide.interpreter.numbers.cells import IN_FLIGHT, LARGEST, Buffer, Cells, Holds, padded
from lowtide.interpreter.numbers.codes import UNWRITTEN
from lowtide.interpreter.program.batches import NotTogether


@dataclass(eq=False, slots=True)
class OpenRead:
    """Bytes of shared memory that an asynchronous op may still read: those of its span."""

    access: Access
    span: Span


class OrderedMemory(Cells):
    """The bytes of one CTA of `warps` agents, with the rules on the order of accesses by threads.

    With `size` None it grows with the buffers placed in it. `names` are the agents' names in messages, by default those
    of warps. Addresses begin at `origin`, from which places are counted. `spans` are shared by several CTAs.
    """

    state: tuple[str, ...] = ("_write_epoch", "_writer", "_write_site")

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
        self.gaps: Sequence[tuple[int, int]] = ()  # bytes that belong to no variable
        self.limits: Mapping[Described, tuple[Buffer, ...]] = {}  # variables that the addresses of an op belong to
        self._reader_clocks = list(range(warps))  # readers are the agents, and asynchronous readers
        self._guests: dict[int, int] = {}  # readers that are agents of other CTAs, by their clocks
        self._reads: dict[int, Reads] = {}  # by reader
        self._fences = ProxyFences()
        self.equals: EqualStores | None = None  # if given, unordered stores of equal values are noted, and not refused
        self._objects: list[Buffer] = []
        self._ends: dict[int, Callable[[], int | None]] = {}  # by their places
        self._fixed = size is not None
        units = self.entries(self.size)
        self._write_epoch: NDArray[np.int32] = np.zeros(units, np.int32)  # + 1; 0 never written
        self._writer: NDArray[np.int32] = np.zeros(units, np.int32)
        self._write_site: NDArray[np.uint16] = np.zeros(units, np.uint16)

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
        if self.equals is not None and factor > 1:
            self.equals.refine(factor)

    def _reader_of(self, agent: int) -> int:
        """The number among readers of an agent, by its clock: one of this CTA, or of another in the cluster."""
        if agent >= self.clocks.warps and agent not in self._guests:
            self._guests[agent] = len(self._reader_clocks)
            self._reader_clocks.append(agent)
            self.open_reads.append([])
        return self._guests.get(agent, agent)

    def _reads_of(self, reader: int) -> Reads:
        found = self._reads.get(reader)
        if found is None:
            found = self._reads[reader] = Reads(self.entries(self.size))
        return found

    def claim(self, name: str, start: int, size: int, end: Callable[[], int | None] | None = None) -> None:
        """Reserve these bytes for an object, such as an mbarrier. Ordinary accesses to them are errors from now on,
        unless hardware forgives them: `end` ends the object then, and returns the epoch + 1 of its last write."""
        self._objects.append(Buffer(name, start, start + size))
        if end is not None:
            self._ends[start] = end
        self.refine(min((start | size | LARGEST) & -(start | size | LARGEST), LARGEST))
        self._write_epoch[start // self.unit : (start + size) // self.unit] = IN_FLIGHT

    def disclaim(self, name: str, start: int, size: int) -> None:
        """Release the bytes of an object. They are then ordinary, unwritten memory."""
        self._objects = [each for each in self._objects if (each.name, each.start) != (name, start)]
        self._write_epoch[start // self.unit : (start + size) // self.unit] = 0

    def barrier(self, warps: list[int] | None = None) -> None:
        """bar.sync by `warps` (all if None): orders their accesses so far before all their later ones."""
        self.clocks.barrier(warps)

    def warp_sync(self, warp: int) -> None:
        """bar.warp.sync: as `barrier` among the lanes of one warp."""
        self.clocks.warp_sync(warp)

    def _check_accessible(self, access: Access, span: Span) -> None:
        self._check_open(access, span)  # names the variable, if it is known
        for start, end in self.gaps:
            inside = (span.addresses < end) & (span.addresses + span.size > start)
            if inside.any():
                row = int(np.flatnonzero(inside)[0])
                byte = max(0, start - int(span.addresses[row]))
                rule = (
                    f"out of bounds: not all {span.size} bytes are in a variable; access a variable [smem-no-variable]"
                )
                self.fail(access, span.addresses, row, byte, rule)

    def _check_open(self, access: Access, span: Span) -> None:
        if (found := self._outside(access, span, self.limits)) is not None:
            row, what = found
            rule = f"out of bounds: not all {span.size} bytes are in {what} [smem-variable]"
            self.fail(access, span.addresses, row, 0, rule)

    def _before_read(self, access: Access, span: Span) -> None:
        lane = lane_column(access)
        self._check_writers(access, span, lane, "reads", "read after write")
        if access.strong is None or not access.strong.is_atomic:  # an atomic operation is checked when it writes
            self._check_words(access, span, "reads")
        if access.strong is not None:
            self.words.note(access, span, self.clocks, self.site(access, span), writes=False)
            return
        site = self.site(access, span)
        if access.warps is None:
            self._note_reads(access.warp, span.units, lane, site, span.is_disjoint)
            return
        for warp, mine in access.parts:
            lanes, sites = (each[mine] if isinstance(each, np.ndarray) else each for each in (lane, site))
            self._note_reads(warp, span.units[mine], lanes, sites, span.is_disjoint)

    def _note_reads(self, warp: int, units: Ints, lane: Any, site: Any, is_disjoint: bool) -> None:
        """An agent reads units: array (rows, units). `lane` and `site` are those of each row, arrays (rows, 1), or of
        all. `is_disjoint`: no unit is in two rows."""
        epoch = self.clocks.epoch(warp) + 1
        reader = self._reader_of(warp)
        reads, together = self._reads_of(reader), self.clocks.together(warp)
        again = None if lane is WHOLE_AGENT else False
        if again is False and (reads.latest > together or self.open_reads[reader]):
            again = (reads.epoch[units] > together) & (reads.lane[units] != lane)
        reads.note(units, epoch, lane, site, self._fences.count(warp))
        if again is not None:  # several lanes in one epoch: each differs from some other thread
            if not is_disjoint:
                again = again | (reads.lane[units] != lane)
            if np.count_nonzero(again):
                reads.lane[units[again]] = WHOLE_AGENT
        for read in self.open_reads[reader]:
            read.span = self.renewed(read.span)
            reads.epoch[read.span.units] = IN_FLIGHT

    def _before_write(self, access: Access, span: Span, holds: Holds | None = None) -> None:
        agents, lane, units = access.agents, lane_column(access), span.units
        joins = self._check_writers(access, span, lane, "writes", "write after write", holds)
        self._check_readers(access, span, lane)
        ended = self._check_words(access, span, "writes")
        if access.strong is not None:
            self.words.note(access, span, self.clocks, self.site(access, span), writes=True)
            return
        if access.warps is not None and not span.is_disjoint:
            raise NotTogether
        thread, epoch, site = agents * LANES + lane, self.clocks.epochs(agents) + 1, self.site(access, span)
        stored = self._write_epoch[units] if self.equals is not None else 0
        if self.equals is not None and (np.count_nonzero(stored) or ended):
            old = Made(self._writer[units], stored, self._write_site[units])
            change = Change(old, Made(thread, epoch, site), joins, holds, by_unit(ended, self.unit, self._own))
            self.equals.write(units, change)
        self._writer[units] = thread
        self._write_site[units] = site
        self._write_epoch[units] = epoch
        if lane is not WHOLE_AGENT and not span.is_disjoint and not np.all(joins):
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

    def _check_writers(
        self, access: Access, span: Span, lane: Any, verb: str, kind: str, holds: Holds | None = None
    ) -> Any:
        """Raise if an access is not ordered after the writes of the bytes. Returns the units, an array (rows, units),
        where it is an equal store, which is noted; False if there are none."""
        agents = access.agents
        stored, writer = self._write_epoch[span.units], self._writer[span.units]
        racing = stored > self.clocks.known[agents, writer >> LANE_BITS]
        if np.count_nonzero(racing):  # not all of these are ordered for the agents
            same = (writer == agents * LANES + lane) & (writer % LANES != WHOLE_AGENT)
            racing &= ~same | (stored == IN_FLIGHT)
            self._refine(access, lane, racing, writer, stored)
        further = self.equals is not None and self.equals.reaches(span.units)
        if not further and not np.count_nonzero(racing):
            return False
        if access.warps is not None:
            raise NotTogether
        made, late = Made(writer, stored, self._write_site[span.units]), racing
        if self.equals is not None:
            which = partial(self._late, access, lane)
            late, made = self.equals.late(span.units, racing, made, which)
            by_threads = (made.thread < self.clocks.warps * LANES) & (made.stored != IN_FLIGHT)
            is_plain = access.is_plain and access.visitor is None and by_threads[late].all()
            if is_plain and self.equals.allows(span.units, late, holds, which):
                self.equals.note(partial(self._fail_write, access, span, late, made, (verb, kind)))
                return late
        if late.any():
            fail = partial(self._fail_write, access, span, late, made, (verb, kind))
            if self.equals is None or self._end_object(span, late, self.equals.relied, fail) is None:
                fail()
            return self._check_writers(access, span, lane, verb, kind, holds)
        return False

    def _end_object(self, span: Span, late: Values, relied: Relied, fail: Callable[[], NoReturn]) -> Buffer | None:
        """End an object whose bytes an access reaches, if hardware forgives that. Returns its place."""
        row, byte = span.first(late)
        at = int(span.addresses[row]) + byte
        held = next((each for each in self._objects if each.start <= at < each.end), None)
        end = None if held is None else self._ends.get(held.start)
        epoch = None if end is None else end()
        if held is None or epoch is None:
            return None
        if UNUSED_MBARRIERS not in relied.places:
            relied.note(UNUSED_MBARRIERS, fail)
        self.disclaim(held.name, held.start, held.end - held.start)
        self._write_epoch[held.start // self.unit : held.end // self.unit] = epoch
        self.codes[held.start : held.end] = UNWRITTEN
        return held

    def _fail_write(self, access: Access, span: Span, late: Values, made: Made, what: tuple[str, str]) -> NoReturn:
        """Raise for an access that is not ordered after a write. `what` it does, and the kind of race."""
        (row, byte), (verb, kind) = span.first(late), what
        thread, at = int(made.thread[late][0]), int(span.addresses[row]) + byte
        held = next((each.name for each in self._objects if each.start <= at < each.end), None)
        who, is_agent = self._thread_name(thread), thread // LANES < self.clocks.warps
        by = self.by(int(made.site[late][0]))
        if held is not None:
            rule = (
                f"{verb} the bytes of {held}; lay out shared memory so that buffers and mbarriers do not overlap"
                " [mbarrier-bytes]"
            )
        elif made.stored[late][0] == IN_FLIGHT:
            awaited = "its group" if is_agent else "the mbarrier's phase"
            rule = (
                f"in flight: {verb} what an asynchronous copy of {who} fills, before a wait for {awaited}; it was "
                f"started{by} [copy-in-flight]"
            )
        else:
            missing = "barrier between" if is_agent else "wait for the mbarrier's phase before"
            remedy = self._remedy(access, thread // LANES) if is_agent else "wait for that phase before this"
            rule = f"race ({kind}): {verb} what {who} wrote, with no {missing}; it wrote{by}; {remedy} [shared-race]"
        self.fail(access, span.addresses, row, byte, rule)

    def _late(self, access: Access, lane: Any, rows: Ints, threads: Ints, epochs: Ints) -> Values:
        """Which accesses of threads in epochs are not ordered before the access of a row of one agent; all (n,)."""
        mine = lane if isinstance(lane, int) else lane[rows]
        thread, stored = threads[:, None], epochs[:, None]
        late: Values = stored > self.clocks.known[access.warp, thread >> LANE_BITS]
        late &= (thread != access.warp * LANES + mine) | (thread % LANES == WHOLE_AGENT) | (stored == IN_FLIGHT)
        self._refine(access, mine, late, thread, stored)
        return late[:, 0]

    def _own(self, thread: int) -> tuple[int, bool]:
        """The number of a thread of the grid in this memory, and whether it is of this CTA."""
        cta, own = divmod(thread, WARPS * LANES)
        return (own, True) if cta == self.clocks.cta else (own | WHOLE_AGENT, False)

    def _check_readers(self, access: Access, span: Span, lane: Any) -> None:
        agents = access.agents
        for reader in sorted(self._reads):
            reads, clock = self._reads[reader], self._reader_clocks[reader]
            known = self.clocks.known[agents, clock]
            if (IN_FLIGHT if self.open_reads[reader] else reads.latest) <= np.min(known):
                continue  # all of its reads are ordered for the agents
            stored = reads.epoch[span.units]
            racing = stored > known
            if access.warps is not None or clock == access.warp:
                by = reads.lane[span.units]
                racing &= (agents != clock) | (by != lane) | (by == WHOLE_AGENT)
            if clock < self.clocks.warps:
                self._refine(access, lane, racing, clock * LANES + reads.lane[span.units].astype(np.int64), stored)
            if np.count_nonzero(racing):
                if access.warps is not None:
                    raise NotTogether
                self._fail_read(access, span, racing, reader, bool(stored[racing][0] == IN_FLIGHT))

    def _refine(self, access: Access, lane: Any, racing: Values, thread: Ints, stored: Ints) -> None:
        """Clear entries of `racing` that are ordered by what single threads released or acquired."""
        clocks, agent = access.visitor or (self.clocks, access.warp)
        if access.warps is None and agent < clocks.warps and np.count_nonzero(racing):
            number = self.clocks.cta * WARPS * LANES + thread.astype(np.int64)
            clocks.refine(agent, lane, racing, number, stored)

    def _check_words(self, access: Access, span: Span, verb: str) -> list[Ended]:
        """Raise for a race with a strong access of another thread. A write that is not strong ends the words there;
        returns what it ends."""
        if not self.words.reaches(span):
            return []
        if access.warps is not None:
            raise NotTogether
        found = self.words.race(access, span, self.clocks, verb != "reads")
        if found is not None:
            (cta, thread), did = divmod(found.thread, WARPS * LANES), "wrote" if found.wrote else "read"
            who, remedy = self._thread_name(thread), self._remedy(access, thread // LANES)
            if cta != access.cta or access.visitor is not None:
                who = f"CTA {cta} {thread_name(thread)}"
                remedy = "put a barrier of the cluster between the two"
            if found.is_narrow:
                remedy = f"their scopes do not include each other's thread: widen them, or {remedy}"
            rule = (
                f"race (strong access): {verb} what {who} {did} by a strong operation, with no barrier between; it did "
                f"so{self.by(found.site)}; {remedy}, or access it by strong operations alone [shared-word-race]"
            )
            self.fail(access, span.addresses, found.row, found.byte, rule)
        return self.words.overwritten(span) if access.strong is None and verb != "reads" else []

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
