"""Runs an instruction lane by lane if the lanes of a warp execute it with different operands."""

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import numpy as np

from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.lanes import active_lane_numbers


def lane_by_lane(handler: Callable[..., Any]) -> Callable[..., Any]:
    """A handler that runs once for each active lane if lanes have different operands, and otherwise once for all lanes.

    If the handler has a result, each lane gets the result of its own run.
    """

    @wraps(handler)
    def run(state: AgentState, op: Any, *operands: Any) -> Any:
        lanes = active_lane_numbers(state)
        if not any(_differs(each, lanes) for each in _flat(operands)):
            return handler(state, op, *operands)
        outer, results = state.mask, []
        try:
            for lane in lanes:
                state.mask = np.arange(len(state.lanes)) == lane
                results.append(handler(state, op, *operands))
        finally:
            state.mask = outer
        if results[0] is None:
            return None
        together = np.zeros(len(state.lanes), np.asarray(results[0]).dtype)
        each_lane = zip(lanes, results, strict=True)
        together[lanes] = [each if np.ndim(each) == 0 else each[lane] for lane, each in each_lane]
        return together

    return run


def _differs(operand: Any, lanes: list[int]) -> bool:
    return isinstance(operand, np.ndarray) and operand.shape == (32,) and len({*operand[lanes].tolist()}) > 1


def _flat(operands: Any) -> Iterator[Any]:
    for each in operands:
        if isinstance(each, tuple | list):
            yield from _flat(each)
        else:
            yield each
