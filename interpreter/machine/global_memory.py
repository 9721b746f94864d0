"""Global memory with the rules of ordering: for each byte, the last writing thread of this launch, and its epoch.

An access to a byte that another thread wrote must be ordered after the write, by barriers within a CTA and by
semaphores (release and acquire) between CTAs; nothing else orders accesses of different CTAs. Bytes written by a TMA
store are in flight from `start_store` to `land_store`: until then nothing orders them. If the output replaces an
operand, reads of the operand must come before the writes that overwrite it, in the same way.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from lowtide.interpreter.machine.equal_stores import Change, EqualStores, Made, by_unit
from lowtide.interpreter.machine.further_readers import FurtherReaders
from lowtide.interpreter.machine.launch_order import NARROW, LaunchOrder
from lowtide.interpreter.machine.reliances import Relied
from lowtide.interpreter.machine.unused_reads import Part, Read, UnusedReads, parts_of
from lowtide.interpreter.machine.words import Ended, Words
from lowtide.interpreter.numbers.accesses import (
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
from lowtide.interpreter.numbers.cells import IN_FLIGHT, MOST_SITES, Buffer, Holds
from lowtide.interpreter.numbers.codes import ELEMENT_BYTES, UNWRITTEN, ZERO
from lowtide.interpreter.program.batches import NotTogether


class GlobalMemory(LaunchOrder):
    """Global memory of one GPU, with the rules on the order of accesses by threads of a launch."""

    state = ("_writer", "_epoch", "_site", "_reader", "_read_epoch", "_read_site")

    def __init__(self, payload: Any = np.float64, on_write: Callable[[Access, Span], None] | None = None) -> None:
        super().__init__(payload)
        self._writer: NDArray[np.int64] = np.zeros(0, np.int64)  # thread of the grid + 1; 0 nobody in this launch
        self._epoch: NDArray[np.int32] = np.zeros(0, np.int32)  # the writer's epoch + 1
        self._site: NDArray[np.uint16] = np.zeros(0, np.uint16)  # the writer's op
        # The last reader of bytes written in this launch, and by unit and reader those that did not come before it.
        self._notes_reads = False
        self._reader: NDArray[np.int64] = np.zeros(0, np.int64)
        self._read_epoch: NDArray[np.int32] = np.zeros(0, np.int32)
        self._read_site: NDArray[np.uint16] = np.zeros(0, np.uint16)
        self._further = FurtherReaders()
        # If given, unordered stores of equal values, and unordered reads of no use, are noted, and not refused.
        self.equals: EqualStores | None = None
        self.unused: UnusedReads | None = None
        self.words = Words()
        self.on_write = on_write
        self._limits: Mapping[Described, tuple[Buffer, ...]] = {}
        self.variables: dict[tuple[int, str], int] = {}  # addresses of variables of modules
        self.constants: list[range] = []  # addresses of those in constant memory
        self.parameter_maps: dict[int, Any] = {}  # tensor maps that are parameters, by their addresses

    def forgive(self, relied: Relied) -> None:
        """From now on, what hardware is seen to forgive is noted, and not refused."""
        self.equals, self.unused = EqualStores(relied), UnusedReads(relied)

    def limit(self, limits: Mapping[Described, tuple[Buffer, ...]]) -> None:
        """From now on, these ops access only these arrays: their addresses are formed from pointers to them."""
        self._limits = limits
        self.spans.clear()

    def begin_launch(self, programmatic: bool = False, notes_reads: bool = False) -> None:
        """Order everything in earlier launches before what follows.

        In a `programmatic` launch, only before the actions of an agent that knows that the earlier kernels have ended.
        `notes_reads`: also readers of bytes that this launch has not written are recorded, for it may write any.
        """
        self._notes_reads = notes_reads or bool(self.devices)
        self._writer, self._reader = np.zeros(len(self._writer), np.int64), np.zeros(len(self._reader), np.int64)
        self._epoch, self._read_epoch = np.zeros(len(self._epoch), np.int32), np.zeros(len(self._read_epoch), np.int32)
        self._further = FurtherReaders()
        if self.equals is not None:
            self.forgive(self.equals.relied)
        self.words = Words()
        self.begin_order(programmatic)
        for each in self.devices:
            each()

    def read_raw(self, access: Access, addresses: Ints, size: int, used: Ints | None) -> tuple[Values, Values]:
        """Raw bytes, `size` from each address: codes and payload (n, size).

        Only the first `used` bytes of each row are accessed (all if None), the others are zero. Addresses must be
        multiples of `size`, even for rows without an access (PTX ISA, "cp.async"). Raises InterpreterError.
        """
        if used is None or (used == size).all():
            span = self.span(access, addresses, size)
            self._before_read(access, span)
            codes, payload = span.get(self.codes), span.get(self.payload)
            self._check_written(access, span.addresses, codes == UNWRITTEN)
            return codes, payload
        addresses = np.asarray(addresses, np.int64)
        if (addresses & (size - 1)).any():
            row = int(np.flatnonzero(addresses & (size - 1))[0])
            rule = f"misaligned: {size} bytes need an address that is a multiple of {size} [global-misaligned]"
            self.fail(access, addresses - self.origin, row, 0, rule)
        codes = np.full((len(addresses), size), ZERO, np.uint8)
        payload = np.zeros((len(addresses), size), self.payload.dtype)
        for count in np.unique(used[used > 0]):
            chosen = used == count
            part = access.of_rows(chosen)
            span = self.span(part, addresses[chosen], int(count), align=int(count & -count))
            self._before_read(part, span)
            codes[chosen, :count], payload[chosen, :count] = span.get(self.codes), span.get(self.payload)
            self._check_written(part, span.addresses, codes[chosen, :count] == UNWRITTEN)
        return codes, payload

    def peek(self, access: Access, address: int, dtype: str) -> Any:
        """An element as it is now, for a wait: no access. Raises InterpreterError as `load`, but for no race."""
        span = self.span(access, np.array([address], np.int64), ELEMENT_BYTES[dtype])
        return self._read(access, span, dtype, 1)[0, 0]

    def start_store(self, access: Access, addresses: Ints, payload: Values, dtype: str, count: int = 1) -> Span:
        """As `store`, by an asynchronous copy: until `land_store` nothing orders the write."""
        self.store(access, addresses, payload, dtype, count, align=ELEMENT_BYTES[dtype])
        return self._open(access, self.span(access, addresses, ELEMENT_BYTES[dtype] * count, ELEMENT_BYTES[dtype]))

    def start_raw_store(self, access: Access, addresses: Ints, codes: Values, payload: Values) -> Span:
        """As `start_store`, of raw bytes (n, size), into memory whose elements may be of any type."""
        span = self.span(access, addresses, codes.shape[1])
        self._before_write(access, span)
        self.changes.count += 1
        span.put(self.codes, codes)
        span.put(self.payload, payload)
        return self._open(access, span)

    def change(
        self, access: Access, addresses: Ints, size: int, dtype: str, function: Callable[[Values], Values]
    ) -> None:
        """Replace elements of a type, `size` bytes from each address, by a function of them, as `set_atomic` does."""
        span = self.span(access, addresses, size, align=ELEMENT_BYTES[dtype])
        self.put_numbers(span, function(self.numbers(access, span, dtype)), dtype)

    def writes(self, address: int, size: int) -> dict[tuple[int, int], int]:
        """The last writes of bytes in this launch: by thread of the grid and epoch + 1, the op."""
        start = address - self.origin
        units = slice(max(0, start // self.unit), max(0, -(-(start + size) // self.unit)))
        found = zip(self._writer[units] - 1, self._epoch[units], self._site[units], strict=True)
        return {(int(thread), int(stored)): int(site) for thread, stored, site in found if thread >= 0}

    def last_write(self, address: int, size: int) -> str | None:
        """A thread that wrote bytes last in this launch, and its op, in words; None if none wrote them."""
        start = address - self.origin
        found = [(thread, site) for (thread, _), site in self.writes(address, size).items()]
        found += [(thread, site) for thread, site in self.words.writes(start, size)]
        if not found:
            return None
        cta, thread = divmod(found[-1][0], LANES * WARPS)
        names = self.clocks[cta].names if cta in self.clocks else ()
        return f"CTA {cta} {thread_name(thread, names)}{self.by(found[-1][1])}"

    def _open(self, access: Access, span: Span) -> Span:
        """Nothing orders the write of these bytes before it lands."""
        self._writer[span.units] = (access.cta * WARPS + access.warp) * LANES + WHOLE_AGENT + 1
        self._epoch[span.units] = IN_FLIGHT
        return span

    def land_store(self, access: Access, span: Span) -> None:
        """An asynchronous store completes: it is written by the access's lanes in their agent's current epoch."""
        units = self.renewed(span).units
        self._writer[units] = (access.cta * WARPS + access.warp) * LANES + lane_column(access) + 1
        self._epoch[units] = self.clocks[access.cta].epoch(access.warp) + 1

    def _check_written(self, access: Access, addresses: Ints, unwritten: Values) -> None:
        if unwritten.any():
            row, byte = (int(index[0]) for index in np.nonzero(unwritten))
            self.fail(
                access, addresses, row, byte, "uninitialised: read where nothing was written [global-uninitialised]"
            )

    def _check_open(self, access: Access, span: Span) -> None:
        if (found := self._outside(access, span, self._limits)) is not None:  # on a GPU, arrays may lie anywhere
            row, what = found
            rule = f"out of bounds: not all {span.size} bytes are in {what} [outside-pointee]"
            self.fail(access, span.addresses, row, 0, rule)
        self.check_earlier_kernels(access, span)

    def _before_read(self, access: Access, span: Span) -> None:
        is_written = np.count_nonzero(self._writer[span.units]) > 0
        if is_written:
            self._check_writers(access, span, "reads", "read after write")
        if access.strong is None or not access.strong.is_atomic:  # an atomic operation is checked when it writes
            self._check_words(access, span, "reads")
        if self._is_strong(access):
            self.words.note(access, span, self.clocks[access.cta], self.site(access, span), writes=False)
        elif self.unused is not None and self.unused.current is not None:
            made = self.thread(access), self.epoch_of(access) + 1, self.site(access, span)
            self.unused.add(parts_of(self.unused.current, access, span, made))
        elif is_written or self._notes_reads or (self._in_place is not None and _reaches(span, self._in_place)):
            self._note_read(access, span)

    def check_fenced(self, access: Access, addresses: Ints, size: int, used: Ints | None) -> None:
        """Raise for a TMA load of bytes that another device wrote, if no proxy fence comes after their acquire."""
        whole = np.arange(len(addresses)) if used is None else np.flatnonzero(used == size)
        if not self.devices or not whole.size:
            return
        span = self.span(access, addresses[whole], size)
        late = self.unfenced(access, self._writer[span.units], self._epoch[span.units])
        if late.any():
            row, byte = span.first(late)
            site = int(self._site[span.units][late][0])
            rule = (
                "loads what another device wrote, by TMA, with no proxy fence after its acquire; it wrote"
                f"{self.by(site)}; execute fence.proxy.async behind the acquire of its flag [device-write-unfenced]"
            )
            self.fail(access, span.addresses, row, byte, rule)

    def note_write(self, access: Access, span: Span) -> None:
        """Note a write of another device again, in a launch that has begun since."""
        if access.strong is not None:
            self.words.note(access, span, self.clocks[access.cta], self.site(access, span), writes=True)
            return
        self._writer[span.units], self._epoch[span.units] = self.thread(access), self.epoch_of(access) + 1
        self._site[span.units] = self.site(access, span)

    def _note_read(self, access: Access, span: Span) -> None:
        """Record readers of bytes written in this launch: the last reader, and those that did not come before it."""
        units = span.units
        reader, epoch = self._reader[units], self._read_epoch[units]
        if np.count_nonzero(reader):
            found = self.unordered(access, reader, epoch)
            if found.any():
                self._further.note(units[found], reader[found], epoch[found], self._read_site[units][found])
        thread = self.thread(access)
        self._reader[units] = thread
        epochs = self.epoch_of(access) + 1
        is_by_several = access.lanes is not None or access.warps is not None
        if is_by_several and not span.is_disjoint:  # each differs from some other thread
            again = self._reader[units] != thread
            if access.warps is None:
                self._reader[units[again]] = (access.cta * WARPS + access.warp) * LANES + WHOLE_AGENT + 1
            elif again.any():
                others = (
                    np.broadcast_to(each, again.shape)[again] for each in (thread, epochs, self.site(access, span))
                )
                self._further.note(units[again], *others)
        self._read_epoch[units] = epochs
        self._read_site[units] = self.site(access, span)

    def _before_write(self, access: Access, span: Span, holds: Holds | None = None) -> None:
        if self.on_write is not None:
            self.on_write(access, span)
            span = self.renewed(span)  # the call may have read in smaller units
        units = span.units
        is_written = bool(np.count_nonzero(self._writer[units]))
        joins = self._check_writers(access, span, "writes", "write after write", holds) if is_written else False
        reader = self._reader[units] if self.equals is not None else np.zeros(0, np.int64)
        was_read = bool(np.count_nonzero(reader))
        old = self._last(units, reader) if self.equals is not None and (is_written or was_read) else None
        read: list[tuple[int, Made]] = []
        if is_written or self._notes_reads or self._in_place is not None:
            read = self._check_readers(access, span)
        if self._in_place is not None and _reaches(span, self._in_place):
            places = span.elements(1) - self._in_place.start  # bytes that now hold an element of D
            self._replaced[places[(places >= 0) & (places < len(self._replaced))]] = True
        ended = self._check_words(access, span, "writes")
        if self._is_strong(access):
            self.words.note(access, span, self.clocks[access.cta], self.site(access, span), writes=True)
            return
        if access.warps is not None and not span.is_disjoint:
            raise NotTogether
        new = Made(self.thread(access), self.epoch_of(access) + 1, self.site(access, span))
        if self.equals is not None and (old is not None or ended):
            old = old or Made(self._writer[units], self._epoch[units], self._site[units])
            for at in zip(*np.nonzero(joins & (reader > 0)), strict=True) if was_read else ():
                read.append((int(units[at]), Made(*(int(each[at]) for each in old))))
            read += by_unit(ended, self.unit, lambda thread: (thread + 1, True))
            same = None if holds is None else partial(_held, holds, reader) if was_read else holds
            self.equals.write(units, Change(old, new, joins, same, read))
        self._writer[units], self._epoch[units], self._site[units] = new
        if access.lanes is not None and not span.is_disjoint and not np.all(joins):
            overwritten = self._writer[units] != new.thread
            if overwritten.any():
                row, byte = span.first(overwritten)
                self.fail(
                    access,
                    span.addresses,
                    row,
                    byte,
                    "race: two lanes write the same bytes in one instruction [global-lanes-race]",
                )

    def _last(self, units: Ints, reader: Ints) -> Made:
        """The last accesses of units: their readers since the last write, or its writers."""
        pairs = (self._reader, self._writer), (self._read_epoch, self._epoch), (self._read_site, self._site)
        return Made(*(np.where(reader > 0, first[units], second[units]) for first, second in pairs))

    def _check_writers(self, access: Access, span: Span, verb: str, kind: str, holds: Holds | None = None) -> Any:
        """Raise if another thread wrote in this launch and nothing orders its write before this access. Returns the
        units, an array (rows, units), where it is an equal store, which is noted; False if there are none."""
        units = span.units
        writer, stored = self._writer[units], self._epoch[units]
        late: Any = self.unordered(access, writer, stored)
        further = self.equals is not None and self.equals.reaches(units)
        if not further and not late.any():
            return False
        if access.warps is not None:
            raise NotTogether
        made = Made(writer, stored, self._site[units])
        if self.equals is not None:
            which = partial(self.late, access)
            late, made = self.equals.late(units, late, made, which)
            is_plain = access.strong is None and (made.stored[late] != IN_FLIGHT).all()
            if is_plain and self.equals.allows(units, late, holds, which):
                self.equals.note(partial(self._fail_write, access, span, late, made, (verb, kind)))
                return late
        if late.any():
            fail = partial(self._fail_write, access, span, late, made, (verb, kind))
            if verb == "writes":
                fail()
            self._read_late(access, late, fail)
        return False

    def _read_late(self, access: Access, late: Values, fail: Callable[[], NoReturn]) -> None:
        """Raise for a read that is not ordered after a write: in `late` units, an array (rows, units)."""
        if self.unused is None or access.strong is not None:
            fail()
        lanes = np.flatnonzero(late.any(axis=1)) if access.lanes is None else np.asarray(access.lanes)[late.any(axis=1)]
        self.unused.late(access, lanes.tolist(), fail)

    @contextmanager
    def reading(self, read: Read) -> Iterator[None]:
        """The next access is a load that is watched."""
        assert self.unused is not None
        self.unused.current = read
        try:
            yield
        finally:
            self.unused.current = None

    def note_used(self, parts: Iterable[Part]) -> None:
        """Reads that have been without use are used. Their readers are the last, or further ones."""
        for part in parts:
            units = np.arange(part.start // self.unit, -(-part.end // self.unit))
            made = part.thread, part.epoch, part.site
            is_first = self._reader[units] == 0
            first = units[is_first]
            self._reader[first], self._read_epoch[first], self._read_site[first] = made
            others = units[~is_first]
            if others.size:
                self._further.note(others, *(np.full(others.shape, value) for value in made))

    def _fail_write(self, access: Access, span: Span, late: Values, made: Made, what: tuple[str, str]) -> NoReturn:
        """Raise for an access that is not ordered after a write. `what` it does, and the kind of race."""
        (row, byte), (verb, kind) = span.first(late), what
        rule, (thread, _, site) = f"({kind}): {verb} what {{}} wrote", (int(each[late][0]) for each in made)
        self.fail_race(access, span, row, byte, rule, thread, site)

    def _check_readers(self, access: Access, span: Span) -> list[tuple[int, Made]]:
        """Raise if another thread read bytes that this launch wrote, and nothing orders that before this write. Returns
        further readers that it forgets, by unit."""
        units, forgotten = span.units, []
        rule = "(write after read): writes what {} read"
        if self.unused is not None:
            late, fail = partial(self._is_late, access), partial(self._fail_part, access, span, rule)
            self.unused.before_write(access, span, late, fail)
        reader = self._reader[units]
        if not np.count_nonzero(reader):
            return []
        racing = self.unordered(access, reader, self._read_epoch[units])
        if racing.any() and not self._forgives(access, self._read_site[units][racing]):
            row, byte = span.first(racing)
            site = int(self._read_site[units][racing][0])
            self.fail_race(access, span, row, byte, rule, int(reader[racing][0]), site)
        is_weak = access.strong is None
        if access.warps is not None and self._further:
            raise NotTogether
        for row, column in np.argwhere(reader) if self._further else ():
            one = replace(access, lanes=None if access.lanes is None else access.lanes[row : row + 1], ops=())
            for thread, epoch, site in self._further.of(int(units[row, column]), is_weak):
                is_late = self.unordered(one, np.array([[thread]]), np.array([[epoch]]))[0, 0]
                if is_late and not self._forgives(access, np.array([site])):
                    self.fail_race(access, span, int(row), int(column) * span.unit, rule, thread, site)
                if is_weak:
                    forgotten.append((int(units[row, column]), Made(thread, epoch, site)))
        if is_weak:  # whatever must come after the reads must come after this write
            self._reader[units] = 0
        return forgotten

    def _forgives(self, access: Access, sites: Values) -> bool:
        """Whether reads by these ops may race with a write for now: the next run watches them."""
        if self.unused is None or access.warps is not None:
            return False
        return all([site < MOST_SITES and self.unused.watch(self._sites[site]) for site in sites.tolist()])

    def _is_late(self, access: Access, row: int, part: Part) -> bool:
        """Whether a part of a load is not ordered before the write of a row."""
        return bool(self.late(access, np.array([row]), np.array([part.thread]), np.array([part.epoch]))[0])

    def _fail_part(self, access: Access, span: Span, rule: str, row: int, part: Part) -> NoReturn:
        """Raise for the write of a row, which is not ordered after a part of a load."""
        byte = max(0, part.start - int(span.addresses[row]))
        self.fail_race(access, span, row, byte, rule, part.thread, part.site)

    def refine(self, unit: int) -> None:
        if self.unit > unit:
            self._further.refine(self.unit // unit)
            if self.equals is not None:
                self.equals.refine(self.unit // unit)
        super().refine(unit)

    def _is_strong(self, access: Access) -> bool:
        """Whether an access is strong. The host has no other threads beside it."""
        return access.strong is not None and access.cta in self.clocks

    def _check_words(self, access: Access, span: Span, verb: str) -> list[Ended]:
        """Raise for a race with a strong access of another thread. A write that is not strong ends the words there;
        returns what it ends."""
        if not self.words.reaches(span) or access.cta not in self.clocks:
            return []
        if access.warps is not None:
            raise NotTogether
        found = self.words.race(access, span, self.clocks[access.cta], verb != "reads")
        if found is not None:
            what = f"(strong access): {verb} what {{}} {'wrote' if found.wrote else 'read'} by a strong operation"
            if found.is_narrow:
                what = f"{what}, {NARROW}"
            thread = found.thread + 1
            fail = partial(self.fail_race, access, span, found.row, found.byte, what, thread, found.site)
            if verb == "writes":
                fail()
            self._read_late(access, np.ones(span.units.shape, np.bool_), fail)
        return self.words.overwritten(span) if access.strong is None and verb != "reads" else []


def _held(holds: Holds, reader: Ints, quickly: bool) -> Values | None:
    """The units that hold what a store writes, and that nobody has read."""
    found = holds(quickly)
    return None if found is None else found & (reader == 0)


def _reaches(span: Span, buffer: Buffer) -> bool:
    """Whether some bytes of the span may belong to the buffer."""
    return bool(((span.addresses < buffer.end) & (span.addresses + span.size > buffer.start)).any())
