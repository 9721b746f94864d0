"""Loads whose values are followed, because they race (unused_reads.py)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from lowtide.interpreter.machine.agents import AgentState, Causes
from lowtide.interpreter.machine.undefined import add, bits_of
from lowtide.interpreter.machine.unused_reads import Read, line_of
from lowtide.interpreter.numbers.accesses import Access, Ints
from lowtide.interpreter.numbers.cells import Cells
from lowtide.interpreter.program.batches import NotTogether


@contextmanager
def watched(
    state: AgentState, ops: Sequence[Any], cells: Cells, access: Access, rows: Ints
) -> Iterator[tuple[Access, Ints]]:
    """The access of a load, with the address of each lane; by single lanes if the load is watched. Then its registers
    depend on it. Raises NotTogether for several ops or warps with one that is watched."""
    relied = state.machine.observers.relied
    lines = frozenset() if relied is None or cells is not state.machine.memory else relied.watched
    if not lines or access.strong is not None or not any(line_of(op) in lines for op in ops):
        yield access, rows
        return
    if len(ops) > 1 or access.warps is not None:
        raise NotTogether
    active = np.ones(len(state.lanes), np.bool_)
    for mask in (state.mask, state.present):
        active &= True if mask is None else mask
    if access.lanes is None:
        lanes = np.flatnonzero(active)
        access, rows = replace(access, lanes=lanes), np.repeat(rows, len(lanes))
    read = Read(state.machine.memory.note_used)
    with state.machine.memory.reading(read):
        yield access, rows
    for slot in ops[0].results:
        add(state.made_undefined.setdefault(slot, Causes()), read, bits_of(active))
