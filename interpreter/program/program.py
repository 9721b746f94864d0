"""A function of IR, decoded once into plain Python data, and run for many agents.

The contract of a handler (`ops_<dialect>.py`, one function an op):

    @OPS.implements("arith.addf")
    def addf(state: AgentState, op: DecodedOp) -> None:
        a, b = op.operands                      # slot numbers
        state.values[op.results[0]] = state.machine.domain.add(state.values[a], state.values[b], op.result_types[0])

- A handler that may wait, or that runs a region, is a generator function: it yields `agents.Wait` objects and runs a
  region by `yielded = yield from run_block(state, op.regions[0])`.
- What can be worked out before the run goes into `prepare`: `@OPS.implements("x.y", prepare=f)` with
  `f(op: DecodedOp, program: Program)`; it leaves its result in `op.data`.
- A terminator has no handler: `run_block` returns the values of its operands.
- `state.mask` is None while all lanes are active, else a bool array (32,) of those that are. Handlers without side
  effects may ignore it; memory, barriers and other effects must not.
- A broken rule: `raise violation(state, op, "what, the limit, the way out")`.

Values in `state.values`: integers and index: a Python int where uniform (bool for i1), else an array (32,) of the
type's `Scalar.dtype`. Floats: payloads of the number domain, a scalar where uniform, else an array (32,). Vectors:
arrays (32, *shape), or (1, *shape) where uniform. Pointers: byte addresses as i64. Tiles (levels cta … pipelined): an
array of the tile's shape. Fragments: array (32, values).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from mlir import ir

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.teams import Role
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.program.ir_attributes import decode_attribute
from lowtide.interpreter.program.ir_types import Type, decode_type

if TYPE_CHECKING:
    from lowtide.interpreter.machine.agents import AgentState, Wait

Steps: TypeAlias = "Generator[Wait, None, Any]"
Handler: TypeAlias = Callable[..., Any]
Prepare: TypeAlias = "Callable[[DecodedOp, Program], None]"

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


@dataclass(frozen=True)
class Implementation:
    handler: Handler
    prepare: Prepare | None
    resumable: bool
    by_warp: bool


class OpTable(dict[str, Implementation]):
    """Handlers by op name. `by_warp`: its ops speak of warps and lanes, so an agent is a warp."""

    def __init__(self, by_warp: bool = False) -> None:
        super().__init__()
        self.by_warp = by_warp

    def implements(self, *names: str, prepare: Prepare | None = None) -> Callable[[Handler], Handler]:
        """Enter the decorated function as the handler of `names`."""

        def enter(handler: Handler) -> Handler:
            for name in names:
                self[name] = Implementation(handler, prepare, inspect.isgeneratorfunction(handler), self.by_warp)
            return handler

        return enter


@dataclass(slots=True, eq=False)
class DecodedOp:
    """One op: slots of its operands and results, attributes and regions as plain data."""

    name: str
    handler: Handler
    resumable: bool
    operands: tuple[int, ...]
    results: tuple[int, ...]
    operand_types: tuple[Type, ...]
    result_types: tuple[Type, ...]
    attributes: dict[str, Any]
    regions: tuple[DecodedBlock, ...]
    source: ir.Operation  # for messages and `prepare` only
    data: Any = None

    def operand_groups(self) -> list[tuple[int, ...]]:
        """Operand slots by operand group, for ops with `operandSegmentSizes`."""
        groups, start = [], 0
        for size in self.attributes["operandSegmentSizes"]:
            groups.append(self.operands[start : start + size])
            start += size
        return groups

    def describe(self) -> str:
        """The op's text, short, and its location."""
        text = " ".join(self.source.get_asm(skip_regions=True, use_local_scope=False).split())
        return f"`{text if len(text) <= 120 else text[:117] + '…'}` at {self.source.location}"


@dataclass(slots=True, eq=False)
class DecodedBlock:
    arguments: tuple[int, ...]
    argument_types: tuple[Type, ...]
    ops: tuple[DecodedOp, ...]
    results: tuple[int, ...]  # slots of the terminator's operands
    terminator: str


@dataclass(eq=False)
class Program:
    """A decoded function.

    `buffers` are those in shared memory: name, first byte, bytes. `collective`: no op speaks of warps, so a whole CTA
    is one agent. `roles` are those of its sm.roles. `attributes` are the function's. `shared_origin` is the address at
    which its shared memory begins: at no greater power of two than the module asks for, up to 1024 (address 0).
    """

    name: str
    level: str
    domain: Domain
    block: DecodedBlock
    slots: int
    buffers: list[tuple[str, int, int]] = field(default_factory=list)
    collective: bool = True
    roles: tuple[Role, ...] = ()
    ring_users: dict[int, RingUsers] = field(default_factory=dict)  # by the slot of the ring
    attributes: dict[str, Any] = field(default_factory=dict)
    shared_origin: int = 0


@dataclass
class RingUsers:
    """Which roles (their numbers in sm.roles) fill a ring, and which read it; none where there are no roles."""

    producers: set[int] = field(default_factory=set)
    consumers: set[int] = field(default_factory=set)


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


def run_block(state: AgentState, block: DecodedBlock) -> Steps:
    """Run a block's ops in order; returns the values of its terminator's operands."""
    for op in block.ops:
        state.op = op
        if op.resumable:
            yield from op.handler(state, op)
        else:
            op.handler(state, op)
    values = state.values
    return [values[slot] for slot in block.results]


def violation(state: AgentState, op: DecodedOp, rule: str) -> InterpreterError:
    """The error for a broken rule: the op, where it stands, who ran it, and the rule."""
    return InterpreterError(f"{op.describe()}, level {state.machine.level}, {state.who()}: {rule}")
