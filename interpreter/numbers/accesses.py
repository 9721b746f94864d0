"""Accesses to memory: who accesses it, by which op, and which bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.integer[Any]]
Values = NDArray[Any]

WHOLE_AGENT = 128
"""The lane number for all lanes of an agent (a warp, a warpgroup, a role, a CTA) together."""

LANE_BITS = 8
LANES = 1 << LANE_BITS
"""A thread's number is agent · LANES + lane."""

WARPS = 32
"""Maximum per CTA."""


class Described(Protocol):
    """The source of an access: an op that can name itself in a message."""

    def describe(self) -> str: ...


@dataclass(slots=True)
class Access:
    """The agent and op of an access. One address for each entry of `lanes`.

    `warp` is the agent's number in its CTA, `who` its name if it is not a warp.
    """

    cta: int
    warp: int
    lanes: Ints | None
    """The lane of each address; None for all lanes together (an agent that is a whole CTA, a warp-wide instruction)."""
    op: Described
    level: str = ""
    who: str = ""
    ops: tuple[Described, ...] = ()
    """Ops that access memory as one, each with the same number of rows; `op` is the first of them."""
    strong: Any = None
    """Of a strong operation, its scope and the bytes of an element (machine/views.py); None if it is weak."""
    warps: Ints | None = None
    """The agent of each row, array (n, 1), if the agents of a convoy access memory together (machine/convoys.py).
    `warp` is then one of them, and an access that breaks a rule raises NotTogether."""
    crews: Ints | None = None
    """For a convoy of several CTAs: the index in `ctas` of each row's CTA, array (n, 1). `cta` is then one of them."""
    ctas: tuple[int, ...] = ()
    visitor: Any = None
    """If the agent is of another CTA of the cluster: the clocks of its own CTA, and its number there. `warp` is then
    its number in the clocks of the CTA that it accesses."""
    _parts: Any = None

    @property
    def parts(self) -> list[tuple[int, Any]]:
        """Each agent, with an index of its rows."""
        if self.warps is None:
            return [(self.warp, slice(None))]
        if self._parts is None:
            self._parts = runs(self.warps[:, 0])
        found: list[tuple[int, Any]] = self._parts
        return found

    @property
    def agents(self) -> Any:
        """The agent of each row, array (n, 1), or the agent of all rows."""
        return self.warp if self.warps is None else self.warps

    @property
    def is_plain(self) -> bool:
        """Whether it is weak, and by one agent."""
        return self.strong is None and self.warps is None

    def of_rows(self, chosen: Values) -> Access:
        """The accesses of some rows, by one op."""
        columns = (self.lanes, self.warps, self.crews)
        lanes, warps, crews = (None if each is None else np.asarray(each)[chosen] for each in columns)
        cta, warp, strong = self.cta, self.warp, self.strong
        found = Access(cta, warp, lanes, self.op, self.level, self.who, (), strong, warps, crews, self.ctas)
        found.visitor = self.visitor
        return found


def runs(numbers: Ints) -> list[tuple[int, Any]]:
    """For each number, an index of the entries that are equal to it. It is a slice if equal entries are consecutive."""
    bounds = [0, *(np.flatnonzero(numbers[1:] != numbers[:-1]) + 1).tolist(), len(numbers)]
    firsts = numbers[bounds[:-1]].tolist()
    if len({*firsts}) == len(firsts):
        return [(number, slice(*ends)) for number, ends in zip(firsts, pairwise(bounds), strict=True)]
    return [(number, np.flatnonzero(numbers == number)) for number in sorted({*firsts})]


class Span:
    """`size` bytes from each of n addresses, checked to be in bounds and multiples of `chunk` bytes.

    `units`: the units of the memory's state: array (n, size / unit). `words`: the same for words of `word` bytes, the
    largest size that divides the bytes. `passed`: the ops that may access all of these bytes.
    """

    __slots__ = (
        "_elements", "_is_disjoint", "addresses", "chunk", "end", "passed", "size", "unit", "units", "word", "words"
    )  # fmt: skip

    def __init__(self, addresses: Ints, size: int, chunk: int, unit: int, end: int) -> None:
        self.addresses = addresses
        self.size = size
        self.chunk = chunk
        self.end = end
        self.unit = unit
        self.units = self._in_runs_of(unit)
        self.word = min(8, chunk)
        self.words = self.units if unit == self.word else self._in_runs_of(self.word)
        self._is_disjoint: bool | None = None
        self._elements: dict[int, Ints] = {}
        self.passed: set[tuple[Described, ...]] = set()

    def _in_runs_of(self, width: int) -> Ints:
        first = self.addresses[:, None] >> (width.bit_length() - 1)
        return first if self.size == width else first + np.arange(self.size // width)

    def rows(self, chosen: Any) -> Span:
        """The span of some rows. `chosen`: an index of rows."""
        part = Span.__new__(Span)
        part.size, part.chunk, part.end, part.unit, part.word = self.size, self.chunk, self.end, self.unit, self.word
        part.addresses, part.units, part.words = self.addresses[chosen], self.units[chosen], self.words[chosen]
        part._elements, part.passed, part._is_disjoint = {}, set(), None
        return part

    @property
    def is_disjoint(self) -> bool:
        """Whether no two rows share a byte."""
        if self._is_disjoint is None:
            starts = np.sort(self.addresses)
            self._is_disjoint = bool((starts[1:] - starts[:-1] >= self.size).all())
        return self._is_disjoint

    def elements(self, width: int) -> Ints:
        """The first byte of each element of `width` bytes: array (n, size / width)."""
        found = self._elements.get(width)
        if found is None:
            found = self._elements[width] = self.addresses[:, None] + np.arange(0, self.size, width)
        return found

    def get(self, array: Values) -> Values:
        """The entries of the bytes in an array over all bytes: (n, size)."""
        rows = array.reshape(-1, self.word)[self.words]
        return rows.reshape(len(self.addresses), self.size)

    def put(self, array: Values, values: Values) -> None:
        """Set the entries of the bytes in an array over all bytes: values (n, size)."""
        array.reshape(-1, self.word)[self.words] = values.reshape(*self.words.shape, self.word)

    def first(self, found: Values) -> tuple[int, int]:
        """The row of the first unit for which `found` (n, units) holds, and its first byte in the row."""
        row, unit = (int(index[0]) for index in np.nonzero(found))
        return row, unit * self.unit


def lane_column(access: Access) -> Any:
    """The lane of each row as a column (n, 1), or WHOLE_AGENT for all."""
    return WHOLE_AGENT if access.lanes is None else np.asarray(access.lanes, np.int32)[:, None]


def thread_name(thread: int, names: Sequence[str] = ()) -> str:
    """A thread, or a whole agent, in words; `names` are those of the clocks of its CTA."""
    warp, lane = divmod(thread, LANES)
    name = names[warp] if warp < len(names) else f"warp {warp}"
    return name if lane == WHOLE_AGENT else f"{name} lane {lane}"
