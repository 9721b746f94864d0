"""Decodes a function of IR into plain Python data (program.py), once for all agents that run it."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate, pairwise
from types import MappingProxyType
from typing import Any

from mlir import ir

from lowtide.dialects import Outline
from lowtide.errors import NotInterpreted
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.program.batches import batched
from lowtide.interpreter.program.decoded import DecodedOp, Ending
from lowtide.interpreter.program.graphs import EXIT, Block, Branch, Edge, Graph, Move
from lowtide.interpreter.program.ir_attributes import Attributes, decode_attribute
from lowtide.interpreter.program.ir_types import decode_type
from lowtide.interpreter.program.op_table import Implementation
from lowtide.interpreter.program.program import DecodedBlock, Program
from lowtide.interpreter.program.types import Type, integer_dtype

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

# The terminators of a function of several blocks, by dialect.
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

    Raises NotInterpreted for an op without a handler, and for a nested region with several blocks.
    """
    name = ir.StringAttr(function.attributes["sym_name"]).value
    program = Program(name, level, domain, DecodedBlock((), (), (), (), ""), 0)
    program.attributes = {named: decode_attribute(function.attributes[named]) for named in function.attributes}
    with _without_collections():
        outline = Outline(function)
        decoder = _Decoder(program, table, outline)
        (blocks,) = outline.regions
        if len(blocks) > 1:
            program.block = decoder.entry(blocks[0])
            program.graph = decoder.graph(blocks)
        else:
            program.block = decoder.region(blocks, "")
    program.names = None  # it must not outlive the module
    return program


@contextmanager
def _without_collections() -> Iterator[None]:
    """Pause the garbage collector, which would scan again and again: all objects made here stay."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


class _Decoder:
    """Decodes an outline (dialects/extension/Outline.cpp); its values are the first slots of the program."""

    def __init__(self, program: Program, table: Mapping[str, Implementation], outline: Outline) -> None:
        self.program = program
        self.table = table
        self.outline = outline
        program.reserve(outline.values)
        types = [decode_type(type) for type in outline.types]
        self.slot_types = [types[number] for number in outline.value_types]
        self.known: dict[int, Any] = {}

    def region(self, blocks: list[Any], owner: str) -> DecodedBlock:
        if not blocks:
            return DecodedBlock((), (), (), (), "")
        (arguments, entries) = blocks[0]
        ops: list[DecodedOp] = []
        results: tuple[int, ...] = ()
        terminator = ""
        for entry in entries:
            if entry[1] in TERMINATORS:
                results, terminator = entry[2], entry[1]
            else:
                ops.append(self.op(entry))
        invariant, varying = _parted(ops, arguments) if owner == "scf.for" else ([], ops)
        return DecodedBlock(
            arguments, self.types_of(arguments), batched(varying), results, terminator, tuple(invariant)
        )

    def types_of(self, slots: tuple[int, ...]) -> tuple[Type, ...]:
        return tuple([self.slot_types[slot] for slot in slots])

    def entry(self, block: Any) -> DecodedBlock:
        """The arguments of a function of several blocks."""
        return DecodedBlock(block[0], self.types_of(block[0]), (), (), "")

    def graph(self, blocks: list[Any]) -> Graph:
        """The blocks of a function, and the branches between them."""
        made = []
        for _, (*entries, last) in blocks:
            ops = batched([self.op(entry) for entry in entries])
            made.append(Block(ops, self.branch(last, blocks), any(op.acts for op in ops)))
        return Graph.of(made)

    def branch(self, entry: Any, blocks: list[Any]) -> Branch:
        """The branch that ends a block. Raises NotInterpreted unless it is a branch or a return without values."""
        number, name, operands, _, _, successors = entry
        op, kind = self.outline.operation(number), BRANCHES.get(name)
        if kind is None or (kind == "return" and operands):
            raise NotInterpreted(
                f"{op.location}: a block ends with {name}{' of a value' if kind else ''}, which is not interpreted; "
                f"known are {', '.join(name for name, kind in BRANCHES.items() if kind != 'return')} and a plain return"
                " [block-end]"
            )
        ending = Ending(op)
        if kind == "return":
            return Branch((Edge(EXIT),), op=ending)
        decode = {named: decode_attribute(op.attributes[named]) for named in op.attributes}
        if kind == "br":
            return Branch((self.edge(successors[0], operands, blocks),), op=ending)
        sizes = decode["operandSegmentSizes"]
        if kind == "cond_br":
            ends = list(accumulate(sizes))
            groups = [operands[ends[0] : ends[1]], operands[ends[1] :]]
            edges = [self.edge(*pair, blocks) for pair in zip(successors, groups, strict=True)]
            return Branch(tuple(edges), operands[0], {True: 0}, ending)
        ends = list(accumulate((1, sizes[1], *decode["case_operand_segments"])))
        groups = [operands[start:end] for start, end in pairwise(ends)]
        default, *cases = (self.edge(*pair, blocks) for pair in zip(successors, groups, strict=True))
        values = decode["case_values"].tolist() if cases else []
        numbered = {int(value): number for number, value in enumerate(values)}
        return Branch((*cases, default), operands[0], numbered, ending)

    def edge(self, block: int, operands: tuple[int, ...], blocks: list[Any]) -> Edge:
        """An edge that passes a block its arguments."""
        moves = []
        for operand, argument in zip(operands, blocks[block][0], strict=True):
            moves.append(Move(operand, argument, integer_dtype(self.slot_types[argument])))
        return Edge(block, tuple(moves))

    def op(self, entry: Any) -> Any:
        """An op, or the instruction that it decodes to."""
        number, name, operands, results, regions, _ = entry
        implementation = self.table.get(name)
        if implementation is None:
            raise NotInterpreted(
                f"{self.outline.operation(number).location}: {name} is not interpreted at level "
                f"{self.program.level}; the legal ops of a level are interpreted: take a dump of it"
                " [op-without-meaning]"
            )
        self.program.collective &= not implementation.by_warp
        decoded = DecodedOp(
            name,
            implementation.handler,
            implementation.resumable,
            operands,
            results,
            self.types_of(operands),
            self.types_of(results),
            Attributes(self.outline, number, self.known),
            self.regions(entry) if regions else (),
            self.outline,
            number,
            None,
            implementation.acts,
            implementation.bulk,
        )
        if implementation.decode is not None:
            return implementation.decode(decoded, self.program)
        if implementation.prepare is not None:
            decoded.data = implementation.prepare(decoded, self.program)
        return decoded

    def regions(self, entry: Any) -> tuple[DecodedBlock, ...]:
        number, name, *_, regions, _ = entry
        for blocks in regions:
            if len(blocks) > 1:
                raise NotInterpreted(
                    f"{self.outline.operation(number).location}: a region of {name} has {len(blocks)} blocks; only the "
                    "body of a function may [region-blocks]"
                )
        return tuple([self.region(blocks, name) for blocks in regions])


def _parted(ops: list[DecodedOp], arguments: tuple[int, ...]) -> tuple[list[DecodedOp], list[DecodedOp]]:
    """The ops of a loop's body that compute the same in each iteration, and the others."""
    changing = set(arguments)
    invariant, varying = [], []
    for op in ops:
        computes = not (op.acts or op.resumable or op.regions or (op.bulk is not None and op.bulk.accesses))
        computes = computes and getattr(op, "computes", True)  # an instruction may also read what others write
        if computes and changing.isdisjoint(op.operands):
            invariant.append(op)
        else:
            varying.append(op)
            changing.update(op.results)
    return invariant, varying
