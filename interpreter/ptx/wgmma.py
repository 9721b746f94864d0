"""wgmma (PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions").

The accumulators may not be accessed until a wait covers their group. In PTX a register is a *place*: no instruction may
read or write it before the wait, which makes it readable. In inline assembly and in ops a register is a *value*:
accumulators in flight pass from one wgmma to the next, and a wait alone makes none readable, because LLVM may move a
reader above it. They become readable as results of a wait that takes them as inputs (ops/).
"""

from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine import warp_matrices, wgmma
from lowtide.interpreter.machine.agents import AgentState, Steps
from lowtide.interpreter.machine.lanes import whole_warp
from lowtide.interpreter.machine.pending import PendingRegister, PendingRegisters, hand_to
from lowtide.interpreter.machine.teams import WARP
from lowtide.interpreter.ptx import wgmma_convoys
from lowtide.interpreter.ptx.matrices import shape_of
from lowtide.interpreter.ptx.running import Op, each_warp
from lowtide.interpreter.ptx.syntax import Group, Immediate
from lowtide.interpreter.ptx.table import Form, Table
from lowtide.interpreter.ptx.wgmma_places import (
    Accumulators,
    HeldA,
    accumulators_before,
    check_fence,
    columns_of,
    unfinished,
)

TABLE = Table()

Values = NDArray[Any]

_SECTION = "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions"
_SHAPES = " ".join(f"m64n{n}k{k}" for k in (8, 16, 32, 256) for n in range(8, 257, 8))


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
        if product.saturates and (d != "s32" or product.is_bits):
            raise InterpreterError(
                f".satfinite with products of {a} and sums of {d}; only products of s8 and u8 have it: leave it out"
                " [wgmma-satfinite]"
            )
        if ("and" in form.words, "popc" in form.words) != (product.is_bits,) * 2:
            raise InterpreterError(
                f"wgmma of {a} and {b}; products of b1 have .and.popc, and others do not: add it, or leave it out"
                " [wgmma-bits]"
            )
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
    words=f"sync aligned satfinite and popc {_SHAPES}",
    section=f"{_SECTION}: wgmma.mma_async",
    results=1,
    prepare=_plan_of,
    by_convoy=wgmma_convoys.multiply,
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


def _held_of(state: AgentState, product: wgmma.Product, registers_of_a: tuple[Any, ...]) -> Values:
    """A in registers, (32, k / 2)."""
    return warp_matrices.elements_of(registers_of_a, product.dtypes[0], state.machine.domain)


def given_registers(state: AgentState, op: Op, held: Any) -> Values | None:
    """Accumulators that other instructions wrote, (32, values). Raises InterpreterError without a fence."""
    check_fence(state, op)
    if held is None:
        return None
    if any(value is None for value in held):
        raise state.violation(
            op, "an accumulator was never written; write it, or let scale-d be false [ptx-accumulator-unwritten]"
        )
    return columns_of(op, held, state.machine.domain, WARP).T


def _of_places(state: AgentState, op: Op, is_scaled: bool) -> Values | None:
    """The accumulators before: those of the last wgmma on these registers, or what other instructions wrote."""
    owner = accumulators_before(state, op)
    if owner is None:
        return given_registers(state, op, [state.values[slot] for slot in op.results] if is_scaled else None)
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


for _name, _run in (("wgmma.fence", wgmma.fence), ("wgmma.commit_group", wgmma.commit)):
    TABLE.effects(_name, words="sync aligned", section=f"{_SECTION}: {_name}", by_convoy=each_warp)(_run)


@TABLE.effects(
    "wgmma.wait_group",
    words="sync aligned",
    section=f"{_SECTION}: wgmma.wait_group",
    by_convoy=wgmma_convoys.wait,
)
def wait_group(state: AgentState, op: Op, pending: Any) -> Steps:
    """The places of groups that are done may be accessed again."""
    yield from wgmma.wait(state, op, pending)
    for owner in [owner for owner in unfinished(state) if owner.group not in state.mmas]:
        unfinished(state).remove(owner)
        owner.give_back(state, op)
