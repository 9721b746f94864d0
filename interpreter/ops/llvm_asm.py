"""The llvm dialect: inline assembly, which is PTX with operands of LLVM.

The text becomes the body of a kernel whose registers are the operands ($0, $1, …, outputs first). It is bound to slots
of the agent's values once, and runs as any PTX does (interpreter/ptx/). At its border values change their kind: a float
of LLVM is a `Number` in a register; integers, and two 16-bit floats in an i32 (`Packed`), stay as they are.

Accumulators of wgmma are values here, not registers that stay in place, so two rows of the table differ. Those in
flight pass from one assembly to the next. A wait alone does not make them readable: LLVM may move what reads them above
it. They become readable as outputs of a wait that has them as inputs. They may have only one user: for a second one the
compiler would copy registers in flight.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from mlir import ir

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine import wgmma
from lowtide.interpreter.machine.agents import AgentState, Steps
from lowtide.interpreter.machine.branches import run_graph
from lowtide.interpreter.machine.execution import violation
from lowtide.interpreter.machine.pending import PendingRegister, PendingRegisters, check_done, hand_to
from lowtide.interpreter.numbers import registers
from lowtide.interpreter.numbers.packed import Packed
from lowtide.interpreter.numbers.registers import Half, Number
from lowtide.interpreter.program.asm_constraints import Operand, operands_of, written_out
from lowtide.interpreter.program.graphs import Graph
from lowtide.interpreter.program.ir_attributes import decode_attribute
from lowtide.interpreter.program.ir_types import Scalar, Struct, Type, Vector
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.program import DecodedOp, Program
from lowtide.interpreter.ptx.binding import Op, Slots
from lowtide.interpreter.ptx.decoding import graph_of
from lowtide.interpreter.ptx.matrices import accumulators_of, held_of, product_of
from lowtide.interpreter.ptx.parsing import parse_body
from lowtide.interpreter.ptx.rows import ROWS
from lowtide.interpreter.ptx.table import Table, joined

OPS = OpTable()

# Rows that differ ----------------------------------------------------------------------------------------------------

_ACCUMULATORS = Table()
_OTHERS = ROWS.rows["wgmma.mma_async"], ROWS.rows["wgmma.wait_group"]


@_ACCUMULATORS.effects(
    "wgmma.mma_async",
    types=" ".join(_OTHERS[0].types),
    words=" ".join(_OTHERS[0].words),
    section=_OTHERS[0].section,
    results=1,
    prepare=product_of,
)
def mma_async(state: AgentState, op: Op, a: Any, b: Any, scale: Any, *further: Any) -> tuple[Any, ...]:
    """The new accumulators, in flight."""
    product: wgmma.Product = op.data
    is_scaled = bool(np.all(scale))
    if is_scaled != bool(np.any(scale)):
        raise violation(state, op, "lanes differ in scale-d; it is the same for the whole warpgroup")
    before = _accumulators(state, op, product, is_scaled)
    if is_scaled and before is None:
        raise violation(state, op, "an accumulator was never written; write it, or let scale-d be false")
    held = held_of(state, product, a) if isinstance(a, tuple) else None
    values, group = wgmma.multiply(state, op, product, (a if held is None else None, b), before, held)
    pending = PendingRegisters(values, group=group, packed=product.packed)
    return tuple(pending[index] for index in range(len(op.results)))


def _accumulators(state: AgentState, op: Op, product: wgmma.Product, is_scaled: bool) -> Any:
    """The accumulators before, (32, values); None where one was never written, or they are cleared."""
    # Those that are cleared need not be inputs: the slots then hold what they held when the assembly ran before.
    held: list[Any] = [state.values[slot] if is_scaled else None for slot in op.results]
    owner = held[0].owner if isinstance(held[0], PendingRegister) else None
    if owner is not None:
        if any(getattr(value, "owner", None) is not owner or value.index != at for at, value in enumerate(held)):
            raise violation(state, op, "its accumulators are not those of one wgmma, in their order")
        hand_to(state, op, owner)
        return owner.registers
    if any(isinstance(value, PendingRegister) for value in held):
        raise violation(state, op, "some of its accumulators are still in flight; wait for them before")
    if not state.fenced:
        raise violation(
            state, op, "registers that other instructions wrote are handed to wgmma; put wgmma.fence before it"
        )
    if any(value is None for value in held):
        return None
    return accumulators_of(held, product, state.machine.domain)


@_ACCUMULATORS.effects("wgmma.wait_group", words=" ".join(_OTHERS[1].words), section=_OTHERS[1].section)
def wait_group(state: AgentState, op: Op, pending: Any) -> Steps:
    """Of itself it makes no value readable: the border does, for those that pass through."""
    yield from wgmma.wait(state, op, pending)


_same_rows = Table()
for _row in ROWS:
    if _row.name not in _ACCUMULATORS.rows:
        _same_rows.enter(_row)
_ROWS = joined(_same_rows, _ACCUMULATORS)

# Assembly -------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Assembly:
    """Its graph; for each input (slot of the value, its type, slot of the register), for each output the last two."""

    graph: Graph
    inputs: tuple[tuple[int, Type, int], ...]
    outputs: tuple[tuple[Type, int], ...]

    def moves(self, op: DecodedOp) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
        """Pairs of slots: of values and their registers, of registers and the result that has them."""
        inputs = tuple((slot, register) for slot, _, register in self.inputs)
        return inputs, tuple((register, op.results[0]) for _, register in self.outputs)


def _prepare(op: DecodedOp, program: Program) -> None:
    operands = operands_of(op.attributes["constraints"])
    given = [operand for operand in operands if not operand.is_output]
    text = written_out(op.attributes["asm_string"], operands, _constants(op, given))
    names = {operand.register: operand.type for operand in operands if operand.register}
    entry = parse_body(text, names, f"assembly of {op.source.location}")
    slots = Slots(program.domain, program.reserve, program.reserve(len(entry.registers)))
    where = {register.name: slots.first + register.slot for register in entry.registers}
    graph = graph_of(entry.body, slots, _ROWS)
    pairs = zip(given, op.operands, op.operand_types, strict=True)
    inputs = tuple((slot, type, where[operand.register]) for operand, slot, type in pairs if operand.register)
    results = [operand for operand in operands if operand.is_output]
    type = op.result_types[0] if op.results else None
    types = type.elements if isinstance(type, Struct) else (type,) if type is not None else ()
    outputs = tuple((type, where[operand.register]) for type, operand in zip(types, results, strict=True))
    op.data = _Assembly(graph, inputs, outputs)
    op.acts = any(block.acts for block in graph.blocks)


@OPS.implements("llvm.inline_asm", prepare=_prepare)
def inline_asm(state: AgentState, op: DecodedOp) -> Steps:
    assembly: _Assembly = op.data
    values = state.values
    for slot, type, register in assembly.inputs:
        values[register] = _to_register(values[slot], type)
    passing = {id(value) for slot, _, _ in assembly.inputs if isinstance(value := values[slot], PendingRegister)}
    yield from run_graph(state, assembly.graph)
    state.op = op
    found = [values[register] for _, register in assembly.outputs]
    if passing:
        found = _made_readable(state, op, found, passing, [type for type, _ in assembly.outputs])
    results = tuple(
        _from_register(state, value, type) for value, (type, _) in zip(found, assembly.outputs, strict=True)
    )
    if op.results:
        values[op.results[0]] = results if isinstance(op.result_types[0], Struct) else results[0]


def _constants(op: DecodedOp, given: list[Operand]) -> dict[int, int]:
    """The values of operands that are constants (n), by their numbers. Raises InterpreterError for one that is none."""
    found = {}
    for operand, value in zip(given, op.source.operands, strict=True):
        if not operand.register:
            maker = value.owner
            if not isinstance(maker, ir.Operation | ir.OpView) or maker.operation.name != "llvm.mlir.constant":
                raise InterpreterError(f"{op.describe()}: operand ${operand.number} must be a constant (constraint n)")
            found[operand.number] = int(decode_attribute(maker.operation.attributes["value"]))
    return found


def _made_readable(
    state: AgentState, op: DecodedOp, found: list[Any], passing: set[int], types: Sequence[Type]
) -> list[Any]:
    """Outputs with the accumulators that passed through: nothing can move what reads them above the assembly."""
    owners = {id(value.owner): value.owner for value in found if id(value) in passing}
    for owner in owners.values():
        hand_to(state, op, owner)
        check_done(state, op, owner.group)
    return [
        _to_register(value.payload, type) if id(value) in passing else value
        for value, type in zip(found, types, strict=True)
    ]


def _to_register(value: Any, type: Type) -> Any:
    """A value of LLVM as a register holds it."""
    if value is None or isinstance(value, Packed | Number | Half | PendingRegister):
        return value
    if isinstance(type, Vector):
        return Packed(value, type.element.name)
    if isinstance(type, Scalar):
        return Number(value, type.name) if type.is_float else registers.canonical(value, type.bits)
    return value


def _from_register(state: AgentState, value: Any, type: Type) -> Any:
    """What a register holds as a value of LLVM."""
    if value is None or isinstance(value, PendingRegister):
        return value
    if isinstance(type, Vector):
        return registers.halves(value, type.element.name, state.machine.domain)
    if isinstance(type, Scalar) and type.is_float:
        return registers.number(value, type.name, state.machine.domain)
    return value
