"""The nvvm dialect, clusters: special registers, addresses in other CTAs' shared memory, the cluster's barrier.

The shared memory of each CTA has a window of addresses of its own, by its rank. An address in the CTA's own shared
memory (space 3) is the same in that of the cluster (space 7); `mapa` gives one in the window of another CTA.
"""

import numpy as np

from lowtide.interpreter.machine import clusters
from lowtide.interpreter.machine.agents import AgentState, Cta, Steps
from lowtide.interpreter.machine.clusters import window
from lowtide.interpreter.machine.execution import violation
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.program import DecodedOp

OPS = OpTable()


@OPS.implements("nvvm.read.ptx.sreg.cluster.ctarank")
def ctarank(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = state.cta.rank


@OPS.implements("nvvm.read.ptx.sreg.cluster.nctarank")
def nctarank(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = _size(state)


@OPS.implements("nvvm.read.ptx.sreg.clusterid.x")
def clusterid_x(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = state.cta.index // _size(state)


@OPS.implements("nvvm.read.ptx.sreg.nclusterid.x")
def nclusterid_x(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = state.machine.grid // _size(state)


def _size(state: AgentState) -> int:
    return len(state.cta.cluster.ctas)


@OPS.implements("nvvm.mapa")
def mapa(state: AgentState, op: DecodedOp) -> None:
    """The address, in the shared memory of the CTA of a rank, that a pointer is in the CTA's own (PTX ISA, "mapa")."""
    pointer, rank = (state.values[slot] for slot in op.operands)
    ranks = np.broadcast_to(np.asarray(rank, np.int64), state.lanes.shape)
    active = ranks if state.mask is None else ranks[state.mask]
    if ((active < 0) | (active >= _size(state))).any():
        raise violation(state, op, f"there is no CTA {int(active.max())} in a cluster of {_size(state)}")
    state.values[op.results[0]] = pointer % window(1) + ranks * window(1)


def owner(state: AgentState, pointer: int) -> Cta:
    """The CTA of the cluster into whose shared memory a pointer of space 3 or 7 points."""
    found: Cta = state.cta.cluster.ctas[pointer // window(1)]
    return found


def address_in(cta: Cta, pointer: int) -> int:
    """The address in a CTA's shared memory that a pointer is in that of another."""
    return pointer % window(1) + window(cta.rank)


def receivers(state: AgentState, op: DecodedOp, mask: int) -> list[Cta]:
    """The CTAs of the cluster whose bits are set in a multicast's mask (16 bits)."""
    bits = mask & 0xFFFF
    if not bits or bits >> _size(state):
        raise violation(state, op, f"a multicast to the CTAs of mask {bits:#b}, in a cluster of {_size(state)}")
    return [cta for cta in state.cta.cluster.ctas if bits >> cta.rank & 1]


@OPS.implements("nvvm.cluster.arrive", "nvvm.cluster.arrive.relaxed")
def cluster_arrive(state: AgentState, op: DecodedOp) -> None:
    clusters.arrive(state, op, is_relaxed=op.name.endswith("relaxed"))


@OPS.implements("nvvm.cluster.wait")
def cluster_wait(state: AgentState, op: DecodedOp) -> Steps:
    yield from clusters.wait(state, op)
