"""The sm dialect: stores by TMA, the ops that order them, and barriers of a warpgroup."""

from itertools import product

from lowtide.interpreter.machine import tensor_stores
from lowtide.interpreter.machine.agents import AgentState, Steps
from lowtide.interpreter.machine.barriers import barrier, together
from lowtide.interpreter.machine.teams import PRODUCER, WARP, WARPGROUP
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.op_table import OpTable

OPS = OpTable()


@OPS.implements("sm.barrier")
def barrier_(state: AgentState, op: DecodedOp) -> Steps:
    if not op.attributes.get("warpgroup", False):
        yield from barrier(state, op)
    elif state.seat.role is None and not state.machine.collective:
        yield from barrier(state, op, f"of warpgroup {state.warp // WARPGROUP}", WARPGROUP)
    else:  # the agent is a warpgroup, or several: its own accesses are ordered
        together(state, op)
        state.cta.shared.barrier([state.warp])


@OPS.implements("sm.fence_proxy_async")
def fence_proxy_async(state: AgentState, op: DecodedOp) -> None:
    together(state, op)
    state.cta.shared.fence_proxy(state.access(op))


@OPS.implements("sm.tma_store")
def tma_store(state: AgentState, op: DecodedOp) -> None:
    """Store the agent's share of the buffer's rows. Consecutive boxes in the buffer go down the rows, then across; if
    columns are contiguous, across, then down."""
    together(state, op)
    _check_role(state, op)
    buffer, map, *matrix, row, column = (state.values[slot] for slot in op.operands)
    buffer.check(state, op, "read")
    (rows, columns), (box_rows, box_columns) = op.operand_types[0].shape, map.tile
    members = state.team.members
    own = rows // len(members)
    first = own * members.index(state.warp)
    if rows % len(members) or own % box_rows:
        raise state.violation(
            op, f"{rows} rows for {len(members)} warpgroups are not whole boxes of {box_rows} for each [store-rows]"
        )
    address, places = buffer.address, list(product(range(0, columns, box_columns), range(0, rows, box_rows)))
    places = sorted(places, key=lambda place: place[1]) if map.matrix.is_column_major else places
    for right, down in places:
        if first <= down < first + own:
            corner = map.corner(*matrix, row + down, column + right)
            tensor_stores.store_box(state, op, map, corner, address)
        address += map.bytes
    tensor_stores.commit(state)


@OPS.implements("sm.tma_store_wait")
def tma_store_wait(state: AgentState, op: DecodedOp) -> None:
    together(state, op)
    _check_role(state, op)
    tensor_stores.wait(state, op.attributes["pending"], bool(op.attributes.get("read", False)))


def _check_role(state: AgentState, op: DecodedOp) -> None:
    role = state.seat.role
    is_warpgroup = role is not None and state.team is not state.cta.everyone and len(state.lanes) > WARP
    if not is_warpgroup or (role is not None and state.machine.roles[role].name == PRODUCER):
        raise state.violation(
            op, "each warpgroup stores by TMA for itself; do it in a consumer role [store-by-consumer]"
        )
