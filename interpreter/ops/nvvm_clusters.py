"""The nvvm dialect, clusters: special registers, addresses in other CTAs' shared memory, the cluster's barrier.

The shared memory of each CTA has a window of addresses of its own, by its rank. An address in the CTA's own shared
memory (space 3) is the same in that of the cluster (space 7); `mapa` gives one in the window of another CTA.
"""

from lowtide.interpreter.machine import clusters
from lowtide.interpreter.machine.agents import AgentState, Steps
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.program import DecodedOp

OPS = OpTable()


@OPS.implements("nvvm.read.ptx.sreg.cluster.ctarank")
def ctarank(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = state.cta.rank


@OPS.implements("nvvm.read.ptx.sreg.cluster.nctarank")
def nctarank(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = clusters.size_of(state)


@OPS.implements("nvvm.read.ptx.sreg.clusterid.x")
def clusterid_x(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = state.cta.index // clusters.size_of(state)


@OPS.implements("nvvm.read.ptx.sreg.nclusterid.x")
def nclusterid_x(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = state.machine.grid // clusters.size_of(state)


@OPS.implements("nvvm.mapa")
def mapa(state: AgentState, op: DecodedOp) -> None:
    pointer, rank = (state.values[slot] for slot in op.operands)
    state.values[op.results[0]] = clusters.mapped(state, pointer, rank)


@OPS.implements("nvvm.cluster.arrive", "nvvm.cluster.arrive.relaxed")
def cluster_arrive(state: AgentState, op: DecodedOp) -> None:
    clusters.arrive(state, op, is_relaxed=op.name.endswith("relaxed"))


@OPS.implements("nvvm.cluster.wait")
def cluster_wait(state: AgentState, op: DecodedOp) -> Steps:
    yield from clusters.wait(state, op)
