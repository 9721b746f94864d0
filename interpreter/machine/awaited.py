"""The number of arrivals that a loop of loads waits for. No op says it: the loop is run again with possible values."""

from collections.abc import Callable
from typing import Any, NamedTuple

from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.program.graphs import Block

_MOST = 1 << 10  # values that are tried


class Asked(NamedTuple):
    """A load by one lane of the word of a semaphore, and the value that it found."""

    op: Any
    address: int
    found: int


def tell_order(state: AgentState, asked: Asked, block: Block, ends: Callable[[], bool]) -> None:
    """Tell the checks of the order of agents the least number of arrivals that ends the loop, if it has ended.

    `block` is the whole loop and has just run; `ends` says whether its branch leaves the loop now. It only computes and
    keeps nothing between iterations, so the loaded value decides.
    """
    values = state.values
    kept = [(slot, values[slot]) for op in block.ops for slot in op.results]
    least = asked.found
    if ends():
        while asked.found - least < _MOST and least > 0 and _would_end(state, asked, least - 1, block, ends):
            least -= 1
        if asked.found - least == _MOST:  # as in a wait for a bit to flip, which ends at any number
            least = 0
        for slot, value in kept:
            values[slot] = value
        assert state.machine.order is not None
        state.machine.order.count(asked.op, asked.address, awaited=least)


def _would_end(state: AgentState, asked: Asked, found: int, block: Block, ends: Callable[[], bool]) -> bool:
    for op in block.ops:
        if op is asked.op:
            state.values[op.results[0]] = found
        else:
            op.handler(state, op)
    return ends()
