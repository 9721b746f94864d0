"""Instructions that change no number: prefetches, priorities of cache lines, and their discarding; and st.bulk.

PTX ISA, "Data Movement and Conversion Instructions".
"""

from typing import Any

import numpy as np

from lowtide.interpreter.machine import clusters
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.lanes import active_rows, one_lane, uniform
from lowtide.interpreter.numbers.codes import UNWRITTEN, ZERO_TYPE
from lowtide.interpreter.numbers.registers import canonical
from lowtide.interpreter.ptx.moves import GENERIC_SHARED
from lowtide.interpreter.ptx.running import Op
from lowtide.interpreter.ptx.spaces import cells_of, space_of
from lowtide.interpreter.ptx.table import Table

TABLE = Table()

_SECTION = "Data Movement and Conversion Instructions"


@TABLE.effects("prefetchu", words="L1", section=f"{_SECTION}: prefetchu", acts=False)
def prefetchu(state: AgentState, op: Op, address: Any) -> None:
    """Changes no number."""


@TABLE.effects("discard", words="global L2", section=f"{_SECTION}: discard", prepare=space_of)
def discard(state: AgentState, op: Op, address: Any, size: Any) -> None:
    """The 128 bytes at an address may have any value: they count as never written."""
    if size != 128:
        raise state.violation(op, f"discards {size} bytes; a line has 128 [discard-size]")
    cells, place = cells_of(state, op, op.data, address)
    access, rows = active_rows(state, op, place)
    cells.store(access, rows, np.zeros((1, 1)), ZERO_TYPE, 64, 16)
    for row in (rows - cells.origin).tolist():
        cells.codes[row : row + 128] = UNWRITTEN


@TABLE.effects("st.bulk", words="weak shared shared::cta", section=f"{_SECTION}: st.bulk", prepare=space_of)
def store_bulk(state: AgentState, op: Op, address: Any, size: Any, value: Any) -> None:
    """One lane writes zeros to bytes of shared memory."""
    one_lane(state, op, "store bytes in bulk")
    count, written = uniform(state, op, size), uniform(state, op, value)
    if written != 0 or count % 8 or count <= 0:
        raise state.violation(
            op, f"stores {written} to {count} bytes; st.bulk stores zeros, to a multiple of 8 bytes [bulk-store]"
        )
    cells, place = cells_of(state, op, op.data, address)
    access, rows = active_rows(state, op, np.full(len(state.lanes), place))
    cells.store(access, rows, np.zeros((1, 1)), ZERO_TYPE, count // 2, 8)


@TABLE.effects(
    "getctarank",
    types="u32 u64",
    words="shared::cluster",
    section=f"{_SECTION}: getctarank",
    results=1,
    acts=False,
    prepare=lambda form: "shared::cluster" in form.words,
)
def getctarank(state: AgentState, op: Op, address: Any) -> Any:
    """The number of the CTA of the cluster that an address is in; without a state space it is generic."""
    return canonical(clusters.rank_of(address if op.data else address - GENERIC_SHARED), 32)
