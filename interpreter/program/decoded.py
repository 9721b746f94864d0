"""Decoded ops of IR: plain data, with the op itself for messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from mlir import ir

from lowtide.dialects import Outline
from lowtide.dialects.locations import place_of
from lowtide.interpreter.program.batches import Bulk
from lowtide.interpreter.program.program import DecodedBlock, Program

_CONSTANTS = ("arith.constant", "llvm.mlir.constant")

#: Interprets an op: (state: AgentState, op: DecodedOp), see machine/execution.py.
Handler: TypeAlias = Callable[..., Any]


@dataclass(slots=True, eq=False)
class DecodedOp:
    """One op: slots of its operands and results, attributes and regions as plain data."""

    name: str
    handler: Handler
    resumable: bool
    operands: tuple[int, ...]
    results: tuple[int, ...]
    operand_types: tuple[Any, ...]  # classes of program/types.py; the op's verifier says which
    result_types: tuple[Any, ...]
    attributes: Mapping[str, Any]
    regions: tuple[DecodedBlock, ...]
    outline: Outline
    number: int  # its number in the outline
    data: Any = None
    acts: bool = True  # whether it does more than compute values and poll
    bulk: Bulk | None = None

    @property
    def source(self) -> ir.Operation:
        """The op, only for messages and `prepare`."""
        return self.outline.operation(self.number)

    def operand_groups(self) -> list[tuple[int, ...]]:
        """Operand slots by group, for ops with `operandSegmentSizes`."""
        groups, start = [], 0
        for size in self.attributes["operandSegmentSizes"]:
            groups.append(self.operands[start : start + size])
            start += size
        return groups

    def name_in(self, program: Program) -> str:
        """The SSA name of the first result, for messages; only for `prepare`."""
        result = self.source.results[0]
        if program.names is None:
            program.names = ir.AsmState(result)  # of all values in the module: it takes as long as one name
        return str(result.get_name(program.names))

    @property
    def line(self) -> int:
        """The op's line in the text of its module; 0 if it has none."""
        return _line_of(self.source)

    def is_settled(self, count: int) -> bool:
        """Whether the first `count` operands are constants."""
        owners = [operand.owner for operand in list(self.source.operands)[:count]]
        return bool(owners) and all(not isinstance(owner, ir.Block) and owner.name in _CONSTANTS for owner in owners)

    def describe(self) -> str:
        """The op's text, shortened, and its location."""
        return described(self.source)


def described(op: ir.Operation) -> str:
    """An op's text, shortened, and its location."""
    text = " ".join(op.get_asm(skip_regions=True, use_local_scope=False).split())
    return f"`{text if len(text) <= 120 else text[:117] + '…'}` at {op.location}"


def _line_of(op: ir.Operation) -> int:
    at = place_of(op.location)
    return 0 if at is None else at[1]


@dataclass(frozen=True)
class Ending:
    """The op that ends a block, for messages: it has no handler."""

    source: ir.Operation

    @property
    def name(self) -> str:
        return str(self.source.name)

    @property
    def line(self) -> int:
        return _line_of(self.source)

    def describe(self) -> str:
        return described(self.source)
