"""Sends the rank's shard of A to other ranks: for tile.send_shard, and for a tile.gemm with `peers`."""

from typing import Any

import numpy as np

from lowtide.interpreter.machine.agents import AgentState, Steps
from lowtide.interpreter.machine.barriers import barrier
from lowtide.interpreter.machine.matrices import Matrix
from lowtide.interpreter.machine.sends import Telling, tell_last
from lowtide.interpreter.ops.tile_operands import turn_of
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.op_table import OpTable

OPS = OpTable()

_HALF = 32  # bits of an element of `peers`


@OPS.effects("tile.send_shard")
def send(state: AgentState, op: DecodedOp, a: Any, peers: Any, turn: Any, sent: Any) -> Steps:
    yield from send_shard(state, op, (a, peers, turn, sent))


def send_shard(state: AgentState, op: DecodedOp, operands: tuple[Matrix, Matrix, Matrix, Matrix]) -> Steps:
    """For each peer whose place is not 0: copy this agent's rows of the rank's shard there, and then count the CTA. The
    last CTA writes the flag. `operands`: A, `peers`, `turn` and `sent`. In a tile.gemm, the host function acts as the
    only CTA."""
    a, peers, turn, sent = operands
    is_host, members = state.machine.launch is not None, state.team.members
    ctas = 1 if is_host else state.machine.grid
    rank, epoch, _ = turn_of(state, op, turn)
    first, together = (
        (0, 1)
        if is_host
        else (
            state.cta.index * len(members) + members.index(state.warp),
            ctas * len(members),
        )
    )
    shard = a.part(rank)
    for step in range(1, a.shape[0]):
        peer = (rank - step) % a.shape[0]
        place, flag = _addresses(state, op, peers, peer)
        if not place:
            continue
        _copy(state, op, shard, place, np.arange(first, shard.shape[0], together))
        yield from barrier(state, op, "of a shard")
        if is_host or state.warp == members[0]:
            tell_last(state, op, Telling(int(sent.addresses(0, peer)), ctas - 1, flag, epoch))


def _copy(state: AgentState, op: DecodedOp, shard: Matrix, place: int, rows: Any) -> None:
    """Copy rows of a shard to a place where rows are as far apart as in the shard."""
    memory, name, size = state.machine.memory, shard.element.name, shard.element.bytes
    if not rows.size or not shard.shape[1]:
        return
    addresses, access = shard.addresses(rows, 0), state.access(op)
    values = memory.load(access, addresses, name, shard.shape[1], size)
    memory.store(access, addresses - shard.address + place, values, name, shard.shape[1], size)


def _addresses(state: AgentState, op: DecodedOp, peers: Matrix, peer: int) -> list[int]:
    """The place of the shard on a peer, and the flag there."""
    row = peers.addresses(peer, np.array([0]))
    halves = state.machine.memory.load(state.access(op), row, "i32", peers.shape[1], peers.element.bytes)
    low, high = (halves.reshape(-1)[at::2].astype(np.int64) for at in range(2))
    return [int(each) for each in (low % 2**_HALF) + (high << _HALF)]
