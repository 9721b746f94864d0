"""TMA: boxes of tensors (PTX ISA, "cp.async.bulk.tensor", "cp.async.bulk.commit_group", "…wait_group").

A register holds the address of a tensor map; if a map is not in memory, as in modules of MLIR, the map itself.
"""

from typing import Any

import numpy as np

from lowtide.interpreter.machine import tma
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.tensor_maps import WithMaps
from lowtide.interpreter.ptx.bulk import REDUCTIONS, change_of
from lowtide.interpreter.ptx.lane_by_lane import lane_by_lane
from lowtide.interpreter.ptx.moves import GENERIC_SHARED
from lowtide.interpreter.ptx.running import Op
from lowtide.interpreter.ptx.table import Form, Table

TABLE = Table()

_SECTION = "Data Movement and Conversion Instructions"
_RANKS = tuple(f"{rank}d" for rank in range(1, 6))


def _of_global(state: AgentState, op: Op, tensor: Any) -> Any:
    """A map and coordinates. Raises InterpreterError for a map in shared or local memory."""
    map, _ = tensor
    if isinstance(map, int | np.ndarray) and not isinstance(map, WithMaps):
        active = map if state.mask is None else np.broadcast_to(map, state.mask.shape)[state.mask]
        if np.max(active) >= GENERIC_SHARED:
            rule = "a tensor map outside of global memory and parameters; copy it there by tensormap.cp_fenceproxy"
            raise state.violation(op, f"{rule} [map-space]")
    return tensor


@TABLE.effects(
    *(f"cp.async.bulk.tensor.{rank}.{to}.global" for rank in _RANKS for to in ("shared::cluster", "shared::cta")),
    words="tile mbarrier::complete_tx::bytes multicast::cluster L2::cache_hint",
    section=f"{_SECTION}: cp.async.bulk.tensor",
    prepare=lambda form: "multicast::cluster" in form.words,
)
@lane_by_lane
def load(state: AgentState, op: Op, destination: Any, tensor: Any, barrier: Any, *further: Any) -> None:
    """Load a box into shared memory; a cache hint, the last operand, has no effect."""
    map, coordinates = _of_global(state, op, tensor)
    mask = further[0] if op.data else None
    tma.load(state, op, map, coordinates, destination % GENERIC_SHARED, barrier, mask)


@TABLE.effects(
    *(f"cp.async.bulk.tensor.{rank}.global.shared::cta" for rank in _RANKS),
    words="tile bulk_group L2::cache_hint",
    section=f"{_SECTION}: cp.async.bulk.tensor",
)
@lane_by_lane
def store(state: AgentState, op: Op, tensor: Any, source: Any, *further: Any) -> None:
    map, coordinates = _of_global(state, op, tensor)
    tma.store(state, op, map, coordinates, source)


def _reduction(form: Form) -> Any:
    """The function for a type of elements: that of the map, and how its elements are changed."""
    how = next(word for word in REDUCTIONS.split() if word in form.words)
    return lambda element: change_of(how, element, form.domain)[1]


@TABLE.effects(
    *(f"cp.reduce.async.bulk.tensor.{rank}.global.shared::cta" for rank in _RANKS),
    words=f"tile bulk_group L2::cache_hint {REDUCTIONS}",
    section=f"{_SECTION}: cp.reduce.async.bulk.tensor",
    prepare=_reduction,
)
@lane_by_lane
def reduce(state: AgentState, op: Op, tensor: Any, source: Any, *further: Any) -> None:
    map, coordinates = _of_global(state, op, tensor)
    tma.reduce(state, op, map, coordinates, source, op.data)


@TABLE.effects("cp.async.bulk.commit_group", section=f"{_SECTION}: cp.async.bulk.commit_group")
def commit_group(state: AgentState, op: Op) -> None:
    tma.commit(state)


@TABLE.effects(
    "cp.async.bulk.wait_group",
    words="read",
    section=f"{_SECTION}: cp.async.bulk.wait_group",
    prepare=lambda form: "read" in form.words,
)
def wait_group(state: AgentState, op: Op, pending: Any) -> None:
    tma.wait(state, pending, op.data)
