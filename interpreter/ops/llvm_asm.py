"""The llvm dialect: inline assembly, which is PTX with operands of LLVM.

The text becomes the body of a kernel whose registers are the operands ($0, $1, …, outputs first). It is bound to slots
of the agent's values once, and runs like other PTX (interpreter/ptx/). At its border values are converted (border.py).

Accumulators of wgmma in flight pass from one assembly to the next. They become readable as outputs of a wait that takes
them as inputs. They may have only one user, because for a second one the compiler would copy registers in flight.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlir import ir

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.agents import AgentState, Steps
from lowtide.interpreter.machine.branches import run_graph
from lowtide.interpreter.machine.pending import PendingRegister, check_done, hand_to
from lowtide.interpreter.ops.border import Conversion, from_register, to_register
from lowtide.interpreter.program.asm_constraints import Operand, operands_of, written_out
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.graphs import Graph
from lowtide.interpreter.program.ir_attributes import decode_attribute
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.program import Program
from lowtide.interpreter.program.types import Struct
from lowtide.interpreter.ptx.binding import Slots
from lowtide.interpreter.ptx.decoding import graph_of
from lowtide.interpreter.ptx.parsing import parse_body

OPS = OpTable()


@dataclass(frozen=True)
class _Assembly:
    """Its graph; for each input (slot of the value, slot of the register, conversion to a register), for each output
    (slot of the register, conversion to a value, and back)."""

    graph: Graph
    inputs: tuple[tuple[int, int, Conversion | None], ...]
    outputs: tuple[tuple[int, Conversion | None, Conversion | None], ...]

    def moves(self, op: DecodedOp) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
        """Pairs of slots: values and their registers, registers and their results."""
        inputs = tuple((slot, register) for slot, register, _ in self.inputs)
        return inputs, tuple((register, op.results[0]) for register, _, _ in self.outputs)


def _prepare(op: DecodedOp, program: Program) -> Any:
    operands = operands_of(op.attributes["constraints"])
    given = [operand for operand in operands if not operand.is_output]
    text = written_out(op.attributes["asm_string"], operands, _constants(op, given))
    names = {operand.register: operand.type for operand in operands if operand.register}
    entry = parse_body(text, names, f"assembly of {op.source.location}")
    slots = Slots(program, program.reserve_all(entry.registers), are_places=False)
    where = {register.name: slots.of(register) for register in entry.registers}
    pairs = zip(given, op.operands, op.operand_types, strict=True)
    inputs = tuple(
        (slot, where[operand.register], to_register(type)) for operand, slot, type in pairs if operand.register
    )
    results = [operand for operand in operands if operand.is_output]
    type = op.result_types[0] if op.results else None
    types = type.elements if isinstance(type, Struct) else (type,) if type is not None else ()
    outputs = tuple(
        (where[operand.register], from_register(type, program.domain), to_register(type))
        for type, operand in zip(types, results, strict=True)
    )
    graph = graph_of(entry.body, slots)
    op.acts = any(each.acts for block in graph.blocks for each in block.ops)
    return _Assembly(graph, inputs, outputs)


@OPS.implements("llvm.inline_asm", prepare=_prepare)
def inline_asm(state: AgentState, op: DecodedOp) -> Steps:
    assembly: _Assembly = op.data
    values = state.values
    for slot, register, convert in assembly.inputs:
        values[register] = values[slot] if convert is None else convert(values[slot])
    passing = {id(value) for slot, _, _ in assembly.inputs if isinstance(value := values[slot], PendingRegister)}
    present = state.present
    yield from run_graph(state, assembly.graph)
    state.present = present  # lanes that took a branch are at the end of the assembly, not of the kernel
    state.op = op
    found = [values[register] for register, _, _ in assembly.outputs]
    if passing:
        found = _made_readable(state, op, found, passing, [again for _, _, again in assembly.outputs])
    results = tuple(
        value if convert is None else convert(value)
        for value, (_, convert, _) in zip(found, assembly.outputs, strict=True)
    )
    if op.results:
        values[op.results[0]] = results if isinstance(op.result_types[0], Struct) else results[0]


def _constants(op: DecodedOp, given: list[Operand]) -> dict[int, int]:
    """The values of constant operands (n), by number. Raises InterpreterError for an operand that is not constant."""
    found = {}
    for operand, value in zip(given, op.source.operands, strict=True):
        if not operand.register:
            maker = value.owner
            if not isinstance(maker, ir.Operation | ir.OpView) or maker.operation.name != "llvm.mlir.constant":
                raise InterpreterError(
                    f"{op.describe()}: operand ${operand.number} must be a constant (constraint n) [asm-constant]"
                )
            found[operand.number] = int(decode_attribute(maker.operation.attributes["value"]))
    return found


def _made_readable(
    state: AgentState, op: DecodedOp, found: list[Any], passing: set[int], to: Sequence[Conversion | None]
) -> list[Any]:
    """Outputs with the accumulators that passed through: no reader can move above the assembly."""
    owners = {id(value.owner): value.owner for value in found if id(value) in passing}
    for owner in owners.values():
        hand_to(state, op, owner)
        check_done(state, op, owner.group)
    return [
        value if id(value) not in passing else value.payload if convert is None else convert(value.payload)
        for value, convert in zip(found, to, strict=True)
    ]
