"""Barriers, fences, mbarriers, clusters, registers between warps.

PTX ISA, "Parallel Synchronization and Communication Instructions", "Miscellaneous Instructions".
"""

from typing import Any

from lowtide.interpreter.machine import clusters, mbarrier_objects, tma
from lowtide.interpreter.machine.agents import AgentState, Steps, Wait, registers_that_fit
from lowtide.interpreter.machine.teams import WARP
from lowtide.interpreter.machine.warpgroups import meet
from lowtide.interpreter.ptx.running import Op
from lowtide.interpreter.ptx.table import Table

TABLE = Table()

_SECTION = "Parallel Synchronization and Communication Instructions"


@TABLE.effects(
    "barrier.cluster.arrive",
    words="release relaxed aligned",
    section=f"{_SECTION}: barrier.cluster",
    prepare=lambda form: "relaxed" in form.words,
)
def cluster_arrive(state: AgentState, op: Op) -> None:
    clusters.arrive(state, op, is_relaxed=op.data)


TABLE.effects("barrier.cluster.wait", words="acquire aligned", section=f"{_SECTION}: barrier.cluster")(clusters.wait)


# Fences ---------------------------------------------------------------------------------------------------------------


@TABLE.effects(
    "fence.proxy.async",
    "membar.proxy.async",
    words="global",
    section=f"{_SECTION}: membar, fence",
    prepare=lambda form: "global" in form.words,
)
def fence_proxy(state: AgentState, op: Op) -> None:
    """A fence of global memory alone does not affect shared memory."""
    state.machine.memory.fence_proxy(state.cta.index, state.warp)
    if not op.data:
        tma.fence_proxy(state, op)


@TABLE.effects(
    *(f"{name}.proxy.async.shared::{space}" for name in ("fence", "membar") for space in ("cta", "cluster")),
    section=f"{_SECTION}: membar, fence",
)
def fence_proxy_shared(state: AgentState, op: Op) -> None:
    tma.fence_proxy(state, op)


@TABLE.effects("fence.proxy.alias", "membar.proxy.alias", section=f"{_SECTION}: membar, fence", acts=False)
def fence_alias(state: AgentState, op: Op) -> None:
    """There are no virtual aliases of an address, so there is nothing to order."""


@TABLE.effects("fence.mbarrier_init", words="release cluster", section=f"{_SECTION}: membar, fence")
def fence_mbarrier_init(state: AgentState, op: Op) -> None:
    mbarrier_objects.show_initialised(state)


# Threads, registers, launches -----------------------------------------------------------------------------------------

_MISCELLANEOUS = "Miscellaneous Instructions"


@TABLE.effects("setmaxnreg.inc", "setmaxnreg.dec", words="sync aligned u32", section=f"{_MISCELLANEOUS}: setmaxnreg")
def setmaxnreg(state: AgentState, op: Op, wanted: Any) -> Steps:
    """Change the registers of the warp. An increase waits until other warps of the CTA have given enough back.

    At entry each thread has the number that the kernel gives, or the largest multiple of eight that fits.
    """
    meet(state, op)
    cta, is_increase = state.cta, op.instruction.name.startswith("setmaxnreg.inc")
    held = cta.registers.get(state.warp, state.machine.registers or registers_that_fit(state.machine.threads))
    if (wanted < held) if is_increase else (wanted > held):
        action = "increase" if is_increase else "decrease"
        raise state.violation(
            op, f"asks for {wanted} registers per thread, but each has {held}: that is no {action} [setmaxnreg-action]"
        )
    needed = (wanted - held) * WARP
    if needed > 0:
        yield Wait(
            lambda: cta.free_registers >= needed,
            lambda: f"for {needed} registers of the CTA, which has {cta.free_registers} free",
        )
    cta.free_registers -= needed
    cta.registers[state.warp] = wanted


@TABLE.effects("griddepcontrol.wait", section=f"{_SECTION}: griddepcontrol")
def griddepcontrol_wait(state: AgentState, op: Op) -> None:
    lanes = None if state.mask is None or state.mask.all() else state.lanes[state.mask]
    state.machine.memory.earlier_kernels_ended(state.cta.index, state.warp, lanes)


@TABLE.effects("griddepcontrol.launch_dependents", section=f"{_SECTION}: griddepcontrol")
def griddepcontrol_launch(state: AgentState, op: Op) -> None:
    """A next kernel that starts early waits for this one before it accesses memory, so its start changes nothing."""


@TABLE.effects("nanosleep", words="u32", section=f"{_MISCELLANEOUS}: nanosleep", acts=False)
def nanosleep(state: AgentState, op: Op, time: Any) -> None:
    """Time is not modelled."""
