"""Stores in which each lane has its own address. Several lanes may write equal values to the same address."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.interpreter.machine.reliances import EQUAL_STORES, Relied
from lowtide.interpreter.numbers.accesses import Access, Ints
from lowtide.interpreter.numbers.cells import Cells
from lowtide.interpreter.numbers.codes import ELEMENT_BYTES, ZERO_TYPE

Values = NDArray[Any]


def store_by_threads(
    cells: Cells, access: Access, rows: Ints, payload: Values, dtype: str, relied: Relied | None
) -> None:
    """Write elements of a type to the address of each lane: payload (n, count), or an array that broadcasts to it.

    With `relied`, lanes may write equal values to one address. Raises InterpreterError as Cells.store.
    """
    count = payload.shape[1]
    size = count * (2 if dtype == ZERO_TYPE else ELEMENT_BYTES[dtype])
    align = min(16, size)
    is_plain = relied is not None and access.lanes is not None and access.strong is None
    if relied is not None and is_plain and not cells.span(access, rows, size, align).is_disjoint:
        again = _equals(cells, access, rows, payload, relied)
        if again is not None:
            for lanes in (~again, again):
                part = np.broadcast_to(payload, (len(rows), count))[lanes]
                cells.store(access.of_rows(lanes), rows[lanes], part, dtype, count, align, by_threads=True)
            return
    cells.store(access, rows, payload, dtype, count, align, by_threads=is_plain)


def _equals(cells: Cells, access: Access, rows: Ints, payload: Values, relied: Relied) -> Values | None:
    """The lanes of a store that write what an earlier lane writes there, too; None if there are none, or if some lane
    writes another value there. They race, but hardware keeps the value."""
    places, first, group = np.unique(rows, return_index=True, return_inverse=True)
    each = np.broadcast_to(payload, (len(rows), payload.shape[1]))
    kept = each[first][group.reshape(-1)]
    same = (each == kept) & (np.signbit(each) == np.signbit(kept))
    if len(places) == len(rows) or not (same | ((each != each) & (kept != kept))).all():
        return None
    again = np.ones(len(rows), np.bool_)
    again[first] = False
    rule = "race: two lanes write the same bytes in one instruction, with equal values [lanes-store-equals]"
    relied.on(EQUAL_STORES, cells.broken(access, rows - cells.origin, int(np.flatnonzero(again)[0]), 0, rule))
    return again
