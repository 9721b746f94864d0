"""Which stores of a run are of D."""

import numpy as np
import pytest
from memories import by

from lowtide.interpreter import Trace
from lowtide.interpreter.machine.global_memory import GlobalMemory


@pytest.mark.parametrize("is_first", [True, False])
def test_of_an_access_by_several_stores_those_of_d_are_recorded(is_first: bool) -> None:
    """Stores of several results may run as one: whichever result comes first, D's elements are recorded, and no
    others."""
    trace = Trace()
    memory = GlobalMemory(on_write=trace.store)
    d, other = (memory.allocate(name, rows=4, columns=2, row_stride=4, dtype="f32") for name in ("d", "pre"))
    trace.outputs = (memory.buffer("d"),)
    addresses = [d + 16, other, d + 48] if is_first else [other, d + 16, d + 48]
    memory.store(by(0, range(3)), np.array(addresses), np.ones((3, 2)), "f32", 2)
    ((rows, columns),) = trace.stores[0]["warp 0"]
    assert list(zip(rows.tolist(), columns.tolist(), strict=True)) == [(1, 0), (1, 1), (3, 0), (3, 1)]
    assert trace.stored_tiles([(0, 0, 4, 2)]) == {0: {"warp 0": [(0, 0, 4, 2)]}}
