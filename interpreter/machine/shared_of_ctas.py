"""The shared memories of the CTAs of a convoy, for loads and stores by the warps of all of them (convoys.py).

Addresses and values are then computed once for all CTAs, and the memory of each CTA checks its own accesses. If a CTA
cannot run its accesses as one, NotTogether is raised. Other CTAs may have run theirs by then. They run them again
later, which changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lowtide.interpreter.machine.memory import SharedMemory
from lowtide.interpreter.numbers.accesses import Access, Ints, Values, runs
from lowtide.interpreter.numbers.cells import Buffer
from lowtide.interpreter.program.batches import NotTogether


@dataclass(frozen=True)
class _Spans:
    """The part of Span that callers use, for the bytes of an access in all memories."""

    is_disjoint: bool


class SharedOfCtas:
    """The shared memories of some CTAs. Each row of an access is in the memory of its crew. Addresses are the same in
    all."""

    def __init__(self, memories: Sequence[SharedMemory]) -> None:
        self.memories = memories
        self.origin = memories[0].origin
        self.buffers: Sequence[Buffer] = memories[0].buffers

    def _parts(self, access: Access) -> Iterator[tuple[SharedMemory, Access, Any]]:
        """For each memory that is accessed: the memory, the access to it, and an index of its rows."""
        assert access.crews is not None
        for crew, rows in runs(access.crews[:, 0]):
            part = access.of_rows(rows)
            part.cta, part.crews, part.ctas, part.ops = access.ctas[crew], None, (), access.ops
            yield self.memories[crew], part, rows

    def dtypes_at(self, access: Access, addresses: Ints) -> set[str]:
        """As Cells.dtypes_at."""
        found: set[str] = set()
        return found.union(*(memory.dtypes_at(part, addresses[rows]) for memory, part, rows in self._parts(access)))

    def span(self, access: Access, addresses: Ints, size: int, align: int | None = None) -> _Spans:
        """As Cells.span; the result has only `is_disjoint`."""
        spans = [memory.span(part, addresses[rows], size, align) for memory, part, rows in self._parts(access)]
        return _Spans(all(span.is_disjoint for span in spans))

    def load_any(self, access: Access, addresses: Ints, width: int, count: int = 1) -> tuple[Values, str]:
        """As Cells.load_any."""
        loaded, dtypes = [], set()
        for memory, part, rows in self._parts(access):
            payload, dtype = memory.load_any(part, addresses[rows], width, count)
            loaded.append((rows, payload))
            dtypes.add(dtype)
        if len(dtypes) > 1:
            raise NotTogether
        result = np.empty((len(addresses), *payload.shape[1:]), payload.dtype)
        for rows, payload in loaded:
            result[rows] = payload
        return result, dtype

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
        """As Cells.store."""
        for memory, part, rows in self._parts(access):
            own: Any = payload[rows] if len(payload) > 1 else payload
            memory.store(part, addresses[rows], own, dtype, count, align, by_threads)
