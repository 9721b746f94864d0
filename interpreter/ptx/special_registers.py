"""Special registers (PTX ISA, "Special Registers"), of launches in one dimension."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.clusters import size_of

SPECIAL: Mapping[str, Callable[[AgentState], Any]] = MappingProxyType(
    {
        "%tid.x": lambda state: state.thread,
        "%laneid": lambda state: state.lanes,
        "%warpid": lambda state: state.warp,
        "%ntid.x": lambda state: state.machine.threads,
        "%ctaid.x": lambda state: state.cta.index,
        "%nctaid.x": lambda state: state.machine.grid,
        "%clusterid.x": lambda state: state.cta.index // size_of(state),
        "%nclusterid.x": lambda state: state.machine.grid // size_of(state),
        "%cluster_ctarank": lambda state: state.cta.rank,
        "%cluster_nctarank": size_of,
        "%cluster_ctaid.x": lambda state: state.cta.rank,
        "%cluster_nctaid.x": size_of,
        "WARP_SZ": lambda state: 32,
        **dict.fromkeys(("%tid.y", "%tid.z", "%ctaid.y", "%ctaid.z"), lambda state: 0),
        **dict.fromkeys(("%ntid.y", "%ntid.z", "%nctaid.y", "%nctaid.z"), lambda state: 1),
    }
)
