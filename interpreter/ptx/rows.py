"""All rows of the table."""

from lowtide.interpreter.ptx import (
    atomics,
    barriers,
    bit_fields,
    bulk,
    carries,
    comparisons,
    control,
    conversions,
    cp_async,
    floats,
    hints,
    integers,
    lanes,
    matrices,
    mbarriers,
    memory,
    moves,
    orders,
    permutes,
    strong_accesses,
    synchronization,
    tensor_maps,
    tensors,
    wgmma,
    wmma,
)
from lowtide.interpreter.ptx.table import Table, joined

_INTEGERS = Table()
for _row in integers.TABLE:
    if _row.name not in floats.TABLE.rows:  # floats have rows for both
        _INTEGERS.enter(_row)

ROWS: Table = joined(
    _INTEGERS,
    bit_fields.TABLE,
    carries.TABLE,
    comparisons.TABLE,
    floats.TABLE,
    moves.TABLE,
    conversions.TABLE,
    lanes.TABLE,
    permutes.TABLE,
    memory.TABLE,
    cp_async.TABLE,
    hints.TABLE,
    atomics.TABLE,
    strong_accesses.TABLE,
    orders.TABLE,
    tensors.TABLE,
    tensor_maps.TABLE,
    bulk.TABLE,
    matrices.TABLE,
    wgmma.TABLE,
    wmma.TABLE,
    barriers.TABLE,
    mbarriers.TABLE,
    synchronization.TABLE,
    control.TABLE,
)
