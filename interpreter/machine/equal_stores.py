"""Stores of one value to the same bytes by threads that nothing orders: a race by the PTX ISA, which hardware forgives.

By the PTX ISA, equal bulk copies are the same race ("Data-races"). They are not forgiven: no litmus test on hardware
has shown it for the async proxy, which may write bytes at any time until the copy completes.

Whatever order such stores have, the value is there after the first of them. This holds if each access to the bytes
comes after all of them, before all of them, or is one of them. So for each unit of a memory that forgives them, these
are kept beside its last write:
- *further* stores of the value that is there. Other accesses must come after them, too.
- the accesses *before* the value that is there. An equal store must come after them, too: otherwise it may be between a
  store of another value and its read. An access that another one of them follows is left out.

Threads are numbers of the memory, epochs those that it stores (clocks.py). An epoch of 0 stands for no access.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, NoReturn

import numpy as np

from lowtide.interpreter.machine.reliances import EQUAL_STORES, Relied
from lowtide.interpreter.machine.words import Ended
from lowtide.interpreter.numbers.accesses import Values
from lowtide.interpreter.numbers.cells import IN_FLIGHT, Holds

_LOGGED = 1 << 20
"""The number of replaced accesses after which they are sorted by unit."""


class Made(NamedTuple):
    """Accesses to units: arrays (rows, units), or what broadcasts to them: thread, epoch and number of the op."""

    thread: Any
    stored: Any
    site: Any = 0


@dataclass(frozen=True)
class Change:
    """A write that is not strong: the last accesses of the units until now, and the `new` one. `joins`: the units where
    it is one of several equal stores. `holds`: the units that hold what it writes; None if that is not known. `ended`:
    further accesses that come before it, by unit."""

    old: Made
    new: Made
    joins: Any = False
    holds: Holds | None = None
    ended: Sequence[tuple[int, Made]] = ()


def by_unit(ended: Sequence[Ended], unit: int, number: Callable[[int], tuple[int, bool]]) -> list[tuple[int, Made]]:
    """Strong accesses that a write follows, by unit of `unit` bytes. `number` gives the memory's number of a thread of
    the grid, and whether it has one; an access of one without counts as late for all."""
    found = []
    for word, thread, stored in ended:
        own, is_known = number(thread)
        made = Made(own, stored if is_known else IN_FLIGHT)
        found += [(at, made) for at in range(word.start // unit, -(-(word.start + word.size) // unit))]
    return found


Late = Callable[[Values, Values, Values], Values]
"""Which accesses by threads in epochs are not ordered before the access of a row: (rows, threads, epochs), all (n,)."""


@dataclass(eq=False)
class EqualStores:
    """`beside`: the further stores, by unit and thread. What replaced accesses is logged first, because it is needed
    only if stores are equal; `_threads` and `_epochs` hold it by unit, `_more` where several accesses came before."""

    relied: Relied
    beside: dict[int, dict[int, Made]] = field(default_factory=dict)
    _log: list[Any] = field(default_factory=list)
    _count: int = 0
    _threads: Values = field(default_factory=lambda: np.zeros(0, np.int64))
    _epochs: Values = field(default_factory=lambda: np.zeros(0, np.int32))
    _more: dict[int, list[Made]] = field(default_factory=dict)

    # Checks -----------------------------------------------------------------------------------------------------------

    def reaches(self, units: Values) -> bool:
        """Whether some of these units have further stores."""
        return bool(self.beside) and not self.beside.keys().isdisjoint(units.reshape(-1).tolist())

    def late(self, units: Values, late: Values, made: "Made", which: Late) -> tuple[Values, "Made"]:
        """Which units have a write that is not ordered before the access, and that write. `late` says so of the last
        writes, which `made` are; the result is also of further stores."""
        if not self.reaches(units):
            return late, made
        found = [
            (row, column, *each)
            for row, column in np.argwhere(~late).tolist()
            for each in self.beside.get(int(units[row, column]), {}).values()
        ]
        if not found:
            return late, made
        rows, columns, threads, epochs, sites = map(np.array, zip(*found, strict=True))
        more = np.flatnonzero(which(rows, threads, epochs))[::-1]  # the first of a unit is told
        late, made = late.copy(), Made(*(np.array(np.broadcast_to(each, units.shape)) for each in made))
        late[rows[more], columns[more]] = True
        for array, values in zip(made, (threads, epochs, sites), strict=True):
            array[rows[more], columns[more]] = values[more]
        return late, made

    def allows(self, units: Values, chosen: Values, holds: Holds | None, which: Late) -> bool:
        """Whether stores to the chosen units, an array (rows, units), are forgiven: the units hold what is stored, and
        all that came before these values is ordered before the stores, too."""
        same = None if holds is None or not chosen.any() else holds(False)
        if same is None or not same[chosen].all():
            return False
        self._settle()
        before = []
        for row, column in np.argwhere(chosen).tolist():
            unit = int(units[row, column])
            before += [(row, made.thread, made.stored) for made in self._more.get(unit, ())]
            if unit < len(self._epochs) and self._epochs[unit]:
                before.append((row, int(self._threads[unit]), int(self._epochs[unit])))
        return not before or not which(*map(np.array, zip(*before, strict=True))).any()

    def note(self, fail: Callable[[], NoReturn]) -> None:
        """The kernel relies on equal stores; `fail` raises the error of the race."""
        if EQUAL_STORES not in self.relied.places:
            self.relied.note(EQUAL_STORES, fail)

    # Records ----------------------------------------------------------------------------------------------------------

    def write(self, units: Values, change: "Change") -> None:
        """Units (rows, units) are written."""
        old, joins = change.old, change.joins
        changed = old.stored != 0
        if joins is not False:
            changed &= ~joins
        if change.holds is not None and (same := change.holds(True)) is not None:
            changed &= ~same
        more = [*change.ended, *(self._replaced(units, changed, joins) if self.beside else ())]
        if (count := np.count_nonzero(changed)) or more:
            replaced = (units, old.thread, old.stored)
            self._log.append((*(replaced if count == changed.size else (each[changed] for each in replaced)), more))
            self._count += count + len(more)
            if self._count > _LOGGED:
                self._settle()
        if joins is not False:
            self._join(units, change)

    def _replaced(self, units: Values, changed: Values, joins: Any) -> Iterator[tuple[int, Made]]:
        """Forget the further stores that a write follows; yields those of a value that it changes, by unit."""
        gone = {*units[changed].tolist()}
        for unit in {*units[~np.broadcast_to(joins, units.shape)].tolist()} & self.beside.keys():
            further = self.beside.pop(unit).values()
            yield from ((unit, each) for each in further if unit in gone)

    def _join(self, units: Values, change: "Change") -> None:
        """Note a write, and what was there, as further stores of the units that it joins."""
        at = np.nonzero(change.joins)
        whole = [Made(*(np.broadcast_to(each, units.shape)[at] for each in made)) for made in (change.old, change.new)]
        for made in whole:
            columns = (each.tolist() for each in (units[at], *made))
            for unit, thread, stored, site in zip(*columns, strict=True):
                self.beside.setdefault(unit, {})[thread] = Made(thread, stored, site)

    def refine(self, factor: int) -> None:
        """Each unit becomes `factor` units."""
        self._settle()
        parts = range(factor)
        self.beside = {unit * factor + part: dict(made) for unit, made in self.beside.items() for part in parts}
        self._more = {unit * factor + part: list(made) for unit, made in self._more.items() for part in parts}
        self._threads, self._epochs = np.repeat(self._threads, factor), np.repeat(self._epochs, factor)

    def _settle(self) -> None:
        """Sort what is logged by unit."""
        for units, threads, epochs, further in self._log:
            missing = int(units.max(initial=-1)) + 1 - len(self._epochs)
            if missing > 0:
                missing += len(self._epochs)
                self._threads, self._epochs = (np.pad(each, (0, missing)) for each in (self._threads, self._epochs))
            self._threads[units], self._epochs[units] = threads, epochs
            for unit in units.reshape(-1).tolist() if self._more else ():
                self._more.pop(unit, None)
            for unit, made in further:
                self._more.setdefault(unit, []).append(made)
        self._log, self._count = [], 0
