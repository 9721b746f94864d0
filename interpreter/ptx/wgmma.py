"""wgmma (PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions").

The accumulators may not be accessed until a wait covers their group. In PTX a register is a *place*: no instruction may
read or write it before the wait, which makes it readable. In inline assembly and in ops a register is a *value*:
accumulators in flight pass from one wgmma to the next, and a wait alone makes none readable, because LLVM may move a
reader above it. They become readable as results of a wait that takes them as inputs (ops/).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine import warp_matrices, wgmma
from lowtide.interpreter.machine.agents import AgentState, Steps
from lowtide.interpreter.machine.convoys import Convoy
from lowtide.interpreter.machine.lanes import whole_warp
from lowtide.interpreter.machine.pending import PendingRegister, PendingRegisters, hand_to
from lowtide.interpreter.machine.teams import WARP, WARPGROUP
from lowtide.interpreter.numbers import registers
from lowtide.interpreter.numbers.registers import Unreadable
from lowtide.interpreter.program.batches import NotTogether
from lowtide.interpreter.ptx.matrices import accumulator, shape_of
from lowtide.interpreter.ptx.running import Op
from lowtide.interpreter.ptx.syntax import Group, Immediate
from lowtide.interpreter.ptx.table import Form, Table
from lowtide.interpreter.ptx.wgmma_places import Accumulators, HeldA, accumulators_before, block_before, unfinished

TABLE = Table()

Values = NDArray[Any]

_SECTION = "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions"
_SHAPES = " ".join(f"m64n{n}k{k}" for k in (8, 16, 32) for n in range(8, 257, 8))


@dataclass(frozen=True)
class Plan:
    """A product, and whether accumulators are places."""

    product: wgmma.Product
    are_places: bool


def _plan_of(form: Form) -> Plan:
    shape = shape_of(form)
    if shape is None or len(form.types) != 3:
        raise form.instruction.error("wgmma.mma_async has a shape and the three types of D, A and B [ptx-wgmma-types]")
    d, a, b = form.types
    try:
        kind = wgmma.kind_of(a, b, d, shape)
        further = [each.value for each in form.instruction.operands[4:] if isinstance(each, Immediate)]
        count, is_held = 2 if kind.negates else 0, isinstance(form.instruction.operands[1], Group)
        turned = (not is_held) + 1 if kind.transposes else 0  # the flags of operands that may be transposed
        if len(further) != count + turned or not set(further[:count]) <= {1, -1}:
            raise InterpreterError(
                f"ends with {further}; {a} takes {count} signs, 1 or -1, and {turned} flags of transposition"
                " [ptx-wgmma-negated]"
            )
        k_major = (is_held or further[2] == 0, further[-1] == 0) if kind.transposes else (True, True)
        product = wgmma.Product.of(shape, (a, b, d), k_major)
        product = replace(product, sign=prod(further[:count]), saturates="satfinite" in form.words)
        if product.saturates and d != "s32":
            raise InterpreterError(f".satfinite with sums of {d}; only sums of s32 have it [wgmma-satfinite]")
        held = form.instruction.operands[1]
        if isinstance(held, Group) and len(held.elements) != wgmma.HELD_REGISTERS:
            raise InterpreterError(
                f"A of {a} in {len(held.elements)} registers; it has {wgmma.HELD_REGISTERS} [held-registers]"
            )
    except InterpreterError as error:
        raise form.instruction.error(str(error)) from error
    return Plan(product, form.are_places)


@TABLE.effects(
    "wgmma.mma_async",
    types=" ".join(dict.fromkeys((*wgmma.OPERAND_TYPES, "f16", "f32", "s32"))),
    words=f"sync aligned satfinite {_SHAPES}",
    section=f"{_SECTION}: wgmma.mma_async",
    results=1,
    prepare=_plan_of,
    by_convoy=lambda convoy, op: _by_warpgroups(convoy, op),
)
def mma_async(state: AgentState, op: Op, a: Any, b: Any, scale: Any, *further: Any) -> Any:
    """If `scale` is false, the accumulators count as zero before. Predicates are the same in all lanes."""
    plan: Plan = op.data
    whole_warp(state, op)
    is_scaled = bool(np.all(scale))
    if is_scaled != bool(np.any(scale)):
        raise state.violation(op, "lanes differ in scale-d; it is the same for the whole warpgroup [ptx-scale-d]")
    before = _of_places(state, op, is_scaled) if plan.are_places else _of_values(state, op, is_scaled)
    held = _held_of(state, plan.product, a) if isinstance(a, tuple) else None
    descriptors = (a if held is None else None, b)
    block, group = wgmma.multiply(state, (op,), plan.product, [descriptors], before, held)
    if not plan.are_places:
        given = PendingRegisters(block.of_warp(0).T, group=group, packed=plan.product.packed)
        return given if op.before is not None else tuple(given[index] for index in range(len(op.results)))
    owner = Accumulators(block, 0, group, op.results, plan.product.accumulator)
    unfinished(state).append(owner)
    if isinstance(a, tuple):
        HeldA(group, op.operands[: len(a)], a).take_over(state, op)
    return owner.registers


def _by_warpgroups(convoy: Convoy, op: Op) -> None:
    """wgmma by the warps of a convoy: by the four warps of each warpgroup together, or warp by warp."""
    convoy.scatter(op.results)
    for at in range(0, len(convoy.states), WARPGROUP):
        states = convoy.states[at : at + WARPGROUP]
        try:
            _together(states, op, _common_operands(convoy, op, slice(at * WARP, (at + WARPGROUP) * WARP)))
        except (NotTogether, InterpreterError):
            convoy.scatter(dict.fromkeys(op.operands))
            for state in states:
                convoy.run_alone(state, op)
    convoy.apart.update(op.results)
    convoy.apart.update(slot for slot in op.operands if isinstance(convoy.states[0].values[slot], Unreadable))


def _common_operands(convoy: Convoy, op: Op, lanes: slice) -> tuple[int, int, int]:
    """The two descriptors and scale-d, the same in these lanes. Raises NotTogether for other operands."""
    if not convoy.apart.isdisjoint(op.operands):
        raise NotTogether
    found = []
    for read in op.readers[:3]:
        value = read(convoy.values)
        if isinstance(value, np.ndarray):
            value = value[lanes]
            if np.count_nonzero(value != value[0]):
                raise NotTogether
            value = value[0].item()
        if not isinstance(value, int):
            raise NotTogether
        found.append(value)
    a, b, scale = found
    return a, b, scale


def _together(states: Sequence[AgentState], op: Op, operands: tuple[int, int, int]) -> None:
    """wgmma with both operands in shared memory, by the four warps of a warpgroup. Raises NotTogether for others."""
    (a, b, scale), product = operands, op.data.product
    before = [accumulators_before(state, op) for state in states]
    for state, owner in zip(states, before, strict=True):
        if owner is None or owner.given is not None:
            _check_fence(state, op)
    matrix = _matrix_before(states, op, before) if scale else None
    block, group = wgmma.multiply_together(states, op, product, (a, b), matrix)
    for part, (state, owner) in enumerate(zip(states, before, strict=True)):
        if owner is not None and owner.given is None:  # its registers stay in flight
            owner.block, owner.part, owner.group, owner.dtype = block, part, group, product.accumulator
            continue
        owner = Accumulators(block, part, group, op.results, product.accumulator)
        unfinished(state).append(owner)
        op.give(state.values, op.results, owner.registers)


def _matrix_before(states: Sequence[AgentState], op: Op, before: Sequence[Accumulators | None]) -> Values:
    """The accumulators of the warps of a warpgroup before a wgmma: (4, 16 · n)."""
    product = op.data.product
    block = block_before(before, product.accumulator, product.places)
    if block is not None:
        return block.matrix
    given = [
        owner.values if owner is not None and owner.given is None else given_registers(state, op, _held(state, op))
        for state, owner in zip(states, before, strict=True)
    ]
    matrix = states[0].machine.domain.full((len(states), wgmma.ROWS * product.n), 0, product.accumulator)
    matrix[:, product.places] = np.stack(given)  # type: ignore[arg-type]
    return matrix


def _held(state: AgentState, op: Op) -> list[Any]:
    return [state.values[slot] for slot in op.results]


def _held_of(state: AgentState, product: wgmma.Product, registers_of_a: tuple[Any, ...]) -> Values:
    """A in registers, (32, k / 2)."""
    return warp_matrices.elements_of(registers_of_a, product.dtypes[0], state.machine.domain)


def given_registers(state: AgentState, op: Op, held: Any) -> Values | None:
    """Accumulators that other instructions wrote, (32, values). Raises InterpreterError without a fence."""
    plan, domain = op.data, state.machine.domain
    _check_fence(state, op)
    if held is None:
        return None
    if any(value is None for value in held):
        raise state.violation(
            op, "an accumulator was never written; write it, or let scale-d be false [ptx-accumulator-unwritten]"
        )
    if plan.product.packed:
        parts = [registers.halves(value, plan.product.accumulator, domain) for value in held]
        return np.concatenate([np.broadcast_to(part, (32, 2)) for part in parts], axis=1)
    columns = [accumulator(value, plan.product.accumulator, domain) for value in held]
    return np.stack([np.broadcast_to(column, (32,)) for column in columns], axis=1)


def _check_fence(state: AgentState, op: Op) -> None:
    if not state.fenced:
        raise state.violation(
            op, "wgmma takes registers that other instructions wrote; put wgmma.fence before it [ptx-wgmma-fence]"
        )


def _of_places(state: AgentState, op: Op, is_scaled: bool) -> Values | None:
    """The accumulators before: those of the last wgmma on these registers, or what other instructions wrote."""
    owner = accumulators_before(state, op)
    if owner is None or owner.given is not None:
        return given_registers(state, op, _held(state, op) if is_scaled else None)
    unfinished(state).remove(owner)
    return owner.values if is_scaled else None


# Accumulators as values -----------------------------------------------------------------------------------------------


def _of_values(state: AgentState, op: Op, is_scaled: bool) -> Values | None:
    """The accumulators before, (32, values): those of the last wgmma, or registers of other instructions. None if they
    are cleared."""
    if op.before is not None:
        held = op.before(state.values)
    elif not is_scaled:
        # Cleared accumulators need not be inputs: the slots then keep their values of the previous execution.
        held = None
    else:
        held = _of_one_wgmma(state, op, [state.values[slot] for slot in op.results])
    if isinstance(held, PendingRegisters):
        hand_to(state, op, held)
        return held.registers if is_scaled else None
    return given_registers(state, op, held if is_scaled else None)


def _of_one_wgmma(state: AgentState, op: Op, held: list[Any]) -> Any:
    """The accumulators in flight of these registers; otherwise the registers."""
    owner = held[0].owner if isinstance(held[0], PendingRegister) else None
    if owner is not None:
        if any(getattr(value, "owner", None) is not owner or value.index != at for at, value in enumerate(held)):
            raise state.violation(
                op, "its accumulators are not those of one wgmma, in their order [asm-accumulators-order]"
            )
        return owner
    if any(isinstance(value, PendingRegister) for value in held):
        raise state.violation(
            op, "some of its accumulators are still in flight; wait for them first [asm-accumulators-in-flight]"
        )
    return held


# Groups ---------------------------------------------------------------------------------------------------------------


TABLE.effects("wgmma.fence", words="sync aligned", section=f"{_SECTION}: wgmma.fence")(wgmma.fence)
TABLE.effects("wgmma.commit_group", words="sync aligned", section=f"{_SECTION}: wgmma.commit_group")(wgmma.commit)


@TABLE.effects("wgmma.wait_group", words="sync aligned", section=f"{_SECTION}: wgmma.wait_group")
def wait_group(state: AgentState, op: Op, pending: Any) -> Steps:
    """The places of groups that are done may be accessed again."""
    yield from wgmma.wait(state, op, pending)
    for owner in [owner for owner in unfinished(state) if owner.group not in state.mmas]:
        unfinished(state).remove(owner)
        owner.give_back(state, op)
