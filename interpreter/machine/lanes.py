"""Conversion between an agent's values, uniform or by lane, and memory's rows: one address for each active lane."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.numbers.accesses import Access, Described, Ints
from lowtide.interpreter.numbers.cells import Cells
from lowtide.interpreter.numbers.packed import Mixed
from lowtide.interpreter.program.batches import NotTogether
from lowtide.interpreter.program.types import Pointer, Type

GLOBAL, SHARED = 1, 3


def memory_of(state: AgentState, op: Described, type: Type, address: Any) -> Cells:
    """The memory that a pointer addresses; for a generic one, by its value."""
    space = type.space if isinstance(type, Pointer) else 0
    if space == GLOBAL:
        return state.machine.memory
    if space == SHARED:
        return state.cta.shared
    if space != 0:
        raise state.violation(
            op, f"address space {space} is not interpreted; known are 0 generic, 1 global, 3 shared [address-space]"
        )
    in_global = np.min(address, initial=2**62) >= state.machine.memory.origin
    return state.machine.memory if in_global else state.cta.shared


def active_rows(state: AgentState, op: Described, address: Any) -> tuple[Access, Ints]:
    """The addresses of the active lanes, (n,), and the access.

    A uniform address that all lanes read is one row for each warp, accessed by the warp as a whole.
    """
    if not isinstance(address, np.ndarray):
        if state.mask is None:
            return state.access_by_warps((op,), 1), np.full(state.warps, address, np.int64)
        address = np.full(len(state.lanes), address, np.int64)
    lanes = state.lanes
    if state.mask is not None:
        lanes, address = lanes[state.mask], address[state.mask]
    return state.access(op, lanes), address


def rows_together(state: AgentState, ops: Sequence[Any], addresses: Sequence[Any]) -> tuple[Access, Ints]:
    """As `active_rows`, for ops that run as one, op after op. Raises NotTogether if their lanes differ."""
    if any(not isinstance(address, np.ndarray) for address in addresses):
        if state.mask is None and not ops[0].acts:  # a row of the whole warp
            raise NotTogether
        addresses = [by_lane(address, len(state.lanes)) for address in addresses]
    lanes = state.lanes
    if state.mask is not None:
        lanes, addresses = lanes[state.mask], [address[state.mask] for address in addresses]
    if len(ops) == 1:
        return state.access_of(ops, lanes), addresses[0]
    return state.access_of(ops, np.concatenate([lanes] * len(addresses))), np.concatenate(addresses)


def disjoint(cells: Cells, access: Access, rows: Ints, size: int, align: int | None = None) -> None:
    """Raises NotTogether if these rows of `size` bytes overlap and several ops or warps access them."""
    if (access.ops or access.warps is not None) and not cells.span(access, rows, size, align).is_disjoint:
        raise NotTogether


def uniform(state: AgentState, op: Described, value: Any) -> int:
    """The common value of the active lanes. Raises InterpreterError if they differ."""
    if not isinstance(value, np.ndarray):
        return int(value)
    values = value if state.mask is None else value[state.mask]
    if np.count_nonzero(values != values[0]):
        given = np.unique(values).tolist()
        raise state.violation(op, f"the lanes of the warp give different values {given}; give one [uniform-values]")
    return int(values[0])


def of_active(state: AgentState, value: Any) -> Any:
    """The value without the parts that only inactive lanes have; still mixed if active lanes have different parts."""
    active = np.ones(len(state.lanes), np.bool_) if state.mask is None else state.mask
    while isinstance(value, Mixed):  # a part may be mixed too
        held = [part for lanes, part in value.parts() if (lanes & active).any()]
        if len(held) > 1:
            break
        (value,) = held
    return value


def active_lanes(state: AgentState) -> int:
    """The number of lanes that execute the op."""
    return len(state.lanes) if state.mask is None else int(state.mask.sum())


def spread(state: AgentState, rows: Any) -> Any:
    """Rows (…, n, k) of the active lanes as rows of all lanes; a single row of the whole warp stays uniform."""
    if state.mask is None:
        return rows
    result = np.zeros((*rows.shape[:-2], len(state.lanes), rows.shape[-1]), rows.dtype)
    result[..., state.mask, :] = rows
    return result


def whole_warp(state: AgentState, op: Described) -> None:
    """Raises InterpreterError in divergent code, for instructions that all lanes execute together."""
    if state.mask is not None:
        missing = np.flatnonzero(~state.mask).tolist()
        raise state.violation(
            op, f"all 32 lanes must execute it together (.sync.aligned); lanes {missing} do not [warp-aligned]"
        )


def one_lane(state: AgentState, op: Described, what: str) -> None:
    """Raises InterpreterError unless one thread executes the op; `what` is the action of the lanes, as a verb."""
    if (count := active_lanes(state)) != 1:
        raise state.violation(op, f"{count} lanes {what}; one thread does: elect it [one-thread]")


def active_lane_numbers(state: AgentState) -> list[int]:
    """The active lanes."""
    lanes = state.lanes if state.mask is None else state.lanes[state.mask]
    return [int(lane) for lane in lanes]


def by_lane(value: Any, lanes: int = 32) -> Any:
    """A uniform integer as an array (lanes,); other values unchanged."""
    return value if isinstance(value, np.ndarray) else np.full(lanes, value, np.int64)
