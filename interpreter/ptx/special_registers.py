"""Special registers (PTX ISA, "Special Registers")."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from lowtide.interpreter.machine.agents import AgentState, Extents, coordinates
from lowtide.interpreter.machine.clusters import size_of
from lowtide.interpreter.machine.teams import WARP
from lowtide.interpreter.numbers.registers import canonical

Read: TypeAlias = Callable[[AgentState], Any]

_ALL_LANES = np.arange(WARP, dtype=np.int64)


def _by_side(name: str, read: Callable[[AgentState], tuple[Any, Any, Any]]) -> dict[str, Read]:
    """The registers name.x, name.y and name.z."""
    return {
        f"{name}.x": lambda state: read(state)[0],
        f"{name}.y": lambda state: read(state)[1],
        f"{name}.z": lambda state: read(state)[2],
    }


def _thread(state: AgentState) -> tuple[Any, Any, Any]:
    block = state.machine.sides.block
    return (state.thread, 0, 0) if block[1:] == (1, 1) else coordinates(state.thread, block)


def _cluster_of_grid(state: AgentState) -> Extents:
    return coordinates(state.cta.index // size_of(state), state.machine.sides.clusters)


def _bits(chosen: Callable[[Any], Any]) -> Read:
    """A mask of lanes, by lane: bit i of the mask of lane l is set if `chosen(i - l)`, as a signed 32-bit number."""
    distances = _ALL_LANES - _ALL_LANES[:, None]
    masks = (chosen(distances).astype(np.int64) << _ALL_LANES).sum(axis=1).astype(np.uint32).view(np.int32)
    return lambda state: masks


def _workspace(shift: int) -> Read:
    """32 bits of the address of the workspace of a cooperative launch."""
    return lambda state: int(canonical(state.machine.grid_workspace >> shift, 32))


SPECIAL: Mapping[str, Read] = MappingProxyType(
    {
        **_by_side("%tid", _thread),
        **_by_side("%ntid", lambda state: state.machine.sides.block),
        **_by_side("%ctaid", lambda state: state.machine.sides.cta(state.cta.index)),
        **_by_side("%nctaid", lambda state: state.machine.sides.grid),
        **_by_side("%clusterid", _cluster_of_grid),
        **_by_side("%nclusterid", lambda state: state.machine.sides.clusters),
        **_by_side("%cluster_ctaid", lambda state: coordinates(state.cta.rank, state.machine.sides.cluster)),
        **_by_side("%cluster_nctaid", lambda state: state.machine.sides.cluster),
        "%cluster_ctarank": lambda state: state.cta.rank,
        "%cluster_nctarank": size_of,
        "%laneid": lambda state: state.lanes,
        "%warpid": lambda state: state.warp,
        "%nwarpid": lambda state: len(state.machine.seats),
        "%lanemask_eq": _bits(lambda distance: distance == 0),
        "%lanemask_le": _bits(lambda distance: distance <= 0),
        "%lanemask_lt": _bits(lambda distance: distance < 0),
        "%lanemask_ge": _bits(lambda distance: distance >= 0),
        "%lanemask_gt": _bits(lambda distance: distance > 0),
        "%smid": lambda state: state.cta.index % state.machine.options.sms,
        "%nsmid": lambda state: state.machine.options.sms,
        "%gridid": lambda state: 0,
        "%is_explicit_cluster": lambda state: state.machine.sides.cluster != (1, 1, 1),
        "%dynamic_smem_size": lambda state: state.machine.dynamic_bytes,
        **dict.fromkeys(("%total_smem_size", "%aggr_smem_size"), lambda state: state.cta.shared.size),
        **dict.fromkeys(("%clock", "%clock64", "%globaltimer_lo"), lambda state: state.steps),
        "%globaltimer": lambda state: 0 if state.machine.options.timeless else state.steps,
        **dict.fromkeys(("%clock_hi", "%globaltimer_hi"), lambda state: 0),
        **{f"%envreg{number}": lambda state: 0 for number in range(32)},
        "%envreg1": _workspace(32),
        "%envreg2": _workspace(0),
    }
)
