"""State spaces of instructions, and generic addresses (PTX ISA, "State Spaces", "Generic Addressing")."""

from collections.abc import Callable
from typing import Any

import numpy as np

from lowtide.errors import NotInterpreted
from lowtide.interpreter.machine import remote_memory
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.parameters import inside_parameters
from lowtide.interpreter.machine.variables import local_rows
from lowtide.interpreter.numbers.blending import blend
from lowtide.interpreter.numbers.cells import Cells
from lowtide.interpreter.program.batches import NotTogether
from lowtide.interpreter.ptx.moves import GENERIC_LOCAL, GENERIC_SHARED
from lowtide.interpreter.ptx.running import Op
from lowtide.interpreter.ptx.table import Form

_NAMED = ("global", "shared", "local", "const")
_WINDOWS = (("global", 0), ("shared", GENERIC_SHARED), ("local", GENERIC_LOCAL))


def space_of(form: Form) -> str:
    """The state space of an instruction: "global", "shared", "cluster", "local", "const", "" for generic addresses."""
    if "shared::cluster" in form.words:
        return "cluster"
    return next((word.partition("::")[0] for word in form.words if word.partition("::")[0] in _NAMED), "")


def cells_of(state: AgentState, op: Op, space: str, address: Any) -> tuple[Cells, Any]:
    """The memory of a state space, and the address in it. A generic address determines its space."""
    if not space:
        first, last = _windows(state, address)
        if first is not last:
            raise state.violation(
                op,
                "lanes access memory of several state spaces in one instruction; split it [mixed-spaces]",
                NotInterpreted,
            )
        space, start = first
        address = address - start
    if space == "local":
        return local_rows(state, op, address)
    if space == "param":
        return state.machine.memory, inside_parameters(state, op, address)
    home = state.cta if state.remote is None else state.remote[0]
    return (home.shared if space in ("shared", "cluster") else state.machine.memory), address


def _windows(state: AgentState, address: Any) -> tuple[tuple[str, int], tuple[str, int]]:
    """The state spaces of the lowest and the highest generic address of the active lanes, with their starts."""
    rows = np.asarray(address)
    active = rows if rows.ndim == 0 or state.mask is None else rows[state.mask]
    low, high = int(active.min()), int(active.max())
    first, last = ((each >= GENERIC_SHARED) + (each >= GENERIC_LOCAL) for each in (low, high))
    return _WINDOWS[first], _WINDOWS[last]


def by_memory(
    state: AgentState, op: Op, space: str, address: Any, access: Callable[[str, Any], Any]
) -> tuple[bool, Any]:
    """If lanes address shared memory of other CTAs, or several state spaces: run an access for each such memory, with
    its lanes active. `access` takes a state space and addresses in it, and returns the loaded registers, if any: one,
    or a tuple. Returns whether it has run, and the registers.
    """
    if state.remote is not None or space not in ("", "cluster"):
        return False, None
    results: list[Any] = []

    def part(space: str, address: Any) -> tuple[Any, ...]:
        results.append(access(space, address))
        return results[-1] if isinstance(results[-1], tuple) else (results[-1],)

    if not space:
        (first, _), (last, _) = _windows(state, address)
        if first != last:
            found = _by_space(state, address, part)
            return True, found if isinstance(results[-1], tuple) else found[0]
        if first != "shared":
            return False, None
        address = address - GENERIC_SHARED
    if not remote_memory.reaches(state, address):
        return False, None
    found = remote_memory.by_owner(state, op, address, lambda: part("shared", address))
    return True, found if isinstance(results[-1], tuple) else found[0]


def _by_space(state: AgentState, address: Any, access: Callable[[str, Any], tuple[Any, ...]]) -> tuple[Any, ...]:
    """Run an access by generic addresses once for each state space. Raises NotTogether for several warps."""
    if state.warps > 1:
        raise NotTogether
    outer, found = state.mask, None
    active = np.ones(len(state.lanes), np.bool_) if outer is None else outer
    windows = (address >= GENERIC_SHARED).astype(int) + (address >= GENERIC_LOCAL)
    try:
        for window in np.unique(windows[active]).tolist():
            state.mask = active & (windows == window)
            made = access("", address)
            pairs = zip(made, made if found is None else found, strict=True)
            found = tuple(blend(state.mask, new, old) for new, old in pairs)
    finally:
        state.mask = outer
    return found or ()
