"""Decodes a function of IR into plain Python data (program.py), once for all agents that run it."""

from __future__ import annotations

from collections.abc import Mapping

from mlir import ir

from lowtide.errors import InterpreterError
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.program.ir_attributes import decode_attribute
from lowtide.interpreter.program.ir_types import Type, decode_type
from lowtide.interpreter.program.op_table import Implementation
from lowtide.interpreter.program.program import DecodedBlock, DecodedOp, Program

TERMINATORS = frozenset(
    {
        "func.return",
        "gpu.return",
        "tile.return",
        "tile.yield",
        "scf.yield",
        "scf.condition",
        "scf.reduce",
        "llvm.return",
    }
)


def decode(function: ir.Operation, level: str, domain: Domain, table: Mapping[str, Implementation]) -> Program:
    """Decode a function-like op with one block.

    Raises InterpreterError for an op without a handler, or control flow between blocks.
    """
    name = ir.StringAttr(function.attributes["sym_name"]).value
    program = Program(name, level, domain, DecodedBlock((), (), (), (), ""), 0)
    program.attributes = {named: decode_attribute(function.attributes[named]) for named in function.attributes}
    decoder = _Decoder(program, table)
    program.block = decoder.region(function.regions[0], function)
    program.slots = len(decoder.slots)
    return program


class _Decoder:
    def __init__(self, program: Program, table: Mapping[str, Implementation]) -> None:
        self.program = program
        self.table = table
        self.slots: dict[ir.Value, int] = {}
        self.types: dict[ir.Type, Type] = {}

    def define(self, value: ir.Value) -> int:
        return self.slots.setdefault(value, len(self.slots))

    def type_of(self, value: ir.Value) -> Type:
        type = value.type
        if type not in self.types:
            self.types[type] = decode_type(type)
        return self.types[type]

    def region(self, region: ir.Region, owner: ir.Operation) -> DecodedBlock:
        blocks = list(region.blocks)
        if len(blocks) > 1:
            raise InterpreterError(
                f"{owner.location}: {owner.name} has {len(blocks)} blocks; the interpreter runs structured control "
                "flow (scf) only: interpret level nvvm, before scf is lowered to branches"
            )
        if not blocks:
            return DecodedBlock((), (), (), (), "")
        block = blocks[0]
        arguments = tuple(self.define(argument) for argument in block.arguments)
        types = tuple(self.type_of(argument) for argument in block.arguments)
        ops: list[DecodedOp] = []
        results: tuple[int, ...] = ()
        terminator = ""
        for view in block.operations:
            op = view.operation
            if op.name in TERMINATORS:
                results, terminator = tuple(self.slots[operand] for operand in op.operands), op.name
            else:
                ops.append(self.op(op))
        return DecodedBlock(arguments, types, tuple(ops), results, terminator)

    def op(self, op: ir.Operation) -> DecodedOp:
        entry = self.table.get(op.name)
        if entry is None:
            raise InterpreterError(
                f"{op.location}: {op.name} has no meaning to the interpreter at level {self.program.level}; "
                "levels problem to nvvm are interpreted"
            )
        self.program.collective &= not entry.by_warp
        operands = tuple(self.slots[operand] for operand in op.operands)
        results = tuple(self.define(result) for result in op.results)
        decoded = DecodedOp(
            name=op.name,
            handler=entry.handler,
            resumable=entry.resumable,
            operands=operands,
            results=results,
            operand_types=tuple(self.type_of(operand) for operand in op.operands),
            result_types=tuple(self.type_of(result) for result in op.results),
            attributes={named: decode_attribute(op.attributes[named]) for named in op.attributes},
            regions=tuple(self.region(region, op) for region in op.regions),
            source=op,
        )
        if entry.prepare is not None:
            entry.prepare(decoded, self.program)
        return decoded
