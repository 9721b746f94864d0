"""Decodes a function of IR into plain Python data (program.py), once for all agents that run it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import Any

from mlir import ir

from lowtide.errors import NotInterpreted
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.program.batches import batched
from lowtide.interpreter.program.graphs import EXIT, Block, Branch, Edge, Graph, Move
from lowtide.interpreter.program.ir_attributes import Attributes, decode_attribute
from lowtide.interpreter.program.ir_types import Scalar, Type, decode_type
from lowtide.interpreter.program.op_table import Implementation
from lowtide.interpreter.program.program import DecodedBlock, DecodedOp, Ending, Program

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

# What ends a block where there are several, by dialect.
BRANCHES: Mapping[str, str] = MappingProxyType(
    {
        "llvm.br": "br",
        "llvm.cond_br": "cond_br",
        "llvm.switch": "switch",
        "cf.br": "br",
        "cf.cond_br": "cond_br",
        "cf.switch": "switch",
    }
    | {name: "return" for name in ("llvm.return", "gpu.return", "func.return")}
)


def decode(function: ir.Operation, level: str, domain: Domain, table: Mapping[str, Implementation]) -> Program:
    """Decode a function-like op.

    Raises NotInterpreted for an op without a handler, and for a region inside it that has several blocks.
    """
    name = ir.StringAttr(function.attributes["sym_name"]).value
    program = Program(name, level, domain, DecodedBlock((), (), (), (), ""), 0)
    program.attributes = {named: decode_attribute(function.attributes[named]) for named in function.attributes}
    decoder = _Decoder(program, table)
    body = function.regions[0]
    if len(body.blocks) > 1:
        program.block = decoder.entry(body.blocks[0])
        program.graph = decoder.graph(body)
    else:
        program.block = decoder.region(body, function)
    return program


class _Decoder:
    def __init__(self, program: Program, table: Mapping[str, Implementation]) -> None:
        self.program = program
        self.table = table
        self.slots: dict[ir.Value, int] = {}
        self.types: dict[ir.Type, Type] = {}
        self.slot_types: dict[int, Type] = {}
        self.known: dict[ir.Attribute, Any] = {}

    def define(self, value: ir.Value) -> int:
        slot = self.slots.get(value)
        if slot is None:
            slot = self.slots[value] = self.program.reserve()
            self.slot_types[slot] = self.type_of(value)
        return slot

    def type_of(self, value: ir.Value) -> Type:
        type = value.type
        found = self.types.get(type)
        if found is None:
            found = self.types[type] = decode_type(type)
        return found

    def region(self, region: ir.Region, owner: ir.Operation) -> DecodedBlock:
        blocks = list(region.blocks)
        if len(blocks) > 1:
            raise NotInterpreted(
                f"{owner.location}: a region of {owner.name} has {len(blocks)} blocks; only the body of a function may"
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
        invariant, varying = _parted(ops, arguments) if owner.name == "scf.for" else ([], ops)
        return DecodedBlock(arguments, types, batched(varying), results, terminator, tuple(invariant))

    def entry(self, block: ir.Block) -> DecodedBlock:
        """The arguments of a function of several blocks."""
        arguments = tuple(self.define(argument) for argument in block.arguments)
        return DecodedBlock(arguments, tuple(self.type_of(argument) for argument in block.arguments), (), (), "")

    def graph(self, region: ir.Region) -> Graph:
        """The blocks of a function, and the branches between them."""
        numbers = {block: number for number, block in enumerate(region.blocks)}
        made = []
        for block in region.blocks:
            *views, last = block.operations
            ops = batched([self.op(view.operation) for view in views])
            made.append(Block(ops, self.branch(last.operation, numbers), any(op.acts for op in ops)))
        return Graph.of(made)

    def branch(self, op: ir.Operation, numbers: dict[ir.Block, int]) -> Branch:
        """How a block ends. Raises NotInterpreted for what is neither a branch nor a return of nothing."""
        kind = BRANCHES.get(op.name)
        operands = list(op.operands)
        if kind is None or (kind == "return" and operands):
            raise NotInterpreted(
                f"{op.location}: a block ends with {op.name}{' of a value' if kind else ''}, which is not interpreted; "
                f"known are {', '.join(name for name, kind in BRANCHES.items() if kind != 'return')} and a plain return"
            )
        ending = Ending(op)
        if kind == "return":
            return Branch((Edge(EXIT),), op=ending)
        decode = {named: decode_attribute(op.attributes[named]) for named in op.attributes}
        if kind == "br":
            return Branch((self.edge(op.successors[0], operands, numbers),), op=ending)
        sizes = decode["operandSegmentSizes"]
        if kind == "cond_br":
            ends = list(accumulate(sizes))
            groups = [operands[ends[0] : ends[1]], operands[ends[1] :]]
            edges = [self.edge(*pair, numbers) for pair in zip(op.successors, groups, strict=True)]
            return Branch(tuple(edges), self.define(operands[0]), {True: 0}, ending)
        ends = list(accumulate((1, sizes[1], *decode["case_operand_segments"])))
        groups = [operands[start:end] for start, end in pairwise(ends)]
        default, *cases = (self.edge(*pair, numbers) for pair in zip(op.successors, groups, strict=True))
        values = decode["case_values"].tolist() if cases else []
        numbered = {int(value): number for number, value in enumerate(values)}
        return Branch((*cases, default), self.define(operands[0]), numbered, ending)

    def edge(self, block: ir.Block, operands: list[ir.Value], numbers: dict[ir.Block, int]) -> Edge:
        """An edge that gives a block its arguments."""
        moves = []
        for operand, argument in zip(operands, block.arguments, strict=True):
            type = self.type_of(argument)
            dtype = type.dtype if isinstance(type, Scalar) and not type.is_float else None
            moves.append(Move(self.define(operand), self.define(argument), dtype))
        return Edge(numbers[block], tuple(moves))

    def op(self, op: ir.Operation) -> DecodedOp:
        name = op.name
        entry = self.table.get(name)
        if entry is None:
            raise NotInterpreted(
                f"{op.location}: {name} has no meaning to the interpreter at level {self.program.level}; "
                "levels problem to llvm are interpreted"
            )
        self.program.collective &= not entry.by_warp
        operands = tuple([self.define(operand) for operand in op.operands])
        results = tuple([self.define(result) for result in op.results])
        decoded = DecodedOp(
            name=name,
            handler=entry.handler,
            resumable=entry.resumable,
            operands=operands,
            results=results,
            operand_types=tuple([self.slot_types[slot] for slot in operands]),
            result_types=tuple([self.slot_types[slot] for slot in results]),
            attributes=Attributes(op, self.known),
            regions=tuple([self.region(region, op) for region in op.regions]),
            source=op,
            acts=entry.acts,
            bulk=entry.bulk,
        )
        if entry.prepare is not None:
            entry.prepare(decoded, self.program)
        return decoded


def _parted(ops: list[DecodedOp], arguments: tuple[int, ...]) -> tuple[list[DecodedOp], list[DecodedOp]]:
    """The ops of a loop's body that compute alike in each turn, and the others."""
    changing = set(arguments)
    invariant, varying = [], []
    for op in ops:
        computes = not (op.acts or op.resumable or op.regions or (op.bulk is not None and op.bulk.accesses))
        if computes and changing.isdisjoint(op.operands):
            invariant.append(op)
        else:
            varying.append(op)
            changing.update(op.results)
    return invariant, varying
