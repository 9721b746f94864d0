"""Global and shared memory with the rules of ordering: who may read and write which bytes when.

Each byte remembers the thread that wrote it last and in which epoch (clocks.py); a byte of shared memory also its last
reader in each warp. An access to a byte that another thread wrote, or a write to one that another thread read, must be
ordered after it, else it is a race, whether or not this run's order of agents shows a wrong number. An agent that is a
whole CTA (levels cta to pipelined; `Access.lanes` None) needs a barrier after its own accesses too.

Bytes that cp.async or TMA fills are in flight from `start_copy` to `SharedMemory.land`: nobody may touch them (PTX ISA,
"cp.async": the order of an access without a wait is undefined). Bytes that wgmma reads are open from `open_read` to
`close_reads`: nobody may write them.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import InterpreterError
from lowtide.interpreter.cells import (
    CODES,
    CONTINUED,
    ELEMENT_BYTES,
    UNWRITTEN,
    WHOLE_AGENT,
    ZERO,
    Access,
    Buffer,
    Cells,
    Ints,
    Span,
    Values,
    lane_column,
    padded,
)
from lowtide.interpreter.clocks import Clocks

_IN_FLIGHT = np.iinfo(np.int32).max  # as the epoch of a write or read: after everybody's present
_LANES = 256  # a thread's number is agent · _LANES + lane
_WARPS = 32
_ORIGIN = 1 << 20  # of global memory: a null pointer or a shared address is out of its bounds
_GAP = 256  # at least so many bytes between two allocations, and every allocation's alignment


@dataclass(slots=True)
class InFlight:
    """Bytes of shared memory that an asynchronous copy fills: `size` from each address."""

    access: Access
    addresses: Ints
    size: int


@dataclass(eq=False, slots=True)
class OpenRead:
    """Bytes of shared memory that an asynchronous op may still read: those of its span."""

    access: Access
    span: Span


class GlobalMemory(Cells):
    """Global memory of one GPU: allocations apart from each other, accessible only where a matrix has elements."""

    def __init__(self, payload: Any = np.float64) -> None:
        super().__init__("global memory", _ORIGIN, 0, payload)
        self._accessible: NDArray[np.bool_] = np.zeros(0, np.bool_)
        self._writer: NDArray[np.int64] = np.zeros(0, np.int64)  # thread of the grid + 1; 0 nobody in this launch
        self._epoch: NDArray[np.int32] = np.zeros(0, np.int32)  # the writer's epoch + 1
        self._clocks: dict[int, Clocks] = {}

    def allocate(
        self,
        name: str,
        rows: int,
        columns: int,
        row_stride: int,
        dtype: str,
        values: Values | None = None,
        misalign: int = 0,
    ) -> int:
        """A matrix (or, with one row, a vector) `row_stride` elements from row to row; its address.

        The address is a multiple of 256 bytes, plus `misalign`. Padding between rows is not accessible. `values`,
        payload (rows, columns), initialises it; without, reading it before it is written is an error.
        """
        width = ELEMENT_BYTES[dtype]
        start = -(-max(self.size, _GAP) // _GAP) * _GAP + misalign
        end = start + (max(rows - 1, 0) * row_stride + columns) * width
        self._grow(end + _GAP)
        buffer = Buffer(name, start, end, dtype, rows, columns, row_stride * width)
        self.buffers.append(buffer)
        first = _first_bytes(buffer)
        for byte in range(width):
            self._accessible[first + byte] = True
            if values is not None:
                self.codes[first + byte] = CONTINUED if byte else CODES[dtype]
        if values is not None:
            self.payload[first] = values
        return start + self.origin

    def contents(self, name: str) -> tuple[Values, NDArray[np.bool_]]:
        """An allocation's payload (rows, columns), and which of its elements were ever written."""
        buffer = next(buffer for buffer in self.buffers if buffer.name == name)
        first = _first_bytes(buffer)
        return self.payload[first], self.codes[first] != UNWRITTEN

    def begin_launch(self) -> None:
        """All that earlier launches did is ordered before what follows."""
        self._writer[:] = 0
        self._clocks = {}

    def enter(self, cta: int, clocks: Clocks) -> None:
        """A CTA of this launch, with the clocks of its warps."""
        self._clocks[cta] = clocks

    def read_raw(self, access: Access, addresses: Ints, size: int, used: Ints | None) -> tuple[Values, Values]:
        """Bytes as they are, `size` from each address: codes and payload (n, size).

        Of each row only the first `used` bytes are touched (all when None), the others are zero. Addresses must be
        multiples of `size` even of rows that touch nothing (PTX ISA, "cp.async"). Raises InterpreterError.
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
            rule = f"misaligned: {size} bytes need an address that is a multiple of {size}"
            self.fail(access, addresses - self.origin, row, 0, rule)
        codes = np.full((len(addresses), size), ZERO, np.uint8)
        payload = np.zeros((len(addresses), size), self.payload.dtype)
        for count in np.unique(used[used > 0]):
            chosen = used == count
            lanes = None if access.lanes is None else np.asarray(access.lanes)[chosen]
            part = replace(access, lanes=lanes)
            span = self.span(part, addresses[chosen], int(count), align=int(count & -count))
            self._before_read(part, span)
            codes[chosen, :count], payload[chosen, :count] = span.get(self.codes), span.get(self.payload)
            self._check_written(part, span.addresses, codes[chosen, :count] == UNWRITTEN)
        return codes, payload

    def _grow(self, size: int) -> None:
        more = padded(size) - padded(self.size)
        for name in ("payload", "codes", "_accessible", "_writer", "_epoch"):
            array = getattr(self, name)
            setattr(self, name, np.concatenate([array, np.zeros(more, array.dtype)]))
        self.size = size

    def _check_written(self, access: Access, addresses: Ints, unwritten: Values) -> None:
        if unwritten.any():
            row, byte = (int(index[0]) for index in np.nonzero(unwritten))
            self.fail(access, addresses, row, byte, "uninitialised: read where nothing was written")

    def _check_accessible(self, access: Access, span: Span) -> None:
        accessible = span.get(self._accessible)
        if not accessible.all():
            row, byte = (int(index[0]) for index in np.nonzero(~accessible))
            self.fail(
                access, span.addresses, row, byte, f"out of bounds: {span.size} bytes, not all of them in a matrix"
            )

    def _before_read(self, access: Access, span: Span) -> None:
        if span.get(self._writer).any():
            self._check_writers(access, span, "reads", "read after write")

    def _before_write(self, access: Access, span: Span) -> None:
        if span.get(self._writer).any():
            self._check_writers(access, span, "writes", "write after write")
        lane = lane_column(access)
        thread = (access.cta * _WARPS + access.warp) * _LANES + lane + 1
        span.put(self._writer, thread)
        epoch = self._clocks[access.cta].epoch(access.warp) if access.cta in self._clocks else 0
        span.put(self._epoch, np.int32(epoch + 1))
        if lane is not WHOLE_AGENT and (span.get(self._writer) != thread).any():
            row, byte = (int(index[0]) for index in np.nonzero(span.get(self._writer) != thread))
            self.fail(access, span.addresses, row, byte, "race: two lanes write the same bytes in one instruction")

    def _check_writers(self, access: Access, span: Span, verb: str, kind: str) -> None:
        """Raise where another thread wrote in this launch and nothing orders its write before this access."""
        writer, stored = span.get(self._writer) - 1, span.get(self._epoch)
        warp, lane = writer // _LANES, lane_column(access)
        racing = (writer >= 0) & (warp // _WARPS != access.cta)
        if access.cta in self._clocks:
            known = self._clocks[access.cta].known[access.warp]
            mine = (writer >= 0) & ~racing
            late = stored > known[np.where(mine, warp % _WARPS, 0)]
            same = (warp % _WARPS == access.warp) & (writer % _LANES == lane) & (writer % _LANES != WHOLE_AGENT)
            racing |= mine & late & ~same
        if racing.any():
            row, byte = (int(index[0]) for index in np.nonzero(racing))
            other = int(writer[row, byte])
            cta = other // _LANES // _WARPS
            names = self._clocks[cta].names if cta in self._clocks else ()
            who = f"CTA {cta} {_thread_name(other % (_LANES * _WARPS), names)}"
            self.fail(
                access, span.addresses, row, byte, f"race ({kind}): {verb} what {who} wrote, nothing orders the two"
            )


class SharedMemory(Cells):
    """Shared memory of one CTA of `warps` agents. With `size` None it grows with the buffers placed in it.

    `names` are the agents' in messages, by default those of warps.
    """

    def __init__(
        self, warps: int, size: int | None = None, payload: Any = np.float64, names: Sequence[str] = ()
    ) -> None:
        super().__init__("shared memory", 0, size or 0, payload)
        if warps > _WARPS:
            raise InterpreterError(f"a CTA of {warps} warps; at most {_WARPS}: launch with fewer threads")
        self.clocks = Clocks(warps, names)
        self.open_reads: list[list[OpenRead]] = [[] for _ in range(warps)]  # of each reader, oldest first
        self._reader_clocks = list(range(warps))  # readers are the agents, and what reads on nobody's behalf
        self._objects: list[Buffer] = []
        self._fixed = size is not None
        self._write_epoch: NDArray[np.int32] = np.zeros(padded(self.size), np.int32)  # + 1; 0 never written
        self._writer: NDArray[np.int32] = np.zeros(padded(self.size), np.int32)
        self._read_epoch: NDArray[np.int32] = np.zeros((warps, padded(self.size)), np.int32)  # + 1; 0 never read
        self._reader: NDArray[np.uint8] = np.zeros((warps, padded(self.size)), np.uint8)  # lane

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
            for field in ("payload", "codes", "_write_epoch", "_writer", "_read_epoch", "_reader"):
                array = getattr(self, field)
                more = [(0, 0)] * (array.ndim - 1) + [(0, padded(end) - array.shape[-1])]
                setattr(self, field, np.pad(array, more))
            self.size = end
        self.buffers.append(Buffer(name, start, end))

    def add_reader(self, name: str) -> tuple[int, int]:
        """What reads asynchronously and is no agent: its number among readers, and its clock."""
        clock = self.clocks.add_source(name)
        for field in ("_read_epoch", "_reader"):
            setattr(self, field, np.pad(getattr(self, field), ((0, 1), (0, 0))))
        self._reader_clocks.append(clock)
        self.open_reads.append([])
        return len(self._reader_clocks) - 1, clock

    def claim(self, name: str, start: int, size: int) -> None:
        """From here on these bytes are an object that no ordinary access may touch."""
        self._objects.append(Buffer(name, start, start + size))
        self._write_epoch[start : start + size] = _IN_FLIGHT

    def barrier(self, warps: list[int] | None = None) -> None:
        """bar.sync by `warps` (all when None): their accesses so far are before all their later ones."""
        self.clocks.barrier(warps)

    def warp_sync(self, warp: int) -> None:
        """bar.warp.sync: as `barrier` among the lanes of one warp."""
        self.clocks.warp_sync(warp)

    def start_copy(
        self, access: Access, addresses: Ints, codes: Values, payload: Values, source: int | None = None
    ) -> InFlight:
        """An asynchronous copy of raw bytes (n, size) begins: they are in flight until `land`.

        `source` is the clock that the write counts by, where not the agent's own. Raises InterpreterError for an access
        out of bounds or misaligned, bytes in flight already, and a race.
        """
        span = self.span(access, addresses, codes.shape[1])
        self._before_write(access, span)
        span.put(self.codes, codes)
        span.put(self.payload, payload)
        span.put(self._write_epoch, _IN_FLIGHT)
        if source is not None:
            span.put(self._writer, source * _LANES + WHOLE_AGENT)
        return InFlight(access, span.addresses, span.size)

    def land(self, copy: InFlight, chosen: NDArray[np.bool_] | None = None, epoch: int | None = None) -> None:
        """The bytes of a copy (of its rows `chosen`) are now written, by the threads that started it.

        `epoch`: in which epoch of who writes them; by default the present one of the agent that started the copy.
        """
        rows = copy.addresses if chosen is None else copy.addresses[chosen]
        span = self.span(copy.access, rows, copy.size)
        present = self.clocks.epoch(copy.access.warp) if epoch is None else epoch
        span.put(self._write_epoch, np.int32(present + 1))

    def open_read(
        self, access: Access, addresses: Ints, dtype: str, count: int, reader: int | None = None
    ) -> tuple[Values, OpenRead]:
        """As `load` by an agent as a whole, but the bytes may still be read later, until `close_reads`.

        `reader` is who reads them, where not the agent.
        """
        reader = access.warp if reader is None else reader
        read = OpenRead(access, self.span(access, addresses, ELEMENT_BYTES[dtype] * count))
        self._check_writers(access, read.span, WHOLE_AGENT, "reads", "read after write")
        payload = self._read(access, read.span, dtype, count)
        self.open_reads[reader].append(read)
        read.span.put(self._reader[reader], WHOLE_AGENT)
        read.span.put(self._read_epoch[reader], _IN_FLIGHT)
        return payload, read

    def close_reads(self, reader: int, reads: Sequence[OpenRead], epoch: int) -> None:
        """These reads of a reader are done, in this epoch of it."""
        closed = set(map(id, reads))
        self.open_reads[reader] = [read for read in self.open_reads[reader] if id(read) not in closed]
        for read in reads:
            read.span.put(self._read_epoch[reader], np.int32(epoch + 1))
        for read in self.open_reads[reader]:
            read.span.put(self._read_epoch[reader], _IN_FLIGHT)

    def _before_read(self, access: Access, span: Span) -> None:
        warp, lane = access.warp, lane_column(access)
        self._check_writers(access, span, lane, "reads", "read after write")
        epoch = np.int32(self.clocks.epoch(warp) + 1)
        read_epoch, reader = self._read_epoch[warp], self._reader[warp]
        if lane is WHOLE_AGENT:
            span.put(reader, WHOLE_AGENT)
        else:
            again = (span.get(read_epoch) == epoch) & (span.get(reader) != lane)
            span.put(reader, lane)
            again |= span.get(reader) != lane
            if again.any():  # several lanes in one epoch: each is another thread than the rest
                reader[(span.addresses[:, None] + np.arange(span.size))[again]] = WHOLE_AGENT
        span.put(read_epoch, epoch)
        for read in self.open_reads[warp]:
            read.span.put(read_epoch, _IN_FLIGHT)

    def _before_write(self, access: Access, span: Span) -> None:
        warp, lane = access.warp, lane_column(access)
        self._check_writers(access, span, lane, "writes", "write after write")
        self._check_readers(access, span, lane)
        thread = warp * _LANES + lane
        span.put(self._writer, thread)
        span.put(self._write_epoch, np.int32(self.clocks.epoch(warp) + 1))
        if lane is not WHOLE_AGENT and (span.get(self._writer) != thread).any():
            row, byte = (int(index[0]) for index in np.nonzero(span.get(self._writer) != thread))
            self.fail(access, span.addresses, row, byte, "race: two lanes write the same bytes in one instruction")

    def _check_writers(self, access: Access, span: Span, lane: Any, verb: str, kind: str) -> None:
        known = self.clocks.known[access.warp]
        stored = span.get(self._write_epoch)
        if stored.size == 0 or stored.max() <= known.min():  # all warps know of all of it
            return
        writer = span.get(self._writer)
        same = (writer == access.warp * _LANES + lane) & (writer % _LANES != WHOLE_AGENT)
        racing = (stored > known[writer // _LANES]) & (~same | (stored == _IN_FLIGHT))
        if racing.any():
            row, byte = (int(index[0]) for index in np.nonzero(racing))
            thread, at = int(writer[row, byte]), int(span.addresses[row]) + byte
            held = next((each.name for each in self._objects if each.start <= at < each.end), None)
            who, is_agent = self._thread_name(thread), thread // _LANES < self.clocks.warps
            if held is not None:
                rule = f"{verb} the bytes of {held}; lay out shared memory so that buffers and mbarriers do not overlap"
            elif stored[row, byte] == _IN_FLIGHT:
                awaited = "its group" if is_agent else "the mbarrier's phase"
                rule = f"in flight: {verb} what an asynchronous copy of {who} fills, before a wait for {awaited}"
            else:
                missing = "barrier between" if is_agent else "wait for the mbarrier's phase before"
                rule = f"race ({kind}): {verb} what {who} wrote, with no {missing}"
            self.fail(access, span.addresses, row, byte, rule)

    def _check_readers(self, access: Access, span: Span, lane: Any) -> None:
        known = self.clocks.known[access.warp, self._reader_clocks]
        stored = span.get(self._read_epoch)  # (readers, n, size)
        if not (stored > known[:, None, None]).any():
            return
        racing = stored > known[:, None, None]
        reader = span.get(self._reader[access.warp])
        racing[access.warp] &= (reader != lane) | (reader == WHOLE_AGENT)
        if racing.any():
            warp, row, byte = (int(index[0]) for index in np.nonzero(racing))  # warp: the reader's number
            at = int(span.addresses[row]) + byte
            who = self._thread_name(self._reader_clocks[warp] * _LANES + int(self._reader[warp, at]))
            rule = f"race (write after read): writes what {who} read, with no barrier between"
            if stored[warp, row, byte] == _IN_FLIGHT:
                rule = f"race (write after read): writes what {who} may still read by {self._open_op(warp, at)}"
            self.fail(access, span.addresses, row, byte, rule)

    def _open_op(self, warp: int, at: int) -> str:
        """The op of an agent whose read of a byte is open."""
        for read in self.open_reads[warp]:
            if ((read.span.addresses <= at) & (at < read.span.addresses + read.span.size)).any():
                return read.access.op.describe()
        return "an asynchronous op"

    def _thread_name(self, thread: int) -> str:
        return _thread_name(thread, self.clocks.names)


def start_copy(
    source: GlobalMemory,
    destination: SharedMemory,
    access: Access,
    shared_addresses: Ints,
    global_addresses: Ints,
    size: int,
    used: Ints | None = None,
    writer: int | None = None,
) -> InFlight:
    """An asynchronous copy of `size` bytes from each global address, zero-filled after the first `used` bytes (n,).

    Global memory is read at once; the bytes land by `destination.land`. `writer` is the clock that the write counts by,
    where not the agent's own. Raises InterpreterError.
    """
    codes, payload = source.read_raw(access, global_addresses, size, used)
    return destination.start_copy(access, shared_addresses, codes, payload, writer)


def _first_bytes(buffer: Buffer) -> Ints:
    """Relative address of each element's first byte: array (rows, columns)."""
    return (
        buffer.start
        + np.arange(buffer.rows)[:, None] * buffer.stride
        + (np.arange(buffer.columns) * ELEMENT_BYTES[buffer.dtype])
    )


def _thread_name(thread: int, names: Sequence[str] = ()) -> str:
    """A thread, or an agent as a whole, in words; `names` are those of the clocks of its CTA."""
    warp, lane = divmod(thread, _LANES)
    name = names[warp] if warp < len(names) else f"warp {warp}"
    return name if lane == WHOLE_AGENT else f"{name} lane {lane}"
