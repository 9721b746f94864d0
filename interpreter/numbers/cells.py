"""Byte-addressed memory whose bytes hold numbers of a domain, and what each byte is part of.

Each element lies at the byte address of its first byte: there stand its payload and the code of its type; its further
bytes say "continued". So a read that does not match whole elements of its own type is found in every domain. Bytes
that cp.async zero-fills read as zero of any type. All functions take arrays of addresses, one per lane (a *row*).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from lowtide.elements import ELEMENTS
from lowtide.errors import InterpreterError

Ints = NDArray[np.integer[Any]]
Values = NDArray[Any]

WHOLE_AGENT = 128
"""The lane number under which all lanes of an agent (a warp, a warpgroup, a role, a CTA) together access memory."""

IN_FLIGHT = np.iinfo(np.int32).max
"""As the epoch of a write or read: later than every agent's current epoch."""

LANES = 256
"""A thread's number is agent · LANES + lane."""

WARPS = 32
"""Maximum per CTA."""

# By MLIR names; an i1 is stored as a byte.
_WIDTHS = {"i1": 1, **{row.ir: row.bytes for row in ELEMENTS.values()}}
ELEMENT_BYTES: Mapping[str, int] = MappingProxyType(_WIDTHS)
CODES: Mapping[str, int] = MappingProxyType({dtype: code for code, dtype in enumerate(_WIDTHS, start=1)})
_NAMES: Mapping[int, str] = MappingProxyType({code: dtype for dtype, code in CODES.items()})
UNWRITTEN, ZERO, CONTINUED = 0, 254, 255
ZERO_TYPE = "zero"
"""In place of a type: 16-bit elements that are zero of any type."""
_WORDS: Mapping[int, Any] = MappingProxyType({1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64})


def _word(first: int, rest: int, width: int) -> Any:
    return np.array([first] + [rest] * (width - 1), np.uint8).view(_WORDS[width])[0]


_PATTERNS: Mapping[str, Any] = MappingProxyType({d: _word(c, CONTINUED, _WIDTHS[d]) for d, c in CODES.items()})
_ZEROS: Mapping[int, Any] = MappingProxyType({width: _word(ZERO, ZERO, width) for width in _WORDS})


class Described(Protocol):
    """What an access is made by: an op that can name itself in a message."""

    def describe(self) -> str: ...


@dataclass(slots=True)
class Access:
    """Who accesses memory, and by which op. One address for each entry of `lanes`.

    `warp` is the agent's number in its CTA, `who` its name where it is not a warp.
    """

    cta: int
    warp: int
    lanes: Ints | None
    """The lane of each address; None: all of them together (an agent that is a whole CTA, a warp-wide instruction)."""
    op: Described
    level: str = ""
    who: str = ""


@dataclass(slots=True)
class Span:
    """`size` bytes from each of n addresses, checked, as rows of `chunk` aligned bytes: array (n, size / chunk)."""

    addresses: Ints
    size: int
    chunk: int
    rows: Ints

    def get(self, array: Values) -> Values:
        """The bytes' entries of an array over all bytes: (n, size), or (…, n, size) of an array (…, bytes)."""
        leading = array.shape[:-1]
        rows = array.reshape(*leading, -1, self.chunk)[..., self.rows, :]
        return rows.reshape(*leading, len(self.addresses), self.size)

    def put(self, array: Values, values: Any) -> None:
        """Set the bytes' entries: values a scalar, or (n or 1, size or 1)."""
        if np.ndim(values):
            rows, columns = values.shape
            values = values[..., None] if columns == 1 else values.reshape(rows, self.rows.shape[1], self.chunk)
        array.reshape(-1, self.chunk)[self.rows] = values


@dataclass(frozen=True)
class Buffer:
    """A named range of relative addresses; in global memory a matrix of `rows` rows that begin `stride` bytes apart."""

    name: str
    start: int
    end: int
    dtype: str = ""
    rows: int = 0
    columns: int = 0
    stride: int = 0


class Cells:
    """The bytes of one memory, addresses from `origin`. Subclasses add who may touch them when."""

    def __init__(self, space: str, origin: int, size: int, payload: Any) -> None:
        self.space = space
        self.origin = origin
        self.size = size
        self.buffers: list[Buffer] = []
        self.payload: Values = np.zeros(padded(size), payload)
        self.codes: NDArray[np.uint8] = np.zeros(padded(size), np.uint8)

    def load(self, access: Access, addresses: Ints, dtype: str, count: int = 1, align: int | None = None) -> Values:
        """`count` neighbouring elements from each address: payload array (n, count).

        `align` is what the op promises of the address, in bytes; by default the size of the access, at most 16.
        Raises InterpreterError for an access out of bounds or misaligned, bytes not written or in flight, elements torn
        or of another type, and a race.
        """
        span = self.span(access, addresses, ELEMENT_BYTES[dtype] * count, align)
        self._before_read(access, span)
        return self._read(access, span, dtype, count)

    def load_any(self, access: Access, addresses: Ints, width: int, count: int = 1) -> tuple[Values, str]:
        """As `load`, for elements of `width` bytes of any one type: payload, and the type's name.

        The name is ZERO_TYPE where all bytes are zero-filled. Raises InterpreterError also where types differ.
        """
        span = self.span(access, addresses, width * count)
        self._before_read(access, span)
        words = span.get(self.codes).view(_WORDS[width])
        written = words[words != _ZEROS[width]]
        if not written.size:
            return self.payload[self._elements(span, width, count)], ZERO_TYPE
        dtype = next((name for name, word in _PATTERNS.items() if word == written[0] and _WIDTHS[name] == width), None)
        if dtype is None:
            self._refuse_contents(access, span, words == written[0], f"a {8 * width}-bit element", width)
        return self._read(access, span, dtype, count), dtype

    def store(
        self, access: Access, addresses: Ints, payload: Values, dtype: str, count: int = 1, align: int | None = None
    ) -> None:
        """Write `count` neighbouring elements to each address: payload (n, count), or what broadcasts to it.

        Raises InterpreterError for an access out of bounds or misaligned, bytes in flight, and a race.
        """
        is_zero = dtype == ZERO_TYPE
        width = 2 if is_zero else ELEMENT_BYTES[dtype]
        span = self.span(access, addresses, width * count, align)
        self._before_write(access, span)
        codes = np.full((1, width * count), ZERO if is_zero else CONTINUED, np.uint8)
        if not is_zero:
            codes[0, ::width] = CODES[dtype]
        span.put(self.codes, codes)
        self.payload[self._elements(span, width, count)] = payload

    def span(self, access: Access, addresses: Ints, size: int, align: int | None = None) -> Span:
        """Checks alignment and bounds of accesses of `size` bytes. Raises InterpreterError."""
        chunk = min(16, size & -size)
        align = chunk if align is None else align
        chunk = min(chunk, align & -align)
        at = np.asarray(addresses, np.int64).reshape(-1) - self.origin
        if (at & (align - 1)).any():  # origins are multiples of 16
            row = int(np.flatnonzero(at & (align - 1))[0])
            self.fail(access, at, row, 0, f"misaligned: {size} bytes need an address that is a multiple of {align}")
        if at.size and (int(at.min()) < 0 or int(at.max()) + size > self.size):
            row = int(np.flatnonzero((at < 0) | (at + size > self.size))[0])
            self.fail(access, at, row, 0, f"out of bounds: {size} bytes outside {self.space}")
        rows = at[:, None] // chunk
        if size > chunk:
            rows = rows + np.arange(size // chunk)
        span = Span(at, size, chunk, rows)
        self._check_accessible(access, span)
        return span

    def dtype_at(self, at: int) -> str | None:
        """The type of the element that begins at a relative address; None where none does."""
        return _NAMES.get(int(self.codes[at]))

    def fail(self, access: Access, addresses: Ints, row: int, byte: int, rule: str) -> NoReturn:
        """Raise the InterpreterError of a rule broken at byte `byte` of row `row`."""
        lane = "" if access.lanes is None else f" lane {int(access.lanes[row])}"
        at = int(addresses[row]) + byte
        level = f", level {access.level}" if access.level else ""
        raise InterpreterError(
            f"{access.op.describe()}{level}, CTA {access.cta} {access.who or f'warp {access.warp}'}{lane}: {rule} "
            f"({self.space} address {at + self.origin:#x}{self.place_of(at)})"
        )

    def place_of(self, at: int) -> str:
        """A relative address in words, after a comma: its buffer and offset; nothing where no buffer has a name."""
        for buffer in reversed(self.buffers):
            if buffer.start <= at < buffer.end:
                place = f", byte {at - buffer.start} of {buffer.name}"
                if buffer.stride:
                    row, byte = divmod(at - buffer.start, buffer.stride)
                    place += f": row {row}, byte {byte} of {buffer.columns * ELEMENT_BYTES[buffer.dtype]}"
                return place
        below = max((buffer for buffer in self.buffers if buffer.end <= at), key=lambda b: b.end, default=None)
        return (
            ("" if not self.buffers else ", in no buffer")
            if below is None
            else f", in no buffer, {at - below.end} bytes past the end of {below.name}"
        )

    def _read(self, access: Access, span: Span, dtype: str, count: int) -> Values:
        """The payload of a span's elements, once it may be read. Raises where they are not of the type."""
        width = ELEMENT_BYTES[dtype]
        words = span.get(self.codes).view(_WORDS[width])
        bad = words != _PATTERNS[dtype]
        if bad.any():
            bad &= words != _ZEROS[width]
            if bad.any():
                self._refuse_contents(access, span, bad, dtype, width)
        return self.payload[self._elements(span, width, count)]

    def _elements(self, span: Span, width: int, count: int) -> Ints:
        return span.addresses[:, None] + np.arange(0, width * count, width)

    def _refuse_contents(self, access: Access, span: Span, bad: Values, wanted: str, width: int) -> NoReturn:
        """The bytes read are no elements of the type wanted: say what they are."""
        row, element = (int(index[0]) for index in np.nonzero(bad))
        codes = span.get(self.codes)[row, element * width : (element + 1) * width]
        if (codes == UNWRITTEN).any():
            rule = f"uninitialised: {wanted} read where nothing was written"
        elif codes[0] in _NAMES and ELEMENT_BYTES[_NAMES[codes[0]]] == width and (codes[1:] == CONTINUED).all():
            rule = f"wrong type: {wanted} read where {_NAMES[codes[0]]} was written"
        else:
            rule = f"torn read: {wanted} read across the bounds of the elements that were written"
        self.fail(access, span.addresses, row, element * width + int(np.argmax(codes == UNWRITTEN)), rule)

    def _check_accessible(self, access: Access, span: Span) -> None:
        """Raise for bytes inside the memory that no buffer has."""

    def _before_read(self, access: Access, span: Span) -> None:
        """Raise for a read that is not ordered; remember the reader."""

    def _before_write(self, access: Access, span: Span) -> None:
        """Raise for a write that is not ordered; remember the writer."""


def lane_column(access: Access) -> Any:
    """The lane of each row as a column (n, 1), or WHOLE_AGENT for all."""
    return WHOLE_AGENT if access.lanes is None else np.asarray(access.lanes, np.int32)[:, None]


def padded(size: int) -> int:
    """The next multiple of the largest access, 16 bytes."""
    return -(-size // 16) * 16


def thread_name(thread: int, names: Sequence[str] = ()) -> str:
    """A thread, or an agent as a whole, in words; `names` are those of the clocks of its CTA."""
    warp, lane = divmod(thread, LANES)
    name = names[warp] if warp < len(names) else f"warp {warp}"
    return name if lane == WHOLE_AGENT else f"{name} lane {lane}"
