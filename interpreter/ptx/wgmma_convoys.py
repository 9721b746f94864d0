"""wgmma by the warps of a convoy: the four warps of a warpgroup multiply, and wait, as one."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine import warp_matrices, wgmma
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.convoys import Convoy
from lowtide.interpreter.machine.teams import WARP, WARPGROUP
from lowtide.interpreter.machine.warpgroups import check_meetings
from lowtide.interpreter.numbers.registers import Unreadable
from lowtide.interpreter.program.batches import NotTogether
from lowtide.interpreter.ptx.running import Op
from lowtide.interpreter.ptx.wgmma_places import (
    Accumulators,
    HeldA,
    accumulators_before,
    block_of,
    check_fence,
    columns_of,
    unfinished,
)

Values = NDArray[Any]


def multiply(convoy: Convoy, op: Op) -> None:
    """wgmma.mma_async: by the four warps of each warpgroup together, or warp by warp."""
    if not (is_joined := convoy.apart.isdisjoint(op.results)):
        convoy.scatter(op.results)
    for at in range(0, len(convoy.states), WARPGROUP):
        chosen = slice(at, at + WARPGROUP)
        try:
            _together(convoy, op, chosen, is_joined)
        except (NotTogether, InterpreterError):
            convoy.scatter(dict.fromkeys((*op.operands, *(op.results if is_joined else ()))), chosen)
            for state in convoy.states[chosen]:
                convoy.run_alone(state, op)
    convoy.apart.update(op.results)
    convoy.apart.update(slot for slot in op.operands if isinstance(convoy.states[0].values[slot], Unreadable))


def _together(convoy: Convoy, op: Op, chosen: slice, is_joined: bool) -> None:
    """wgmma by the four warps of a warpgroup, those `chosen`. `is_joined`: the accumulators before are registers of the
    convoy, and may be read. Raises NotTogether if the warps cannot run it together, and InterpreterError for a broken
    rule. Then nothing has changed."""
    states, product = convoy.states[chosen], op.data.product
    lanes = slice(WARP * chosen.start, WARP * chosen.stop)
    a, b, scale = _operands(convoy, op, lanes)
    before: list[Accumulators | None] = [None] * len(states)
    if not is_joined:
        before = [accumulators_before(state, op) for state in states]
    for state, owner in zip(states, before, strict=True):
        if owner is None:
            check_fence(state, op)
    matrix = None
    if scale:
        matrix = _joined_before(convoy, op, lanes) if is_joined else _matrix_before(states, op, before)
    held = None if isinstance(a, int) else _rows_of_a(convoy, states, op, a, lanes)
    block, group = wgmma.multiply_together(states, op, product, (a if held is None else None, b), matrix, held)
    if held is not None:
        convoy.scatter(op.operands[: len(a)], chosen)
    for part, (state, owner) in enumerate(zip(states, before, strict=True)):
        if owner is not None:  # its registers stay in flight
            owner.block, owner.part, owner.group, owner.dtype = block, part, group, product.accumulator
        else:
            owner = Accumulators(block, part, group, op.results, product.accumulator)
            unfinished(state).append(owner)
            op.give(state.values, op.results, owner.registers)
        if held is not None:
            slots = op.operands[: len(a)]
            HeldA(group, slots, tuple([state.values[slot] for slot in slots])).take_over(state, op)


def _operands(convoy: Convoy, op: Op, lanes: slice) -> tuple[Any, int, int]:
    """A, B and scale-d. A and B are descriptors, or A is a tuple of registers. Raises NotTogether if a descriptor or
    scale-d differs among the lanes."""
    if not convoy.apart.isdisjoint(op.operands):
        raise NotTogether
    found: list[Any] = []
    for read in op.readers[:3]:
        value = read(convoy.values)
        if isinstance(value, np.ndarray):
            value = value[lanes]
            if np.count_nonzero(value != value[0]):
                raise NotTogether
            value = value[0].item()
        if not isinstance(value, int) and (found or not isinstance(value, tuple)):
            raise NotTogether
        found.append(value)
    a, b, scale = found
    if isinstance(a, tuple) and len({*op.operands[: len(a)]}) < len(a):
        raise NotTogether
    return a, b, scale


def _rows_of_a(
    convoy: Convoy, states: Sequence[AgentState], op: Op, registers: tuple[Any, ...], lanes: slice
) -> Values:
    """A in registers: (4, 32, k / 2)."""
    if not all(state.fenced for state in states) or any(value is None for value in registers):
        raise NotTogether
    found = warp_matrices.elements_of(registers, op.data.product.dtypes[0], convoy.machine.domain, len(convoy.lanes))
    return found[lanes].reshape(len(states), WARP, -1)


def _joined_before(convoy: Convoy, op: Op, lanes: slice) -> Values:
    """The accumulators before, from registers of the convoy: (4, 16 · n)."""
    registers = [convoy.values[slot] for slot in op.results]
    if any(value is None for value in registers):
        raise NotTogether
    columns = columns_of(op, registers, convoy.machine.domain, len(convoy.lanes))[:, lanes]
    return _matrix(convoy.machine.domain, op, columns.reshape(len(columns), -1, WARP).transpose(1, 2, 0))


def _matrix_before(states: Sequence[AgentState], op: Op, before: Sequence[Accumulators | None]) -> Values:
    """The accumulators before, (4, 16 · n): of each warp, those in flight or those in its registers."""
    domain, product = states[0].machine.domain, op.data.product
    block = block_of(before)
    if block is not None and block.matrix.shape[1] == wgmma.ROWS * product.n:
        return block.matrix
    given = []
    for state, owner in zip(states, before, strict=True):
        registers = [state.values[slot] for slot in op.results] if owner is None else []
        if any(value is None for value in registers):
            raise NotTogether
        given.append(columns_of(op, registers, domain, WARP).T if owner is None else owner.values)
    return _matrix(domain, op, np.stack(given))


def _matrix(domain: Any, op: Op, held: Values) -> Values:
    """Accumulators by lane, (4, 32, n / 2), as the rows of each warp, (4, 16 · n)."""
    product = op.data.product
    matrix: Values = domain.full((len(held), wgmma.ROWS * product.n), 0, product.accumulator)
    matrix[:, product.places] = held
    return matrix


def wait(convoy: Convoy, op: Op) -> None:
    """wgmma.wait_group by whole warpgroups. Raises NotTogether, and changes nothing, if the warps are not whole
    warpgroups, or if they have not run the same wgmma instructions so far."""
    groups = [convoy.states[at : at + WARPGROUP] for at in range(0, len(convoy.states), WARPGROUP)]
    pending = op.readers[0](convoy.values)
    for states in groups:
        wgmma.check_whole(states)
        for state in states:
            check_meetings(state, (op,), [()])
    for state in convoy.each(op):
        assert not list(wgmma.wait(state, op, pending))
    done = [[each for each in unfinished(state) if each.group not in state.mmas] for state in convoy.states]
    for state, owners in zip(convoy.states, done, strict=True):
        state.accumulators = [each for each in unfinished(state) if each not in owners]
    are_alike = len({tuple((type(each), each.slots) for each in owners) for owners in done}) == 1
    if are_alike:
        done = [list(each) for each in zip(*done, strict=True) if not _give_back(convoy, op, each)]
        done = [list(each) for each in zip(*done, strict=True)]
    for state, owners in zip(convoy.each(op), done, strict=bool(done)):
        for owner in owners:
            owner.give_back(state, op)


def _give_back(convoy: Convoy, op: Op, owners: Sequence[Accumulators | HeldA]) -> bool:
    """Make the accumulators of the warps registers of the convoy, if those of each warpgroup are one block. Returns
    whether they are."""
    those = [owner for owner in owners if isinstance(owner, Accumulators)]
    blocks = [block_of(those[at : at + WARPGROUP]) for at in range(0, len(those), WARPGROUP)]
    columns = [block.columns for block in blocks if block is not None]
    if not columns or len(columns) < len(blocks) or len({owner.dtype for owner in those}) > 1:
        return False
    for state, owner in zip(convoy.each(op), those, strict=True):
        owner.check(state, op)
        for slot in owner.slots:
            state.values[slot] = None  # the convoy has it
    those[0].put(convoy.values, columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1))
    convoy.apart.difference_update(those[0].slots)
    return True
