"""The scf dialect: structured control flow, uniform over a warp or divergent; and assertions of cf.

Divergent branches run one after the other under a mask, and results are joined by lane. A loop with different numbers
of iterations per lane runs under a mask until the last lane leaves it.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.agents import AgentState, Steps
from lowtide.interpreter.machine.execution import count_steps, run_block, run_straight
from lowtide.interpreter.numbers.blending import blend
from lowtide.interpreter.program.batches import Batch, Bulk, NotTogether
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.program import DecodedBlock, Program
from lowtide.interpreter.program.types import integer_dtype

OPS = OpTable()


@OPS.implements("scf.for")
def for_(state: AgentState, op: DecodedOp) -> Steps:
    values = state.values
    lower, upper, step = (values[slot] for slot in op.operands[:3])
    block = op.regions[0]
    induction, carried = block.arguments[0], block.arguments[1:]
    current = [values[slot] for slot in op.operands[3:]]
    if np.any(np.asarray(step) <= 0):
        raise state.violation(op, f"the step is {step}; scf.for needs a step of at least 1 [loop-step]")
    if np.any(np.asarray(lower < upper)):
        for each in block.invariant:
            state.op = each
            each.handler(state, each)
    paths = state.machine.observers.paths
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
        current = yield from _divergent_for(state, op, current, lower, upper, step)
    _assign(values, op.results, current)


def _divergent_for(state: AgentState, op: DecodedOp, current: list[Any], lower: Any, upper: Any, step: Any) -> Steps:
    block, outer = op.regions[0], state.mask
    index = lower + np.zeros(state.lanes.shape, np.asarray(upper).dtype)
    while True:
        active = index < upper if outer is None else (index < upper) & outer
        if not active.any():
            break
        state.mask = None if active.all() else active
        state.values[block.arguments[0]] = index
        _assign(state.values, block.arguments[1:], current)
        following = yield from run_block(state, block)
        current = _blended(op, active, following, current)
        index = index + step
    state.mask = outer
    return current


def _prepare_if(op: DecodedOp, program: Program) -> Any:
    """The names of the roles, if the branches are roles. Most ifs run no op that waits."""
    roles = op.attributes.get("roles")
    if roles is None and all(map(_is_straight, op.regions)):
        op.handler, op.resumable = straight_if, False
        guarded = op.regions[0].ops
        if len(guarded) == 1 and not op.results and not isinstance(guarded[0], Batch) and guarded[0].bulk is not None:
            op.bulk = _GUARDED
    return roles


def _is_straight(block: DecodedBlock) -> bool:
    """Whether a block only computes, and accesses memory."""
    return all(
        not op.resumable and (op.bulk is not None or not op.acts or op.handler is straight_if) for op in block.ops
    )


@OPS.implements("scf.if", prepare=_prepare_if)
def if_(state: AgentState, op: DecodedOp) -> Steps:
    outer, results = state.mask, []
    sides = _sides(state, op)
    if op.data is not None:
        state.role = op.data[sides[0][0]]
    for number, state.mask in sides:
        results.append((yield from run_block(state, op.regions[number])))
    state.mask = outer
    _join(state, op, sides, results)


def straight_if(state: AgentState, op: DecodedOp) -> None:
    """scf.if whose sides are straight."""
    outer, results = state.mask, []
    sides = _sides(state, op)
    for number, state.mask in sides:
        results.append(run_straight(state, op.regions[number]))
    state.mask = outer
    _join(state, op, sides, results)


def _sides(state: AgentState, op: DecodedOp) -> list[tuple[int, Any]]:
    """The sides that are taken: the number of the region, and its lanes."""
    condition, outer = state.values[op.operands[0]], state.mask
    if not isinstance(condition, np.ndarray):
        taken, rest = bool(condition), not condition
    else:
        mask = condition if outer is None else condition & outer
        count = np.count_nonzero(mask)
        taken, rest = bool(count), bool((len(mask) if outer is None else np.count_nonzero(outer)) - count)
    if state.machine.observers.paths is not None:
        state.machine.observers.paths.branch(op, taken, rest)
    if taken and rest:
        return [(0, mask), (1, ~condition if outer is None else ~condition & outer)]
    return [(0 if taken else 1, outer)]


def _join(state: AgentState, op: DecodedOp, sides: list[tuple[int, Any]], results: list[list[Any]]) -> None:
    """The results of the taken sides, joined by lane."""
    if len(results) == 1:
        _assign(state.values, op.results, results[0])
    else:
        _assign(state.values, op.results, _blended(op, sides[0][1], *results))


def _guarded(state: AgentState, batch: Batch) -> None:
    """Ifs that all active lanes take, each with one op of the same kind, which run as one."""
    for op in batch.ops:
        condition = state.values[op.operands[0]]
        if not np.all(
            condition if state.mask is None or not isinstance(condition, np.ndarray) else condition[state.mask]
        ):
            raise NotTogether
    inner: Batch = batch.data
    inner.bulk.run(state, inner)
    if state.machine.observers.paths is not None:
        for op in batch.ops:
            state.machine.observers.paths.branch(op, True, False)
    count_steps(state, 2 * len(batch.ops))


def _kind_of_guarded(op: DecodedOp) -> Any:
    (inner,) = op.regions[0].ops
    return inner.bulk, inner.bulk.key(inner)


def _together(ops: Sequence[DecodedOp]) -> Batch:
    guarded = tuple(op.regions[0].ops[0] for op in ops)
    return Batch(guarded, guarded[0].bulk)


_GUARDED = Bulk(_guarded, _kind_of_guarded, prepare=_together)


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
            results = passed if results is None or mask is None else _blended(op, mask, passed, results)
            if not going.any():
                break
            state.mask = None if going.all() else going
        else:
            results = passed if results is None or state.mask is None else _blended(op, state.mask, passed, results)
            if not condition:
                break
        _assign(state.values, after.arguments, passed)
        trips += 1
        current = yield from run_block(state, after)
    state.mask = outer
    if state.machine.observers.paths is not None:
        state.machine.observers.paths.loop(op, trips)
    _assign(state.values, op.results, results)


@OPS.implements("scf.execute_region")
def execute_region(state: AgentState, op: DecodedOp) -> Steps:
    results = yield from run_block(state, op.regions[0])
    _assign(state.values, op.results, results)


@OPS.implements("cf.assert")
def assert_(state: AgentState, op: DecodedOp) -> None:
    condition = np.asarray(state.values[op.operands[0]])
    if state.mask is not None:
        condition = condition | ~state.mask
    if not condition.all():
        raise InterpreterError(
            f"{op.source.location}: {op.attributes['msg']} (assertion of the {state.who()}) [assertion-failed]"
        )


def _blended(op: DecodedOp, condition: Any, x: list[Any], y: list[Any]) -> list[Any]:
    """The op's results: those of `x` if the condition holds, else of `y`. Integers keep their width."""
    return [
        blend(condition, new, old, integer_dtype(type)) for new, old, type in zip(x, y, op.result_types, strict=True)
    ]


def _assign(values: list[Any], slots: tuple[int, ...], new: list[Any]) -> None:
    for slot, value in zip(slots, new, strict=True):
        values[slot] = value
