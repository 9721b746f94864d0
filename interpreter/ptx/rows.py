"""All rows of the table."""

from lowtide.interpreter.ptx import (
    atomics,
    control,
    floats,
    integers,
    lanes,
    matrices,
    memory,
    moves,
    synchronization,
    tensors,
    wgmma,
)
from lowtide.interpreter.ptx.table import Table, joined

_INTEGERS = Table()
for _row in integers.TABLE:
    if _row.name not in floats.TABLE.rows:  # floats have rows for both
        _INTEGERS.enter(_row)

ROWS: Table = joined(
    _INTEGERS,
    floats.TABLE,
    moves.TABLE,
    lanes.TABLE,
    memory.TABLE,
    atomics.TABLE,
    tensors.TABLE,
    matrices.TABLE,
    wgmma.TABLE,
    synchronization.TABLE,
    control.TABLE,
)
