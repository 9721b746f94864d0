"""Collective actions of the agents of a CTA: ops that all threads execute, and barriers."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.interpreter.machine.agents import AgentState, Barrier, Cta, Steps, Wait
from lowtide.interpreter.machine.members import confirm_none_ended, groups_of
from lowtide.interpreter.machine.teams import WARP
from lowtide.interpreter.numbers.accesses import Described


def together(state: AgentState, op: Described) -> None:
    """Raise InterpreterError in divergent code, for an op that all threads of the agent execute together."""
    if missing := state.missing:
        raise state.violation(
            op,
            f"all threads must execute it together; lanes {missing} do not: take it out of the branch"
            " [executed-together]",
        )


def all_arrive(state: AgentState, op: Described) -> None:
    """Raise InterpreterError if some lanes of the agent do not arrive at a barrier with the others."""
    if missing := state.missing:
        raise state.violation(op, f"a barrier in divergent code: lanes {missing} do not arrive [barrier-divergent]")


def barrier(state: AgentState, op: Described, identifier: int | str = 0, warps: int | None = None) -> Steps:
    """bar.sync: wait until `warps` agents (all of the team by default) have arrived (PTX ISA, "bar, barrier").

    Orders all accesses of these agents to shared and global memory. Raises InterpreterError in divergent code.
    """
    all_arrive(state, op)
    cta, members = state.cta, state.team.members
    expected = warps or len(members)
    name = f"{identifier}" if state.team is cta.everyone else f"{identifier} of role {state.team.name}"
    gate = cta.barriers.setdefault(name, Barrier())
    gate.arrived[state.warp] = op
    order = state.machine.order
    if order is not None:
        order.enter(cta.index, name, state.warp, expected, op)
    if len(gate.arrived) >= expected:
        if order is not None:
            order.meet([(cta.index, agent) for agent in gate.arrived])
        cta.shared.barrier(sorted(gate.arrived))
        gate.arrived = {}
        gate.rounds += 1
        yield Wait(lambda: True, lambda: "")
        return
    mine = gate.rounds

    def why() -> str:
        missing = sorted(set(members) - set(gate.arrived))
        names = ", ".join(name_with_end(cta, warp) for warp in missing)
        kind = "agents" if state.machine.roles else "warps"
        return f"barrier {name}: {len(gate.arrived)} of {expected} {kind} have arrived, not {names}"

    yield Wait(lambda: gate.rounds > mine, why)


def warp_barrier(state: AgentState, op: Described, members: Any) -> None:
    """bar.warp.sync: orders the lanes of a warp that execute it. Its other lanes, in another branch, count as ordered
    too."""
    groups_of(state, op, members)
    confirm_none_ended(state, op, members)
    state.cta.shared.warp_sync(state.warp)


def elect(state: AgentState, op: Described, members: Any = -1) -> NDArray[np.bool_]:
    """elect.sync: true for one lane of each member mask, after it waits for all of them; here, the first."""
    groups = groups_of(state, op, members)
    if groups is None:
        return state.lanes == 0
    confirm_none_ended(state, op, members)
    found: NDArray[np.bool_] = groups.any(axis=1) & (groups.argmax(axis=1) == state.lanes)
    return found


def name_with_end(cta: Cta, agent: int) -> str:
    """An agent's name, and whether it or its role has ended."""
    has_ended = agent in cta.ended or agent in cta.role_ended
    return f"{cta.machine.seats[agent].name}{' (ended)' if has_ended else ''}"


def by_warp(state: AgentState, op: Described) -> None:
    """Raise InterpreterError for an op of a warp in a role whose agents are not warps."""
    if state.seat.lanes != WARP:
        raise state.violation(
            op, "is for warps, but the agents of this role are not warps; take an op for this role [no-role-here]"
        )
