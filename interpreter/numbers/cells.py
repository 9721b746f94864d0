"""Byte-addressed memory whose bytes hold numbers of a domain, with the element that each byte is part of.

Each element is at the address of its first byte, which has its payload and the code of its type; its further bytes say
"continued". So a read that does not match whole elements of its own type is found in every domain. Integers are an
exception: they are bits, and may be read as integers of another width. Bytes that cp.async zero-fills read as zero of
any type. All functions take arrays of addresses, one per lane (a *row*).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import InterpreterError, before_code
from lowtide.interpreter.numbers.accesses import Access, Described, Ints, Span, Values
from lowtide.interpreter.numbers.codes import (
    CODES,
    CODES_OF_INTEGERS,
    CONTINUED,
    ELEMENT_BYTES,
    NAMES,
    PATTERNS,
    RUNS,
    TYPES,
    UNWRITTEN,
    WORDS,
    ZERO,
    ZERO_TYPE,
    ZEROS,
    codes_of,
    zero_bytes,
)
from lowtide.interpreter.numbers.integers import INTEGERS
from lowtide.interpreter.numbers.storage import in_memory, loaded, stored

Holds = Callable[[bool], Values | None]
"""Which units of a span hold what a store is about to write there: array (n, units). With True, None if it is seen
quickly that most do not."""

IN_FLIGHT = np.iinfo(np.int32).max
"""An epoch of a write or read that is later than every agent's current epoch."""

LARGEST = 16
"""Bytes of the largest access of one thread."""

MOST_SITES = 2**16 - 1
"""The number of ops that a memory distinguishes in messages."""

SPANS = 4096
"""The number of spans that a memory keeps."""


@dataclass(frozen=True)
class Buffer:
    """A named range of relative addresses; in global memory a matrix of `rows` rows that begin `stride` bytes apart.

    In a batch, `count` such matrices begin `batch_stride` bytes apart.
    """

    name: str
    start: int
    end: int
    dtype: str = ""
    rows: int = 0
    columns: int = 0
    stride: int = 0
    count: int = 1
    batch_stride: int = 0
    sides: tuple[tuple[int, int], ...] = ()
    """Of an array of a launch record: the extent and the stride in bytes of each dimension."""

    def element(self, offset: int) -> str:
        """The element of an array at `offset` bytes from the start, in words."""
        index, rest = [0] * len(self.sides), offset
        for axis in sorted(range(len(self.sides)), key=lambda axis: -self.sides[axis][1]):
            extent, stride = self.sides[axis]
            if extent > 1 and stride:
                index[axis] = min(rest // stride, extent - 1)
                rest -= index[axis] * stride
        return f"{f'byte {rest} of ' if rest else ''}{self.name}[{', '.join(map(str, index))}]"

    def place(self, offset: Any) -> tuple[Any, Any, Any]:
        """The matrix, row and byte in the row at `offset` bytes from the start. Rows of matrices may be interleaved."""
        if self.count == 1 or not self.batch_stride:  # one matrix, which a batch may share
            return 0, *divmod(offset, self.stride)
        if self.batch_stride >= self.stride:
            matrix, rest = divmod(offset, self.batch_stride)
            return matrix, *divmod(rest, self.stride)
        row, rest = divmod(offset, self.stride)
        matrix, byte = divmod(rest, self.batch_stride)
        return matrix, row, byte


@dataclass(eq=False)
class Changes:
    """Counts the changes of memories of one GPU. `tick`: the number of times that an agent has continued. Until the
    tick `watched`, stores of what is there already do not count (machine/laps.py)."""

    count: int = 0
    tick: int = 0
    watched: int = -1


class Cells:
    """The bytes of one memory, with addresses from `origin`. Subclasses add the rules on accesses.

    State is kept per unit of as many bytes as the finest access so far: the arrays named in `state` have an entry for
    each unit along their last axis. `spans` caches addresses that are used repeatedly.
    """

    state: tuple[str, ...] = ()
    words: Any = None  # that threads share by strong operations (machine/words.py)
    numbers_of_bits: Callable[[Values, str], Values] | None = (
        None  # where registers have no types: reads bits as numbers
    )

    def __init__(self, space: str, origin: int, size: int, payload: Any, spans: dict[Any, Span] | None = None) -> None:
        self.space = space
        self.origin = origin
        self.size = size
        self.buffers: list[Buffer] = []
        self.payload: Values = np.zeros(padded(size), payload)
        self.codes: NDArray[np.uint8] = np.zeros(padded(size), np.uint8)
        self.spans: dict[Any, Span] = {} if spans is None else spans
        self.unit = LARGEST
        self.erased: dict[int, Any] = {}  # by byte, where an undefined register was stored: why it is (undefined.py)
        self.changes = Changes()
        self.extent = ""  # for messages: who gives its size
        self._is_fresh = True  # nothing has been accessed
        self._sites: list[Described] = []
        self._numbers: dict[Described, int] = {}  # numbers of ops
        self._together: dict[Any, Ints] = {}  # numbers of ops that access memory as one, by ops and rows

    def load(self, access: Access, addresses: Ints, dtype: str, count: int = 1, align: int | None = None) -> Values:
        """`count` consecutive elements from each address: payload array (n, count).

        `align` is the alignment in bytes that the op promises; by default the size of the access, at most 16. Raises
        InterpreterError for an access out of bounds or misaligned, bytes not written or in flight, elements torn or of
        another type, and a race.
        """
        span = self.span(access, addresses, ELEMENT_BYTES[dtype] * count, align)
        self._before_read(access, span)
        return self._read(access, span, dtype, count)

    def load_any(self, access: Access, addresses: Ints, width: int, count: int = 1) -> tuple[Values, str]:
        """As `load`, for elements of `width` bytes of any one type: payload, and the type's name.

        The name is ZERO_TYPE if all bytes are zero-filled. Integers of other or mixed widths are read as integers of
        `width` bytes. Raises InterpreterError also for other mixed types.
        """
        span = self.span(access, addresses, width * count)
        self._before_read(access, span)
        if span.words.size:
            found = self.codes.view(WORDS[span.word])[span.words]
            dtype = TYPES.get((width, span.word, int(found[0, 0])))
            if dtype is not None and not np.count_nonzero(found != found[0, 0]):
                return self.payload[span.elements(width)], dtype
        words = span.get(self.codes).view(WORDS[width])
        written = words[words != ZEROS[width]]
        if not written.size:
            return self.payload[span.elements(width)], ZERO_TYPE
        dtype = next(
            (name for name, word in PATTERNS.items() if word == written[0] and ELEMENT_BYTES[name] == width), None
        )
        if dtype is None:
            bits = self._bits(span.elements(1), width)
            if bits is not None:
                return bits, f"i{8 * width}"
            self._refuse_contents(access, span, words == written[0], f"a {8 * width}-bit element", width)
        if self.numbers_of_bits is not None and dtype in INTEGERS:
            dtype = self._number_among(words, width) or dtype
        dtype = in_memory(dtype)
        return self._read(access, span, dtype, count), dtype

    def _number_among(self, words: Values, width: int) -> str | None:
        """A type of numbers that some elements have, by their codes; None if all are bits."""
        kinds = set(np.unique(words).tolist())
        return next(
            (
                name
                for name, word in PATTERNS.items()
                if word in kinds and ELEMENT_BYTES[name] == width and name not in INTEGERS
            ),
            None,
        )

    def load_bytes(self, access: Access, addresses: Ints, size: int) -> Values:
        """`size` bytes from each address, written as integers of any width: (n, size). Raises as `load`."""
        span = self.span(access, addresses, size)
        self._before_read(access, span)
        return self.bits(access, span, 1)

    def store(
        self,
        access: Access,
        addresses: Ints,
        payload: Values,
        dtype: str,
        count: int = 1,
        align: int | None = None,
        by_threads: bool = False,
    ) -> None:
        """Write `count` consecutive elements to each address: payload (n, count), or an array that broadcasts to it.

        `by_threads`: each lane stores by itself; hardware forgives it if what it stores is there (equal_stores.py).
        Raises InterpreterError for an access out of bounds or misaligned, bytes in flight, and a race.
        """
        is_zero = dtype == ZERO_TYPE
        width = 2 if is_zero else ELEMENT_BYTES[dtype]
        span = self.span(access, addresses, width * count, align)
        is_watched = self.changes.tick <= self.changes.watched
        is_same = is_watched and (held := self._holds(span, payload, dtype, False)) is not None and bool(held.all())
        self.changes.count += not is_same
        self._before_write(access, span, partial(self._holds, span, payload, dtype) if by_threads else None)
        if (dtype, span.word) in RUNS:
            self.codes.view(WORDS[span.word])[span.words] = RUNS[dtype, span.word]
        else:
            span.put(self.codes, np.broadcast_to(codes_of(dtype, width * count), (len(span.addresses), width * count)))
        self.payload[span.elements(width)] = stored(payload, dtype)

    def _holds(self, span: Span, payload: Values, dtype: str, quickly: bool) -> Values | None:
        """The units of a span that hold what a store is about to write there: array (n, units). `quickly`: None if the
        first elements differ."""
        if quickly and self.payload[span.addresses[0]] != stored(payload[:1, :1], dtype)[0, 0]:
            return None
        size, width = span.size, 2 if dtype == ZERO_TYPE else ELEMENT_BYTES[dtype]
        new = np.zeros((len(span.addresses), size), self.payload.dtype)
        new[:, ::width] = stored(payload, dtype)
        same = self._equal(span, codes_of(dtype, size), new)
        return np.logical_and.reduce(same.reshape(len(same), span.units.shape[1], -1), axis=2)

    def _equal(self, span: Span, codes: Values, payload: Values) -> Values:
        """The bytes of a span that are equal to those of whole elements, by codes and payload: array (n, size)."""
        now, held = span.get(self.codes), span.get(self.payload)
        alike = (held == payload) & (np.signbit(held) == np.signbit(payload))
        alike |= ((held != held) & (payload != payload)) | (codes == ZERO)
        found: Values = (now == codes) & alike & (codes != CONTINUED)
        for at in range(1, span.size):
            found[:, at] |= (codes[:, at] == CONTINUED) & (now[:, at] == CONTINUED) & found[:, at - 1]
        return found | (zero_bytes(now, held) & zero_bytes(np.broadcast_to(codes, now.shape), payload))

    def span(self, access: Access, addresses: Ints, size: int, align: int | None = None) -> Span:
        """Checks alignment and bounds of accesses of `size` bytes. Raises InterpreterError."""
        at = np.asarray(addresses, np.int64).reshape(-1) - self.origin
        key = (at.tobytes(), size, align, self.unit)
        span = self.spans.get(key)
        if span is None or span.end > self.size:
            span = self._new_span(access, at, size, align)
            if len(self.spans) >= SPANS:
                self.spans.clear()
            self.spans[at.tobytes(), size, align, self.unit] = span
        self._check_open(access, span)
        self._is_fresh = False
        return span

    def _new_span(self, access: Access, at: Ints, size: int, align: int | None) -> Span:
        chunk = min(LARGEST, size & -size)
        align = chunk if align is None else align
        chunk = min(chunk, align & -align)
        if (at & (align - 1)).any():  # origins are multiples of 16
            row = int(np.flatnonzero(at & (align - 1))[0])
            self.fail(
                access,
                at,
                row,
                0,
                f"misaligned: {size} bytes need an address that is a multiple of {align} [misaligned-access]",
            )
        end = int(at.max()) + size if at.size else 0
        if at.size and (int(at.min()) < 0 or end > self.size):
            row = int(np.flatnonzero((at < 0) | (at + size > self.size))[0])
            rule = f"out of bounds: {size} bytes outside {self.space}{self.extent} [out-of-bounds]"
            self.fail(access, at, row, 0, rule)
        self.refine(chunk)
        span = Span(at, size, chunk, self.unit, end)
        self._check_accessible(access, span)
        return span

    def refine(self, unit: int) -> None:
        """Keep state for units of at most this many bytes."""
        if unit < self.unit:
            factor = self.unit // unit
            for name in self.state:
                array = getattr(self, name)
                finer = np.zeros((*array.shape[:-1], array.shape[-1] * factor), array.dtype)
                if not self._is_fresh:
                    for old, new in zip(array, finer, strict=True) if array.ndim > 1 else ((array, finer),):
                        if old.any():  # empty for most readers
                            new.reshape(-1, factor)[:] = old[:, None]
                setattr(self, name, finer)
            self.unit = unit

    def site(self, access: Access, span: Span) -> Any:
        """The number of the op that accesses memory, or of the op of each row: array (n, 1)."""
        if not access.ops:
            return self._number(access.op)
        key = access.ops, len(span.addresses)
        found = self._together.get(key)
        if found is None:
            numbers = np.array([[self._number(op)] for op in access.ops])
            found = self._together[key] = np.repeat(numbers, len(span.addresses) // len(numbers), axis=0)
        return found

    def _number(self, op: Described) -> int:
        if op not in self._numbers:
            self._numbers[op] = min(len(self._sites), MOST_SITES)
            self._sites.append(op)
        return self._numbers[op]

    def by(self, site: int) -> str:
        """The op with this number, for messages."""
        return f" by {self._sites[site].describe()}" if site < MOST_SITES else ""

    def renewed(self, span: Span) -> Span:
        """A span in the current units."""
        return span if span.unit == self.unit else Span(span.addresses, span.size, span.chunk, self.unit, span.end)

    def entries(self, size: int) -> int:
        """The number of units in a memory of `size` bytes."""
        return padded(size) // self.unit

    def dtypes_at(self, access: Access, addresses: Ints) -> set[str]:
        """The types of the elements that begin at these addresses, where one does."""
        at = addresses - self.origin
        codes = self.codes[at[(at >= 0) & (at < self.size)]]
        return {NAMES[code] for code in set(codes.tolist()) if code in NAMES}

    def fail(self, access: Access, addresses: Ints, row: int, byte: int, rule: str) -> NoReturn:
        """Raise the InterpreterError of a rule broken at byte `byte` of row `row`."""
        raise InterpreterError(self.broken(access, addresses, row, byte, rule))

    def broken(self, access: Access, addresses: Ints, row: int, byte: int, rule: str) -> str:
        """The message of that error."""
        lane = "" if access.lanes is None else f" lane {int(access.lanes[row])}"
        at = int(addresses[row]) + byte
        level = f", level {access.level}" if access.level else ""
        is_copy_engine = access.who and not access.level
        who = access.who if is_copy_engine else f"CTA {access.cta} {access.who or f'warp {access.warp}'}{lane}"
        found = f"{access.op.describe()}{level}, {who}: {rule}"
        return before_code(found, f" ({self.space} address {at + self.origin:#x}{self.place_of(at)})")

    def place_of(self, at: int) -> str:
        """A relative address in words, after a comma: its buffer and offset; empty if no buffer has a name."""
        for buffer in reversed(self.buffers):
            if buffer.start <= at < buffer.end:
                if buffer.sides:
                    return f", {buffer.element(at - buffer.start)}"
                place = f", byte {at - buffer.start} of {buffer.name}"
                if buffer.stride:
                    matrix, row, byte = buffer.place(at - buffer.start)
                    place += f": matrix {matrix}, row {row}," if buffer.count > 1 else f": row {row},"
                    place += f" byte {byte} of {buffer.columns * ELEMENT_BYTES[buffer.dtype]}"
                return place
        below = max((buffer for buffer in self.buffers if buffer.end <= at), key=lambda b: b.end, default=None)
        return (
            ("" if not self.buffers else ", in no buffer")
            if below is None
            else f", in no buffer, {at - below.end} bytes past the end of {below.name}"
        )

    def _read(self, access: Access, span: Span, dtype: str, count: int, unwritten: Any = None) -> Values:
        """The payload of a span's elements, once it may be read. `unwritten`: the number that is read where nothing was
        written. Without it, such a read is refused. Raises InterpreterError for another type."""
        width = ELEMENT_BYTES[dtype]
        run = RUNS.get((dtype, span.word))
        if run is None or np.count_nonzero(self.codes.view(WORDS[span.word])[span.words] != run):
            words = span.get(self.codes).view(WORDS[width])
            bad = (words != PATTERNS[dtype]) & (words != ZEROS[width])
            if bad.any():
                if unwritten is not None and (lacks := words == UNWRITTEN).any():
                    return self._completed(access, span, dtype, lacks, unwritten)
                if dtype in INTEGERS:
                    bits = self._bits(span.elements(1), width)
                    found = None if bits is None else loaded(bits, dtype)
                else:
                    found = self._numbers_of_bits(span, bad, dtype)
                if found is not None:
                    return found
                others = bad & (words != PATTERNS[f"i{8 * width}"])
                is_allowed = self.numbers_of_bits is not None and others.any()
                self._refuse_contents(access, span, others if is_allowed else bad, dtype, width)
        return loaded(self.payload[span.elements(width)], dtype)

    def _completed(self, access: Access, span: Span, dtype: str, lacks: Values, unwritten: Any) -> Values:
        """As `_read`, with a number in place of the elements that `lacks` marks, which were never written."""
        at = span.elements(1)[np.repeat(lacks, ELEMENT_BYTES[dtype], axis=1)]
        self.codes[at] = ZERO
        try:
            found = self._read(access, span, dtype, lacks.shape[1])
        finally:
            self.codes[at] = UNWRITTEN
        return np.where(lacks, np.asarray(unwritten).astype(found.dtype), found)

    def numbers(self, access: Access, span: Span, dtype: str, unwritten: Any = None) -> Values:
        """The elements of a type in a span that may be read: payload (n, elements). `unwritten`: the number that is
        read where nothing was written. Raises InterpreterError."""
        return self._read(access, span, dtype, span.size // ELEMENT_BYTES[dtype], unwritten)

    def bits(self, access: Access, span: Span, width: int) -> Values:
        """Integers in a span that may be read, as integers of `width` bytes. Raises InterpreterError."""
        found = self._bits(span.elements(1), width)
        if found is None:
            bad = np.ones((len(span.addresses), span.size // width), np.bool_)
            self._refuse_contents(access, span, bad, f"a {8 * width}-bit integer", width)
        return found

    def put_numbers(self, span: Span, payload: Values, dtype: str) -> None:
        """Set the elements of a span, payload (n, elements), without any rule of order."""
        codes = np.full((1, span.size), CONTINUED, np.uint8)
        codes[0, :: ELEMENT_BYTES[dtype]] = CODES[dtype]
        self.changes.count += 1
        span.put(self.codes, np.broadcast_to(codes, (len(span.addresses), span.size)))
        self.payload[span.elements(ELEMENT_BYTES[dtype])] = stored(payload, dtype)

    def _numbers_of_bits(self, span: Span, bad: Values, dtype: str) -> Values | None:
        """The elements of a span as numbers. `bad`: a mask of those written with another type. None if they are not
        integers, or if registers have types: then an integer cannot be read as such a number."""
        if self.numbers_of_bits is None:
            return None
        width = ELEMENT_BYTES[dtype]
        bits = self._bits(span.elements(width)[bad][:, None] + np.arange(width), width)
        if bits is None:
            return None
        payload = self.payload[span.elements(width)]
        payload[bad] = self.numbers_of_bits(bits[:, 0], in_memory(dtype))
        return loaded(payload, dtype)

    def _bits(self, at: Ints, width: int) -> Values | None:
        """Bytes at places in rows (n, size), as integers of `width` bytes. None unless each byte is zero-filled or part
        of an integer, of any width."""
        result, known = np.zeros(at.shape, np.int8), self.codes[at] == ZERO
        for size, code in CODES_OF_INTEGERS.items():  # smallest first: one may have overwritten a part of a larger one
            begins = at & -size
            inside = ~known & (self.codes[begins] == code) & ((at == begins) | (self.codes[at] == CONTINUED))
            numbers = np.ascontiguousarray(self.payload[begins[inside]].astype(f"i{size}")).view(np.int8)
            result[inside] = numbers.reshape(-1, size)[np.arange(len(numbers) // size), (at - begins)[inside]]
            known |= inside
        return result.view(f"i{width}") if known.all() else None

    def _refuse_contents(self, access: Access, span: Span, bad: Values, wanted: str, width: int) -> NoReturn:
        """Refuse bytes that are not elements of the wanted type, and say what they are."""
        row, element = (int(index[0]) for index in np.nonzero(bad))
        codes = span.get(self.codes)[row, element * width : (element + 1) * width]
        if (codes == UNWRITTEN).any():
            rule = f"uninitialised: {wanted} read where nothing was written [uninitialised-read]"
        elif codes[0] in NAMES and ELEMENT_BYTES[NAMES[codes[0]]] == width and (codes[1:] == CONTINUED).all():
            rule = f"wrong type: {wanted} read where {NAMES[codes[0]]} was written [wrong-type]"
        else:
            rule = f"torn read: {wanted} read across the bounds of the elements that were written [torn-read]"
        self.fail(access, span.addresses, row, element * width + int(np.argmax(codes == UNWRITTEN)), rule)

    def _check_accessible(self, access: Access, span: Span) -> None:
        """Raise for bytes inside the memory that belong to no buffer, once for each kept span."""

    def _outside(
        self, access: Access, span: Span, limits: Mapping[Described, tuple[Buffer, ...]]
    ) -> tuple[int, str] | None:
        """A row that is not inside the variables or arrays from whose addresses those of its op are formed, and what
        these are, in words; None if there is none."""
        ops = access.ops or (access.op,)
        if not limits or ops in span.passed:
            return None
        for number, op in enumerate(ops):
            variables = limits.get(op, ())
            each = len(span.addresses) // len(ops)
            rows = span.addresses[number * each : (number + 1) * each]
            outside = np.array([bool(variables)] * each)
            for variable in variables:
                outside &= (rows < variable.start) | (rows + span.size > variable.end)
            if outside.any():
                named = " or ".join(f"{each.name} of {each.end - each.start} bytes" for each in variables)
                return number * each + int(
                    np.flatnonzero(outside)[0]
                ), f"{named}, from whose address this one is formed"
        span.passed.add(ops)
        return None

    def _check_open(self, access: Access, span: Span) -> None:
        """Raise for an access to memory that nobody may access yet."""

    def _before_read(self, access: Access, span: Span) -> None:
        """Raise for a read that is not ordered; record the reader."""

    def _before_write(self, access: Access, span: Span, holds: Holds | None = None) -> None:
        """Raise for a write that is not ordered; record the writer. `holds`: a store by threads, which may be forgiven
        in units that hold what it writes."""


def padded(size: int) -> int:
    """The next multiple of the largest access."""
    return -(-size // LARGEST) * LARGEST
