"""Resolves registers that hold addresses of parts of parameters (PTX ISA, "Kernel Function Parameters").

nvcc reads a struct that is passed by value through the address of its parameter, and passes on the addresses of tensor
maps in it:

    mov.b64 %rd1, k_param_0;                         ld.param.u32 %r1, [%rd1+128];
    add.s64 %rd2, %rd1, 256;                         cvta.param.u64 %rd3, %rd2;

`resolved` writes the parameter and the offset in place of such registers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from lowtide.interpreter.ptx.syntax import (
    Address,
    Group,
    Immediate,
    Instruction,
    Label,
    Name,
    Negated,
    Operand,
    Register,
)

_MOVES = ("mov.b64", "mov.u64", "mov.s64")
_SUMS = ("add.s64", "add.u64")
_READS = ("ld.param", "cvta.param", "prefetch.tensormap")


def resolved(body: Sequence[Label | Instruction], parameters: Collection[str]) -> list[Label | Instruction]:
    """The body, in which parameters replace the registers that only ever hold their addresses.

    Other registers, such as one that holds either of two addresses, hold those of the parameters in memory.
    """
    instructions = [each for each in body if isinstance(each, Instruction)]
    if not any(each.name in _MOVES and isinstance(each.operands[1], Name | Address) for each in instructions):
        return list(body)
    written = Counter(each for instruction in instructions for each in _registers(instruction.operands[:1]))
    parts: dict[Register, Address] = {}
    for each in instructions:
        part = _part(each, parts, parameters)
        if part is not None and each.guard is None and written[each.operands[0]] == 1:  # type: ignore[index]
            parts[each.operands[0]] = part  # type: ignore[index]
    if not parts:
        return list(body)
    changed = [_read(each, parts) if isinstance(each, Instruction) else each for each in body]
    return _without_unused(changed, parts)


def _part(instruction: Instruction, parts: dict[Register, Address], parameters: Collection[str]) -> Address | None:
    """The part of a parameter whose address an instruction computes."""
    operands = instruction.operands
    if len(operands) < 2 or not isinstance(operands[0], Register):
        return None
    first = operands[1]
    if instruction.name in _MOVES:
        if isinstance(first, Name) and first.name in parameters:
            return Address(first)
        if isinstance(first, Address) and isinstance(first.base, Name) and first.base.name in parameters:
            return first
        return parts.get(first) if isinstance(first, Register) else None
    if instruction.name in _SUMS and isinstance(first, Register) and isinstance(operands[2], Immediate):
        known = parts.get(first)
        return None if known is None else replace(known, offset=known.offset + operands[2].value)
    return None


def _read(instruction: Instruction, parts: dict[Register, Address]) -> Instruction:
    """A read of a parameter by its name."""
    if not instruction.name.startswith(_READS):
        return instruction
    operands = tuple(_named(each, parts) for each in instruction.operands)
    return instruction if operands == instruction.operands else replace(instruction, operands=operands)


def _named(operand: Operand, parts: dict[Register, Address]) -> Operand:
    if isinstance(operand, Register):
        return parts.get(operand, operand)
    if isinstance(operand, Address) and isinstance(operand.base, Register) and operand.base in parts:
        known = parts[operand.base]
        return replace(known, offset=known.offset + operand.offset)
    return operand


def _without_unused(body: list[Label | Instruction], parts: dict[Register, Address]) -> list[Label | Instruction]:
    """The body without the computations of addresses that nothing reads any more."""

    while True:
        read: set[Operand] = set()
        for each in body:
            if isinstance(each, Instruction):
                read.update(_registers(each.operands[_computes(each, parts) :]))
        kept = [each for each in body if not _computes(each, parts, but=read)]
        if len(kept) == len(body):
            return kept
        body = kept


def _computes(item: Label | Instruction, parts: dict[Register, Address], but: Collection[Operand] = ()) -> bool:
    """Whether an item computes one of the addresses, other than those in `but`."""
    if not isinstance(item, Instruction) or not item.operands:
        return False
    return item.operands[0] in parts and item.operands[0] not in but


def _registers(operands: Sequence[Operand]) -> Iterator[Register]:
    for each in operands:
        if isinstance(each, Register):
            yield each
        elif isinstance(each, Negated):
            yield each.register
        elif isinstance(each, Group):
            yield from _registers(each.elements)
        elif isinstance(each, Address):
            yield from _registers((each.base, *(each.coordinates or ())))
