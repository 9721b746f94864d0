"""The nvvm dialect: wgmma, whose accumulators are values.

Until a wait covers its group, the accumulators may be passed to the next wgmma and through loops, but not read. They
become readable as results of a wait (`sm.ptx_wgmma_wait`, or the assembly that it becomes): without this data
dependence the compiler may move a read above the wait. They may have only one such user: for a second one the compiler
would copy registers that a wgmma may still write.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine import wgmma, wgmma_chains
from lowtide.interpreter.machine.agents import AgentState, Steps
from lowtide.interpreter.machine.execution import violation
from lowtide.interpreter.machine.pending import PendingRegisters, check_done, hand_to
from lowtide.interpreter.numbers.registers import halves
from lowtide.interpreter.program.batches import Batch, Bulk, NotTogether
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.program import DecodedOp, Program

OPS = OpTable()

Values = NDArray[Any]

_ATOM = re.compile(r"wgmma\.m64n(\d+)k(\d+)\.(\w+)\.(\w+)")

# Products -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Plan:
    product: wgmma.Product
    is_scaled: bool


def _prepare_mma(op: DecodedOp, program: Program) -> None:
    attributes = op.attributes
    m, n, k = (int(number) for number in re.findall(r"= (\d+)", attributes["shape"]))
    a, b, d = (_word(attributes[f"type{side}"]) for side in "ABD")
    scales = [_word(attributes[f"scale{side}"]) for side in "AB"]
    if scales != ["one", "one"]:
        raise InterpreterError(f"{op.describe()}: operands that are negated are not interpreted")
    k_major = "row" in attributes["layoutA"], "col" in attributes["layoutB"]
    try:
        product = wgmma.Product.of((m, n, k), (a, b, d), k_major)
    except InterpreterError as error:
        raise InterpreterError(f"{op.describe()}: {error}") from error
    op.data = _Plan(product, _word(attributes["scaleD"]) == "one")


def _word(attribute: str) -> str:
    """The keyword of an enum attribute: bf16 of #nvvm.wgmma_type<bf16>."""
    return re.sub(r".*<(\w+)>.*", r"\1", attribute)


@OPS.implements("nvvm.wgmma.fence.aligned")
def fence(state: AgentState, op: DecodedOp) -> None:
    wgmma.fence(state, op)


def _is_chain(ops: Sequence[DecodedOp]) -> bool:
    """Whether each adds to what the one before it gives."""
    adds = all(op.data.is_scaled for op in ops[1:])
    return adds and all(op.operands[0] == before.results[0] for before, op in pairwise(ops))


def _chains(state: AgentState, batch: Batch) -> None:
    ops, values = batch.ops, state.values
    acc, plan = values[ops[0].operands[0]], ops[0].data
    if not batch.data or (acc.user is not None if isinstance(acc, PendingRegisters) else not state.fenced):
        raise NotTogether
    registers = _registers(state, acc, plan.product) if plan.is_scaled else None
    descriptors = [(values[op.operands[1]], values[op.operands[2]]) for op in ops]
    result, group = wgmma_chains.multiply(state, ops, plan.product, descriptors, registers)
    if isinstance(acc, PendingRegisters):
        hand_to(state, ops[0], acc)
    for op, user in zip(ops, (*ops[1:], None), strict=True):  # until a wait, a register is read by none of them
        values[op.results[0]] = PendingRegisters(result, user, group, plan.product.packed)


_CHAINS = Bulk(_chains, key=lambda op: op.data.product, prepare=_is_chain, chained=True)


@OPS.implements("nvvm.wgmma.mma_async", prepare=_prepare_mma, bulk=_CHAINS)
def mma_async(state: AgentState, op: DecodedOp) -> None:
    plan: _Plan = op.data
    acc, *descriptors = (state.values[slot] for slot in op.operands[:3])
    if isinstance(acc, PendingRegisters):
        hand_to(state, op, acc)
    elif not state.fenced:
        raise violation(
            state,
            op,
            "registers that other instructions wrote are handed to wgmma; put nvvm.wgmma.fence.aligned before it",
        )
    registers = _registers(state, acc, plan.product) if plan.is_scaled else None
    result, group = wgmma.multiply(state, op, plan.product, (descriptors[0], descriptors[1]), registers)
    state.values[op.results[0]] = PendingRegisters(result, group=group, packed=plan.product.packed)


def _prepare_held(op: DecodedOp, program: Program) -> None:
    match = _ATOM.fullmatch(op.attributes["atom"])
    if match is None:
        raise InterpreterError(f"{op.describe()}: unknown atom {op.attributes['atom']}; wgmma.m64nNk16 takes A so")
    n, k = int(match[1]), int(match[2])
    product = wgmma.Product.of((64, n, k), (match[4], match[4], match[3]), (True, "transposed" not in op.attributes))
    if any(len(list(value.uses)) > 1 for value in list(op.source.operands)[1:-1]):
        raise InterpreterError(
            f"{op.describe()}: another op reads registers of its A, which none may before a wait; give each its own"
        )
    op.data = _Plan(product, "clears" not in op.attributes)


@OPS.implements("sm.ptx_wgmma", prepare=_prepare_held)
def ptx_wgmma(state: AgentState, op: DecodedOp) -> None:
    """A in registers of two elements."""
    plan, domain = op.data, state.machine.domain
    acc, *held, b = (state.values[slot] for slot in op.operands)
    if isinstance(acc, PendingRegisters):
        hand_to(state, op, acc)
    parts = [halves(value, plan.product.dtypes[0], domain) for value in held]
    before = _registers(state, acc, plan.product) if plan.is_scaled else None
    a = wgmma.held_operand(parts, plan.product)
    result, group = wgmma.multiply(state, op, plan.product, (None, b), before, a)
    state.values[op.results[0]] = PendingRegisters(result, group=group, packed=plan.product.packed)


def _registers(state: AgentState, acc: Any, product: wgmma.Product) -> Values:
    """Accumulators as an array (32, values)."""
    if isinstance(acc, PendingRegisters):
        return acc.registers
    if product.packed:
        columns = [half for each in acc for half in halves(each, product.packed, state.machine.domain).T]
    else:
        columns = list(acc)
    if len(columns) != product.n // 2:
        raise ValueError(f"{len(columns)} accumulators per thread, the instruction has {product.n // 2}")
    return np.stack([np.broadcast_to(column, 32) for column in columns], axis=1)


# Groups ---------------------------------------------------------------------------------------------------------------


@OPS.implements("nvvm.wgmma.commit.group.sync.aligned")
def commit(state: AgentState, op: DecodedOp) -> None:
    wgmma.commit(state, op)


@OPS.implements("nvvm.wgmma.wait.group.sync.aligned")
def wait_group(state: AgentState, op: DecodedOp) -> Steps:
    yield from wgmma.wait(state, op, op.attributes["group"])


@OPS.implements("sm.ptx_wgmma_wait")
def ptx_wgmma_wait(state: AgentState, op: DecodedOp) -> Steps:
    yield from wgmma.wait(state, op, op.attributes["pending"])
    acc = state.values[op.operands[0]]
    if isinstance(acc, PendingRegisters):
        hand_to(state, op, acc)
        check_done(state, op, acc.group)
        acc = acc.readable()
    state.values[op.results[0]] = acc
