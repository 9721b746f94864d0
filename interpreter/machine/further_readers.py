"""Readers of units of global memory, beside the last one: those that did not come before it."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

_NOTED = 1 << 20
"""The number of recorded reads after which reads are sorted by unit."""

Part = NDArray[Any]


@dataclass(eq=False)
class FurtherReaders:
    """The epoch and the op of each reader of a unit, by thread. Most are never needed, so reads are first recorded in
    `noted`, as arrays of units, threads, epochs and ops, and sorted by unit later."""

    noted: list[tuple[Part, Part, Part, Part]] = field(default_factory=list)
    count: int = 0
    by_unit: dict[int, dict[int, tuple[int, int]]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.noted or self.by_unit)

    def note(self, units: Part, threads: Part, epochs: Part, sites: Part) -> None:
        """Record reads of units."""
        self.noted.append((units, threads, epochs, sites))
        self.count += len(units)
        if self.count > _NOTED:
            self._enter()

    def of(self, unit: int, take: bool) -> list[tuple[int, int, int]]:
        """The thread, epoch and op of each reader of a unit. With `take`, they are removed."""
        self._enter()
        found = self.by_unit.pop(unit, {}) if take else self.by_unit.get(unit, {})
        return [(thread, *read) for thread, read in found.items()]

    def refine(self, factor: int) -> None:
        """Each unit is now `factor` units."""
        parts = np.arange(factor)
        for at, (units, threads, epochs, sites) in enumerate(self.noted):
            further = (np.repeat(each, factor) for each in (threads, epochs, sites))
            self.noted[at] = ((units[:, None] * factor + parts).reshape(-1), *further)  # type: ignore[assignment]
        self.count *= factor
        held = self.by_unit
        self.by_unit = {unit * factor + part: dict(held[unit]) for unit in held for part in range(factor)}

    def _enter(self) -> None:
        for each in self.noted:
            for unit, thread, epoch, site in zip(*(part.tolist() for part in each), strict=True):
                held = self.by_unit.setdefault(unit, {})
                if thread not in held or held[thread][0] <= epoch:  # a read that is used later is noted late
                    held[thread] = epoch, site
        self.noted, self.count = [], 0
