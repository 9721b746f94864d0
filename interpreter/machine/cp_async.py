"""cp.async by the active lanes of a warp (PTX ISA, "cp.async"); their groups are counted in copies.py."""

from typing import Any

import numpy as np

from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.lanes import active_rows, by_lane, disjoint, rows_together
from lowtide.interpreter.numbers.cells import Described
from lowtide.interpreter.program.batches import Batch, NotTogether


def start(state: AgentState, op: Described, destination: Any, source: Any, size: int, source_size: Any = None) -> None:
    """Each active lane copies `size` bytes, zero-filled after the first `source_size` of them if given."""
    access, shared_rows = active_rows(state, op, by_lane(destination))
    source = by_lane(source)
    global_rows = source if state.mask is None else source[state.mask]
    used = None
    if source_size is not None:
        used = by_lane(source_size) if state.mask is None else by_lane(source_size)[state.mask]
        if ((used < 0) | (used > size)).any():
            raise state.violation(
                op, f"src-size must be 0 … {size}, not {int(used[(used < 0) | (used > size)][0])} [cp-async-source]"
            )
    state.cta.copies.start(state.machine.memory, access, shared_rows, global_rows, size, used)


def start_together(
    state: AgentState, batch: Batch, destinations: list[Any], sources: list[Any], size: int, used: list[Any] | None
) -> None:
    """As `start`, for ops that run as one: to disjoint bytes, each by the active lanes."""
    access, rows = rows_together(state, batch, destinations)
    _, global_rows = rows_together(state, batch, sources)
    disjoint(state.cta.shared, access, rows, size)
    counts = None
    if used is not None:
        counts = np.concatenate([by_lane(each) if state.mask is None else by_lane(each)[state.mask] for each in used])
        if int(counts.min()) < 0 or int(counts.max()) > size:
            raise NotTogether
    state.cta.copies.start(state.machine.memory, access, rows, global_rows, size, counts)
