"""Words of a memory that threads access by strong operations: atomics, and loads and stores with an order.

Two such accesses of a word are no race if they are *morally strong*: each one's scope includes the thread of the other,
and both are of the same bytes (PTX ISA, "Morally Strong Operations"). Each word has the last strong read and the last
strong write of each thread, to be checked against other accesses, and what its present value releases (patterns.py).
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from lowtide.interpreter.machine.clocks import Clocks, Views
from lowtide.interpreter.machine.views import (
    NOTHING,
    Chain,
    Origin,
    Scope,
    View,
    are_mutual,
    cta_of,
    is_elsewhere,
    thread_of,
)
from lowtide.interpreter.numbers.accesses import Access, Span, lane_column
from lowtide.interpreter.numbers.cells import LARGEST


class Entry(NamedTuple):
    """The last strong write of a thread, or its last strong read: its epoch + 1, scope and op, and of a write the chain
    with its number there."""

    stored: int
    scope: Scope
    site: int
    chain: Chain | None = None
    number: int = 0


@dataclass(eq=False, slots=True)
class Word:
    """`size` bytes from `start`.

    `accesses`: by thread of the grid, and whether it writes; `narrowest` is the narrowest of their scopes. `writer`:
    the last write, if it was strong; `chain`: its chain. `released`: views of the release patterns that end in the
    chain, `wide` the union of those of scope .gpu and wider, `last` the last of them with its thread. `sc`: views at
    fence.sc of threads before they wrote there.
    """

    start: int
    size: int
    accesses: dict[tuple[int, bool], Entry] = field(default_factory=dict)
    writer: Origin | None = None
    chain: Chain = field(default_factory=Chain)
    released: Views = field(default_factory=dict)
    wide: View = NOTHING
    last: tuple[int, Views] = (-1, {})
    narrowest: Scope = Scope.sys
    sc: Views = field(default_factory=dict)


class Race(NamedTuple):
    """An access that races with a strong one: the row and its byte, the other thread, its op and whether it wrote; both
    are strong if `is_narrow`."""

    row: int
    byte: int
    thread: int
    site: int
    wrote: bool
    is_narrow: bool


class Ended(NamedTuple):
    """A strong access of a word that a write which is not strong follows: the thread of the grid, and its epoch + 1."""

    word: Word
    thread: int
    stored: int


class Words:
    """The words of one memory."""

    def __init__(self) -> None:
        self._words: dict[tuple[int, int], Word] = {}
        self._lines: dict[int, list[Word]] = defaultdict(list)  # by address in units of the largest access
        self._low, self._high = 2**62, -1

    def at(self, start: int, size: int) -> Word:
        """A word, by its address relative to the memory's origin."""
        found = self._words.get((start, size))
        if found is None:
            found = self._words[start, size] = Word(start, size)
            self._lines[start // LARGEST].append(found)
            self._low, self._high = min(self._low, start), max(self._high, start + size)
        return found

    def reaches(self, span: Span) -> bool:
        """Whether a span may share bytes with a word."""
        if self._high < 0:
            return False
        addresses = span.addresses
        return bool(((addresses < self._high) & (addresses + span.size > self._low)).any())

    def _touched(self, span: Span) -> Iterator[tuple[int, Word]]:
        """The rows of a span, each with the words that it shares bytes with."""
        for row, start in enumerate(span.addresses.tolist()):
            for line in range(start // LARGEST, (start + span.size - 1) // LARGEST + 1):
                for word in self._lines.get(line, ()):
                    if start < word.start + word.size and word.start < start + span.size:
                        yield row, word

    def writes(self, start: int, size: int) -> Iterator[tuple[int, int]]:
        """The thread of the grid and the op of each strong write of bytes that no other write follows."""
        for line in range(start // LARGEST, (start + size - 1) // LARGEST + 1):
            for word in self._lines.get(line, ()):
                if start < word.start + word.size and word.start < start + size:
                    yield from ((thread, each.site) for (thread, wrote), each in word.accesses.items() if wrote)

    def race(self, access: Access, span: Span, clocks: Clocks, writes: bool) -> Race | None:
        """A strong access that conflicts with this one, which is not ordered after it, nor are both morally strong."""
        lanes, strong = lane_column(access), access.strong
        clocks, agent = access.visitor or (clocks, access.warp)
        for row, word in self._touched(span):
            lane = int(lanes) if access.lanes is None else int(access.lanes[row])
            start = int(span.addresses[row])
            same = strong is not None and word.size == strong.size and (word.start - start) % word.size == 0
            if same and strong is not None and min(strong.scope, word.narrowest) >= Scope.gpu:
                continue  # morally strong with all
            for (thread, wrote), entry in word.accesses.items():
                if not (writes or wrote):
                    continue
                if same and strong is not None:
                    mine, theirs = Origin(access.cta, strong.scope), Origin(cta_of(thread), entry.scope)
                    if are_mutual(mine, theirs, clocks.cluster):
                        continue
                if clocks.knows(agent, lane, thread, entry.stored):
                    continue
                if entry.chain is not None and clocks.observed(agent, lane, entry.chain, entry.number):
                    continue
                return Race(row, max(0, word.start - start), thread, entry.site, wrote, strong is not None)
        return None

    def note(self, access: Access, span: Span, clocks: Clocks, site: int, writes: bool) -> None:
        """Record a strong access, of one op. An atomic operation is recorded when it writes."""
        strong = access.strong
        assert strong is not None
        if strong.is_atomic and not writes:
            return
        lanes = [int(lane_column(access))] if access.lanes is None else access.lanes.tolist()
        clocks, agent = access.visitor or (clocks, access.warp)
        stored = clocks.epoch(agent) + 1
        for start, lane in zip(span.addresses.tolist(), lanes, strict=True):
            thread = thread_of(access.cta, agent, lane)
            for place in range(start, start + span.size, strong.size):
                word = self.at(place, strong.size)
                word.accesses[thread, writes] = Entry(stored, strong.scope, site)
                scope = Scope.cta if is_elsewhere(access.cta) else strong.scope  # .gpu includes no other device
                word.narrowest = min(word.narrowest, scope)

    def overwritten(self, span: Span) -> list[Ended]:
        """A write that is not strong, ordered after all accesses so far: nothing is observed through the words. Returns
        those accesses."""
        found = []
        for _, word in self._touched(span):
            found += [Ended(word, thread, entry.stored) for (thread, _), entry in word.accesses.items()]
            word.accesses, word.writer, word.chain, word.narrowest = {}, None, Chain(), Scope.sys
            word.released, word.wide, word.last, word.sc = {}, NOTHING, (-1, {}), {}
        return found
