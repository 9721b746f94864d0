"""The sm dialect, Hopper: roles, mbarriers, TMA and asynchronous wgmma."""

from dataclasses import replace
from typing import Any

import numpy as np
from mlir import ir

from lowtide.dialects.sm import ClusterLine
from lowtide.errors import InterpreterError
from lowtide.interpreter.machine import async_arrivals, clusters, map_fields, map_objects, mbarriers, tensor_maps
from lowtide.interpreter.machine.agents import AgentState, Cta, Steps
from lowtide.interpreter.machine.barriers import barrier, together
from lowtide.interpreter.machine.execution import run_block
from lowtide.interpreter.machine.lanes import active_lane_numbers
from lowtide.interpreter.machine.mbarriers import Mbarrier
from lowtide.interpreter.machine.shared_buffers import reserve, store_buffer
from lowtide.interpreter.machine.teams import COPIERS, PRODUCER, WARP, WARPGROUP
from lowtide.interpreter.machine.views import Scope
from lowtide.interpreter.ops.tile_operands import matrix_at
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.ir_types import decode_type
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.program import DecodedBlock, Program, RingUsers, Role

OPS = OpTable()

# Roles ----------------------------------------------------------------------------------------------------------------


def _prepare_roles(op: DecodedOp, program: Program) -> Any:
    if program.roles or op.source.parent.name != "tile.kernel":
        raise InterpreterError(f"{op.describe()}: a kernel has one sm.roles, outermost in it [one-roles]")
    names, warps = op.attributes["names"], op.attributes["warps"]
    instances = op.attributes.get("instances", (1,) * len(names))
    by_warp = map(_multiplies_by_warp, op.regions)
    program.roles = tuple(Role(*role) for role in zip(names, warps, instances, by_warp, strict=True))
    for index, region in enumerate(op.regions):
        _note_rings(program, region, index)


def _multiplies_by_warp(block: DecodedBlock) -> bool:
    """Whether the products of a role are those of warps."""
    return any(op.name == "sm.mma_sync" or any(map(_multiplies_by_warp, op.regions)) for op in block.ops)


def _note_rings(program: Program, block: DecodedBlock, role: int) -> None:
    """The rings that the role of this block fills and reads."""
    for op in block.ops:
        if op.name == "sm.producer_acquire":
            program.ring_users.setdefault(op.operands[0], RingUsers()).producers.add(role)
        elif op.name == "sm.consumer_wait":
            program.ring_users.setdefault(op.operands[0], RingUsers()).consumers.add(role)
        for region in op.regions:
            _note_rings(program, region, role)


@OPS.implements("sm.roles", prepare=_prepare_roles)
def roles(state: AgentState, op: DecodedOp) -> Steps:
    """Each agent runs its role's region; the following ops wait for all of them."""
    assert state.seat.role is not None
    state.enter_role()
    yield from run_block(state, op.regions[state.seat.role])
    state.leave_role()
    state.op = op
    yield from barrier(state, op, "after sm.roles")


@OPS.implements("sm.role_instance")
def role_instance(state: AgentState, op: DecodedOp) -> None:
    state.values[op.results[0]] = state.seat.instance


def _operand_groups(op: DecodedOp, program: Program) -> list[tuple[int, ...]]:
    return op.operand_groups()


# mbarriers ------------------------------------------------------------------------------------------------------------


def _prepare_mbarriers(op: DecodedOp, program: Program) -> Any:
    """(offset, name)."""
    type, name = op.result_types[0], op.name_in(program)
    size = type.count * mbarriers.OBJECT_BYTES
    at = reserve(op, program, name, size, op.attributes.get("at"), mbarriers.OBJECT_BYTES)
    if at % mbarriers.OBJECT_BYTES:
        raise InterpreterError(
            f"{op.describe()}: mbarriers must be at multiples of {mbarriers.OBJECT_BYTES} bytes [mbarriers-offset]"
        )
    return at, name


@OPS.implements("sm.mbarriers", prepare=_prepare_mbarriers)
def make_mbarriers(state: AgentState, op: DecodedOp) -> None:
    type, slot, made = op.result_types[0], op.results[0], state.cta.mbarriers
    if state.team is not state.cta.everyone:
        raise state.violation(
            op, "all threads of the CTA must see the mbarriers initialised; make them before sm.roles [mbarriers-made]"
        )
    if slot not in made:
        at, name = op.data
        names = (f"{name}[{index}]" for index in range(type.count))
        made[slot] = [Mbarrier.of(each, op.attributes["arrivals"], state.cta, clusters.born(state)) for each in names]
        state.cta.shared.claim(name, at, type.count * mbarriers.OBJECT_BYTES)
    state.values[slot] = made[slot]


def _mbarrier(state: AgentState, op: DecodedOp, slots: tuple[int, ...]) -> Mbarrier:
    barriers, index = (state.values[slot] for slot in slots)
    if not 0 <= index < len(barriers):
        raise state.violation(op, f"mbarrier {index} of {len(barriers)}; take 0 … {len(barriers) - 1} [mbarrier-index]")
    found: Mbarrier = barriers[index]
    return found


def _mbarriers(state: AgentState, op: DecodedOp, slots: tuple[int, ...], line: ClusterLine | None) -> list[Mbarrier]:
    """The mbarrier with the op's index in each CTA of a row or column of the cluster, or of both; in the agent's own
    CTA without a line."""
    _mbarrier(state, op, slots)
    index = state.values[slots[1]]

    def find(cta: Cta) -> Mbarrier | None:
        made = cta.mbarriers.get(slots[0])
        return None if made is None else made[index]

    rows, columns = (ClusterLine.row, ClusterLine.cross), (ClusterLine.column, ClusterLine.cross)
    members = state.cta.cluster.members(state.cta.rank, line in rows, line in columns)
    return [clusters.reach(state, op, cta, find) for cta in members]


def _line(op: DecodedOp, name: str) -> ClusterLine | None:
    number = op.attributes.get(name)
    return None if number is None else ClusterLine(number)


@OPS.implements("sm.cluster_barrier")
def cluster_barrier(state: AgentState, op: DecodedOp) -> Steps:
    if state.team is not state.cta.everyone:
        raise state.violation(
            op, "all threads of the CTA meet those of the others; meet outside sm.roles [cluster-barrier-place]"
        )
    clusters.arrive(state, op)
    yield from clusters.wait(state, op)


@OPS.implements("sm.mbarrier_wait")
def mbarrier_wait(state: AgentState, op: DecodedOp) -> Steps:
    together(state, op)
    yield from mbarriers.wait(state, op, _mbarrier(state, op, op.operands[:2]), state.values[op.operands[2]])


def _check_role(state: AgentState, op: DecodedOp) -> None:
    if state.team is state.cta.everyone:
        raise state.violation(op, "threads of a role arrive; arrive inside sm.roles [arrive-in-role]")


@OPS.implements("sm.mbarrier_arrive", prepare=_operand_groups)
def mbarrier_arrive(state: AgentState, op: DecodedOp) -> None:
    together(state, op)
    _check_role(state, op)
    expected, each_warp = op.attributes.get("bytes", 0), op.attributes.get("each_warp", False)
    *_, more, _ = op.data
    expected += sum(state.values[slot] for slot in more)
    if not each_warp and state.seat.first % (WARP * WARPGROUP):
        return  # a warp; the first of its warpgroup arrives
    each = state.seat.arrivals * (len(state.lanes) // WARP if each_warp else 1)
    for found in _mbarriers(state, op, op.operands[:2], _line(op, "receivers")):
        mbarriers.arrive(state, op, found, each, expected * state.seat.arrivals)


@OPS.implements("sm.cp_async_arrive")
def cp_async_arrive(state: AgentState, op: DecodedOp) -> None:
    _check_role(state, op)
    async_arrivals.arrive(state, op, _mbarrier(state, op, op.operands[:2]), is_counted=True)


# TMA ------------------------------------------------------------------------------------------------------------------


@OPS.implements("sm.tensor_map")
def tensor_map(state: AgentState, op: DecodedOp) -> None:
    type, (matrix, *rows) = op.result_types[0], (state.values[slot] for slot in op.operands)
    box = type.shape
    if rows:
        if not 1 <= rows[0] <= box[-2]:
            raise state.violation(op, f"has boxes of {rows[0]} rows; take 1 to {box[-2]}, as in its type [map-rows]")
        box = (*box[:-2], rows[0], box[-1])
    found = tensor_maps.encode(state, op, matrix, box, type.swizzle, ragged="ragged" in op.attributes)
    state.values[op.results[0]] = found


def _prepare_make_maps(op: DecodedOp, program: Program) -> Any:
    return decode_type(ir.TypeAttr(op.source.attributes["map_type"]).value)


@OPS.effects("sm.make_maps", prepare=_prepare_make_maps)
def make_maps(state: AgentState, op: DecodedOp, maps: Any, matrices: Any, scratch: Any) -> None:
    """One agent of a CTA makes the map of the matrix with the CTA's number."""
    if state.warp != state.team.members[0]:
        return
    number, type = state.cta.index, op.data
    matrix = matrix_at(state, op, matrices, number)
    if matrix.shape[0] <= 1 or not all(matrix.shape):  # no load uses the stride, but a map must have a legal one
        matrix = replace(matrix, strides=(tensor_maps.UNIT // matrix.element.bytes,))
    if not all(matrix.shape):  # a map has at least one element; loads are outside of it
        matrix = replace(matrix, address=matrices.address, shape=tuple(max(1, each) for each in matrix.shape))
    found = tensor_maps.encode(state, op, matrix, type.shape, type.swizzle)
    map_objects.write(state, op, maps.address + number * map_fields.BYTES, found)


@OPS.effects("sm.listed_map")
def listed_map(state: AgentState, op: DecodedOp, maps: Any, number: Any) -> Any:
    """An acquire fence, and then the map as the tensormap proxy sees it."""
    address = maps.address + number * map_fields.BYTES
    map_objects.acquire(state, (address, active_lane_numbers(state)[0]), Scope.gpu)
    return map_objects.used(state, op, address)


def _loads_by_tma(state: AgentState, op: DecodedOp) -> bool:
    """Whether the agent is in a role that fills slots. Otherwise it must be a warpgroup, which loads its share of the
    rows. Raises InterpreterError for any other agent."""
    role = state.seat.role
    if role is not None and state.team is not state.cta.everyone:
        if state.machine.roles[role].name in (PRODUCER, COPIERS):
            return True
        if len(state.lanes) > WARP:
            return False
    raise state.violation(
        op,
        "one thread starts a copy by TMA; start it in a producer role, which is one thread, or in a role of warpgroups "
        "[load-by-producer]",
    )


@OPS.implements("sm.tma_load", prepare=_operand_groups)
def tma_load(state: AgentState, op: DecodedOp) -> None:
    together(state, op)
    is_filler = _loads_by_tma(state, op)
    (map,), batch, row, column, rows, (buffer,), *_ = ([state.values[slot] for slot in group] for group in op.data)
    buffer.check(state, op, "write")
    found = _mbarriers(state, op, op.operands[-2:], _line(op, "multicast"))
    share = None if rows else (next(at for at, barrier in enumerate(found) if barrier.home is state.cta), len(found))
    if not is_filler:  # each warpgroup loads its share of the rows
        members = state.team.members
        share = members.index(state.warp), len(members)
    if rows and rows[0] != map.tile[0]:
        raise state.violation(
            op, f"loads {rows[0]} rows in boxes of {map.tile[0]}; take a map with boxes of {rows[0]} rows [load-rows]"
        )
    origin: tuple[int, ...] = (*batch, *row, *column)
    if "ragged" in op.attributes:
        origin = tensor_maps.ragged_corner(*batch, *row, *column)
    tensor_maps.load_tile(state, op, map, origin, buffer.type.shape, buffer.address, found, share)


@OPS.effects("sm.zero_rows")
def zero_rows(state: AgentState, op: DecodedOp, ring: Any, *firsts: Any) -> None:
    """Each agent writes its share of the zeros, and then fences the async proxy."""
    if state.team is not state.cta.everyone:
        raise state.violation(
            op, "must be executed by all threads of the CTA; write it and a barrier before sm.roles [zero-rows-place]"
        )
    for index in range(ring.type.stages):
        for buffer, first in zip(ring.buffers(index), firsts, strict=False):
            zeros = np.zeros(buffer.type.shape, state.machine.domain.payload)
            store_buffer(state, op, buffer, zeros, first)
    state.cta.shared.fence_proxy(state.access(op))
