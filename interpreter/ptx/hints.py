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
from lowtide.interpreter.ptx.syntax import Immediate
from lowtide.interpreter.ptx.table import Form, Table

TABLE = Table()

_SECTION = "Data Movement and Conversion Instructions"


@TABLE.effects("prefetchu", words="L1", section=f"{_SECTION}: prefetchu", acts=False)
def prefetchu(state: AgentState, op: Op, address: Any) -> None:
    """Changes no number."""


def _line(form: Form) -> str:
    """The state space of a line of a cache."""
    size = form.instruction.operands[-1]
    if not isinstance(size, Immediate) or size.value != 128:
        raise form.instruction.error("discard takes the number 128, the bytes of a line [discard-size]")
    return space_of(form)


@TABLE.effects("discard", words="global L2", section=f"{_SECTION}: discard", prepare=_line)
def discard(state: AgentState, op: Op, address: Any, size: Any) -> None:
    """The 128 bytes at an address may have any value: they count as never written."""
    cells, place = cells_of(state, op, op.data, address)
    access, rows = active_rows(state, op, place)
    cells.store(access, rows, np.zeros((1, 1)), ZERO_TYPE, 64, 16)
    for row in (rows - cells.origin).tolist():
        cells.codes[row : row + 128] = UNWRITTEN


def _zeros(form: Form) -> str:
    """The state space of bytes that become zero."""
    if form.instruction.operands[-1] != Immediate(0):
        raise form.instruction.error("st.bulk stores the number 0 [bulk-zero]")
    return space_of(form)


@TABLE.effects("st.bulk", words="weak shared shared::cta", section=f"{_SECTION}: st.bulk", prepare=_zeros)
def store_bulk(state: AgentState, op: Op, address: Any, size: Any, value: Any) -> None:
    """One lane writes zeros to bytes of shared memory."""
    one_lane(state, op, "store bytes in bulk")
    count = uniform(state, op, size)
    if count % 8 or count <= 0:
        raise state.violation(op, f"stores to {count} bytes; st.bulk stores to a multiple of 8 bytes [bulk-store]")
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
