"""The scf dialect: structured control flow, uniform over a warp or divergent.

Divergent branches run one after the other under a mask, and results are joined by lane; a loop with different
trip counts per lane runs under a mask until the last lane leaves it.
"""

from typing import Any

import numpy as np

from lowtide.interpreter.machine.agents import AgentState, Steps
from lowtide.interpreter.machine.execution import run_block, violation
from lowtide.interpreter.numbers.blending import blend
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.program import DecodedBlock, DecodedOp, Program

OPS = OpTable()


@OPS.implements("scf.for")
def for_(state: AgentState, op: DecodedOp) -> Steps:
    values = state.values
    lower, upper, step = (values[slot] for slot in op.operands[:3])
    block = op.regions[0]
    induction, carried = block.arguments[0], block.arguments[1:]
    current = [values[slot] for slot in op.operands[3:]]
    if np.any(np.asarray(step) <= 0):
        raise violation(state, op, f"the step is {step}; scf.for needs a step of at least 1")
    if np.any(np.asarray(lower < upper)):
        for each in block.invariant:
            state.op = each
            each.handler(state, each)
    paths = state.machine.paths
    if isinstance(lower, int) and isinstance(upper, int) and isinstance(step, int):
        if paths is not None:
            paths.loop(op, len(range(lower, upper, step)))
        for index in range(lower, upper, step):
            values[induction] = index
            _assign(values, carried, current)
            current = yield from run_block(state, block)
    else:
        if paths is not None:
            paths.loop(op, int(np.max(np.asarray(upper) - lower)) // int(np.max(step)))
        current = yield from _divergent_for(state, block, current, lower, upper, step)
    _assign(values, op.results, current)


def _divergent_for(
    state: AgentState, block: DecodedBlock, current: list[Any], lower: Any, upper: Any, step: Any
) -> Steps:
    outer = state.mask
    index = lower + np.zeros(state.lanes.shape, np.asarray(upper).dtype)
    while True:
        active = index < upper if outer is None else (index < upper) & outer
        if not active.any():
            break
        state.mask = None if active.all() else active
        state.values[block.arguments[0]] = index
        _assign(state.values, block.arguments[1:], current)
        following = yield from run_block(state, block)
        current = [blend(active, new, old) for new, old in zip(following, current, strict=True)]
        index = index + step
    state.mask = outer
    return current


def _prepare_if(op: DecodedOp, program: Program) -> None:
    """The names of the roles that the branches are, where they are roles."""
    op.data = op.attributes.get("roles")


@OPS.implements("scf.if", prepare=_prepare_if)
def if_(state: AgentState, op: DecodedOp) -> Steps:
    condition = state.values[op.operands[0]]
    outer = state.mask
    if isinstance(condition, np.ndarray):
        taken = condition if outer is None else condition & outer
        count = np.count_nonzero(taken)
        rest = (len(taken) if outer is None else np.count_nonzero(outer)) - count
        if state.machine.paths is not None:
            state.machine.paths.branch(op, bool(count), bool(rest))
        if count and rest:
            state.mask = taken
            first = yield from run_block(state, op.regions[0])
            state.mask = ~condition if outer is None else ~condition & outer
            second = yield from run_block(state, op.regions[1])
            state.mask = outer
            _assign(state.values, op.results, [blend(taken, x, y) for x, y in zip(first, second, strict=True)])
            return
        condition = bool(count)
    elif state.machine.paths is not None:
        state.machine.paths.branch(op, bool(condition), not condition)
    if op.data is not None:
        state.role = op.data[0 if condition else 1]
    results = yield from run_block(state, op.regions[0 if condition else 1])
    _assign(state.values, op.results, results)


@OPS.implements("scf.while")
def while_(state: AgentState, op: DecodedOp) -> Steps:
    before, after = op.regions
    current = [state.values[slot] for slot in op.operands]
    outer, results, trips = state.mask, None, 0
    while True:
        _assign(state.values, before.arguments, current)
        condition, *passed = yield from run_block(state, before)
        if isinstance(condition, np.ndarray):
            mask = state.mask
            going = condition if mask is None else condition & mask
            results = (
                passed
                if results is None or mask is None
                else [blend(mask, new, old) for new, old in zip(passed, results, strict=True)]
            )
            if not going.any():
                break
            state.mask = None if going.all() else going
        else:
            results = (
                passed
                if results is None or state.mask is None
                else [blend(state.mask, new, old) for new, old in zip(passed, results, strict=True)]
            )
            if not condition:
                break
        _assign(state.values, after.arguments, passed)
        trips += 1
        current = yield from run_block(state, after)
    state.mask = outer
    if state.machine.paths is not None:
        state.machine.paths.loop(op, trips)
    _assign(state.values, op.results, results)


@OPS.implements("scf.execute_region")
def execute_region(state: AgentState, op: DecodedOp) -> Steps:
    results = yield from run_block(state, op.regions[0])
    _assign(state.values, op.results, results)


def _assign(values: list[Any], slots: tuple[int, ...], new: list[Any]) -> None:
    for slot, value in zip(slots, new, strict=True):
        values[slot] = value
