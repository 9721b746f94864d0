"""The sm dialect, memory: buffers and rings in shared memory, copies into them."""

from typing import Any

import numpy as np
from mlir import ir

from lowtide.interpreter.machine import rings
from lowtide.interpreter.machine.agents import AgentState, Steps
from lowtide.interpreter.machine.barriers import together
from lowtide.interpreter.machine.matrices import is_inside, load_window, resolved
from lowtide.interpreter.machine.memory import start_copy
from lowtide.interpreter.machine.shared_buffers import SharedBuffer, alignment_of, reserve, store_buffer
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.program import Program, RingUsers

OPS = OpTable()

INSTANCE_UNIT = 1024  # bytes: the distance between the buffers of a role's instances is a multiple of it


# Buffers --------------------------------------------------------------------------------------------------------------


def _prepare_alloc(op: DecodedOp, program: Program) -> Any:
    """(start of the first instance's buffer, distance to the next)."""
    type = op.result_types[0]
    instances = _instances(op)
    each = type.bytes if instances == 1 else -(-type.bytes // INSTANCE_UNIT) * INSTANCE_UNIT
    size = each * (instances - 1) + type.bytes
    return reserve(op, program, op.name_in(program), size, op.attributes.get("at"), alignment_of(type)), each


def _instances(op: DecodedOp) -> int:
    """The number of instances of the surrounding role; 1 outside of roles."""
    inner = op.source
    while (outer := inner.parent) is not None:
        if outer.name == "sm.roles":
            position = next(i for i, region in enumerate(outer.regions) if region.blocks[0] == inner.block)
            if "instances" not in outer.attributes:
                return 1
            return int(ir.DenseI64ArrayAttr(outer.attributes["instances"])[position])
        inner = outer
    return 1


@OPS.implements("sm.alloc", prepare=_prepare_alloc)
def alloc(state: AgentState, op: DecodedOp) -> None:
    type = op.result_types[0]
    start, each = op.data
    instance = state.seat.instance if state.team is not state.cta.everyone else 0
    state.values[op.results[0]] = SharedBuffer(start + instance * each, type)


@OPS.effects("sm.copy", check=together)
def copy(state: AgentState, op: DecodedOp, window: Any, buffer: Any) -> None:
    store_buffer(state, op, buffer, load_window(state, op, window))


# The ring -------------------------------------------------------------------------------------------------------------


def _prepare_ring(op: DecodedOp, program: Program) -> Any:
    type = op.result_types[0]
    at = op.attributes.get("at") or (None,) * len(type.buffers)
    kept, shared = tuple(op.attributes.get("kept", ())), op.attributes.get("kept_stages", type.stages)
    copies = tuple(shared if number in kept else type.stages for number in range(len(type.buffers)))
    name = op.name_in(program)
    starts = tuple(
        reserve(op, program, f"{name} buffer {index}", count * buffer.bytes, start, alignment_of(buffer))
        for index, (buffer, start, count) in enumerate(zip(type.buffers, at, copies, strict=True))
    )
    return starts, kept, copies, program.ring_users.setdefault(op.results[0], RingUsers())


@OPS.implements("sm.ring", prepare=_prepare_ring)
def ring(state: AgentState, op: DecodedOp) -> None:
    type, slot = op.result_types[0], op.results[0]
    starts, kept, copies, users = op.data
    if slot not in state.cta.rings:
        made = state.cta.rings[slot] = rings.RingState.of(type, starts, kept, copies, state.cta, users)
        state.cta.at_end.append(lambda ending: rings.check_drained(ending, op, made, "the kernel ends"))
    state.values[slot] = state.cta.rings[slot]


@OPS.effects("sm.producer_acquire", check=together)
def producer_acquire(state: AgentState, op: DecodedOp, ring: Any, index: Any, phase: Any) -> Steps:
    right = yield from rings.acquire(state, op, ring, index, phase)
    return right, *ring.buffers(index, right)


@OPS.effects("sm.consumer_wait", check=together)
def consumer_wait(state: AgentState, op: DecodedOp, ring: Any, index: Any, phase: Any) -> Steps:
    right = yield from rings.wait(state, op, ring, index, phase)
    return right, *ring.buffers(index, right)


@OPS.effects("sm.producer_commit", "sm.consumer_release", check=together)
def end_use(state: AgentState, op: DecodedOp, ring: Any, right: Any, *further: Any) -> None:
    if right.ring is not ring:
        raise state.violation(op, "the slot belongs to another ring; name the ring that gave it [slot-of-ring]")
    (rings.commit if op.name == "sm.producer_commit" else rings.release)(state, op, right)


@OPS.effects("sm.producer_tail")
def producer_tail(state: AgentState, op: DecodedOp, ring: Any) -> Steps:
    yield from rings.tail(state, op, ring)


@OPS.effects("sm.ring_advance")
def ring_advance(state: AgentState, op: DecodedOp, ring: Any, index: Any, phase: Any, count: Any = 1) -> Any:
    rounds, following = divmod(index + count, ring.type.stages)
    return following, (phase + rounds) % 2


@OPS.effects("sm.ring_slot")
def ring_slot(state: AgentState, op: DecodedOp, ring: Any, index: Any) -> Any:
    if not 0 <= index < ring.type.stages:
        raise state.violation(
            op, f"slot {index} of a ring of {ring.type.stages}; take 0 … {ring.type.stages - 1} [slot-index]"
        )
    buffers = ring.buffers(index)
    return buffers if len(buffers) > 1 else buffers[0]


@OPS.effects("sm.ring_reuse")
def ring_reuse(state: AgentState, op: DecodedOp, ring: Any) -> SharedBuffer:
    rings.check_drained(state, op, ring, "reuses the storage")
    return SharedBuffer(ring.starts[0], op.result_types[0])


@OPS.effects("sm.prefix")
def prefix(state: AgentState, op: DecodedOp, buffer: Any) -> SharedBuffer:
    type = op.result_types[0]
    if type.bytes > buffer.type.bytes:
        raise state.violation(
            op, f"takes {type.bytes} bytes of a buffer of {buffer.type.bytes}; take at most all [prefix-bytes]"
        )
    return SharedBuffer(buffer.address, type, buffer.right)


@OPS.effects("sm.copy_async", check=together)
def copy_async(state: AgentState, op: DecodedOp, window: Any, buffer: Any) -> None:
    if buffer.right is None:
        raise state.violation(
            op, "the destination must be a slot's buffer, given by sm.producer_acquire [copy-into-slot]"
        )
    buffer.check(state, op, "write")
    rows, columns = (part.reshape(-1)[state.share] for part in np.indices(window.shape))
    width, window = buffer.type.element.bytes, resolved(state, op, window)
    used = np.where(is_inside(window, rows, columns), width, 0)
    flight = start_copy(
        state.machine.memory,
        state.cta.shared,
        state.access(op),
        buffer.addresses(rows, columns),
        window.element_addresses(rows, columns),
        width,
        used,
    )
    buffer.right.start(flight)
