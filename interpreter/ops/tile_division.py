"""The tile dialect's division of K: partial sums in a workspace, and the semaphores that announce them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.interpreter.machine import semaphores
from lowtide.interpreter.machine.agents import AgentState, Steps
from lowtide.interpreter.machine.barriers import barrier, together
from lowtide.interpreter.machine.matrices import Matrix
from lowtide.interpreter.numbers.accesses import Access
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.types import Fragment, Tile

OPS = OpTable()


@OPS.effects("tile.store_partial", check=together)
def store_partial(state: AgentState, op: DecodedOp, value: Any, partials: Any, slot: Any) -> None:
    type, shares = op.operand_types[0], op.attributes.get("shares", 1)
    for share, part in enumerate(_in_shares(state, type, value, shares)):
        access, addresses = _slot_rows(state, op, type, partials, part.shape, slot * shares + share, shares)
        state.machine.memory.store(
            access, addresses, part, partials.element.name, part.shape[1], partials.element.bytes
        )


def _in_shares(state: AgentState, type: Tile | Fragment, value: NDArray[Any], shares: int) -> list[NDArray[Any]]:
    """The parts of a value in each of `shares` equal shares of the columns, in the value's own order."""
    width = type.shape[1] // shares
    if isinstance(type, Tile):
        return [value[:, share * width : (share + 1) * width] for share in range(shares)]
    _, columns = type.tv.coordinates(type.shape[0])
    own = columns[state.thread] // width
    return [value[own == share].reshape(len(value), -1) for share in range(shares)]


@OPS.effects("tile.sum_shares", check=together)
def sum_shares(state: AgentState, op: DecodedOp, partials: Any, first: Any, count: Any, share: Any) -> Any:
    type, shares = op.result_types[0], op.attributes["shares"]
    name, total = partials.element.name, None
    shape = type.shape if isinstance(type, Tile) else (len(state.lanes), type.tv.coordinates(type.shape[0])[0].shape[1])
    for slot in range(first, first + count):
        access, addresses = _slot_rows(state, op, type, partials, shape, slot * shares + share, shares)
        partial = state.machine.memory.load(access, addresses, name, shape[1], partials.element.bytes)
        total = partial if total is None else state.machine.domain.sum(total, partial, name)
    return total


@OPS.effects("tile.add_partials", check=together)
def add_partials(state: AgentState, op: DecodedOp, value: Any, partials: Any, first: Any, count: Any) -> Any:
    name, width = partials.element.name, partials.element.bytes
    for slot in range(first, first + count):
        access, addresses = _slot_rows(state, op, op.operand_types[0], partials, value.shape, slot)
        partial = state.machine.memory.load(access, addresses, name, value.shape[1], width)
        value = state.machine.domain.sum(value, partial, name)
    return value


def _slot_rows(
    state: AgentState,
    op: DecodedOp,
    type: Tile | Fragment,
    partials: Matrix,
    shape: tuple[int, int],
    slot: int,
    shares: int = 1,
) -> tuple[Access, NDArray[np.int64]]:
    """The addresses of the rows of a value, (rows, columns), in a slot: row by row, or thread by thread.

    A CTA's value is whole; of a fragment each agent holds the rows of its threads. With shares, a slot belongs to one
    share, of a whole value (`tile.store_partial`) or a share itself (`tile.sum_shares`).
    """
    rows, columns = shape
    first = int(state.thread[0]) if isinstance(type, Fragment) else 0
    elements = type.shape[0] * type.shape[1] // (shares if op.operand_types[0] is type else 1)
    start = slot * elements + first * columns
    access = state.access(op, state.lanes if isinstance(type, Fragment) else None)
    return access, partials.addresses(0, start + np.arange(rows) * columns)


@OPS.effects("tile.semaphore_arrive")
def semaphore_arrive(state: AgentState, op: DecodedOp, semaphores_: Any, index: Any) -> Steps:
    yield from barrier(state, op, "of a semaphore")
    if state.warp == state.team.members[0]:
        semaphores.arrive(state, op, semaphores_.address + 4 * index)


@OPS.effects("tile.semaphore_wait")
def semaphore_wait(state: AgentState, op: DecodedOp, semaphores_: Any, index: Any, count: Any) -> Steps:
    if state.warp == state.team.members[0]:
        address = semaphores_.address + 4 * index
        yield from semaphores.wait(state, op, address, count)
        if "reset" in op.attributes:
            semaphores.reset(state, op, address)
    yield from barrier(state, op, "of a semaphore")


@OPS.effects("tile.semaphore_leave", check=together)
def semaphore_leave(state: AgentState, op: DecodedOp, semaphores_: Any, index: Any, count: Any) -> None:
    if state.warp == state.team.members[0]:
        semaphores.leave(state, op, semaphores_.address + 4 * index, count - 1)
