"""Ops that are one instruction of PTX: each is written as PTX, and bound to the table of instructions in ptx/.

In the text, `$0`, `$1`, … are the op's operands and `$d` its result; for a struct, the elements are `$d0`, `$d1`, ….
Values are converted as at the border of inline assembly (border.py). Messages name the op.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

from lowtide.errors import InterpreterError
from lowtide.interpreter.ops.border import from_register, to_register
from lowtide.interpreter.program.decoded import DecodedOp
from lowtide.interpreter.program.op_table import OpTable
from lowtide.interpreter.program.program import Program
from lowtide.interpreter.program.types import Struct
from lowtide.interpreter.ptx.binding import Slots, bind, bind_special
from lowtide.interpreter.ptx.parsing import parse_body
from lowtide.interpreter.ptx.rows import ROWS
from lowtide.interpreter.ptx.running import Op
from lowtide.interpreter.ptx.syntax import Instruction

#: Writes an op as PTX.
Writer: TypeAlias = Callable[[DecodedOp], str]

_NAME = re.compile(r"\$\w+")
_WORD = re.compile(r"([\w.]+)>*$")


def enter(table: OpTable, writers: dict[str, str | Writer]) -> None:
    """Register ops, by name, with their PTX text or with a function that writes it."""
    for name, writer in writers.items():
        table.decodes(name)(_decoder(writer))


def word(op: DecodedOp, attribute: str) -> str:
    """The keyword of an enum attribute: bf16 of #nvvm.wgmma_type<bf16>; empty if the op lacks it."""
    found = _WORD.search(str(op.attributes.get(attribute, "")))
    return "" if found is None else found[1]


def shape_of(op: DecodedOp) -> str:
    """The shape in an op's attributes: `m16n8k16`."""
    return "".join(re.findall(r"[mnk] = \d+", op.attributes["shape"])).replace(" = ", "")


def listed(names: str, first: int, count: int) -> str:
    """`count` registers in braces: `{$3, $4}`."""
    return f"{{{', '.join(f'{names}{number}' for number in range(first, first + count))}}}"


def numbers_of_groups(op: DecodedOp) -> list[list[str]]:
    """The names of an op's operands, by operand group."""
    groups, start = [], 0
    for size in op.attributes["operandSegmentSizes"]:
        groups.append([f"${number}" for number in range(start, start + size)])
        start += size
    return groups


def _decoder(writer: str | Writer) -> Callable[[DecodedOp, Program], Op]:
    return lambda op, program: instruction(op, program, writer if isinstance(writer, str) else writer(op))


def instruction(op: DecodedOp, program: Program, text: str) -> Op:
    """The op as an instruction. Raises InterpreterError for an instruction without a row."""
    parsed, names = _parsed(text)
    where = [op.results[0] if name.startswith("$d") else op.operands[int(name[1:])] for name in names]
    conversions = zip(op.operands, map(to_register, op.operand_types), strict=True)
    readers = {slot: convert for slot, convert in conversions if convert is not None}
    slots = Slots(program, where, readers=readers, give=_giver(op, program), are_places=False)
    try:
        made = bind_special(parsed, slots) or bind(parsed, ROWS, slots)
    except InterpreterError as error:
        raise type(error)(f"{op.describe()}: {error}") from error
    made.source, made.results, made.is_typed = op, op.results, True
    return made


@lru_cache(maxsize=4096)
def _parsed(text: str) -> tuple[Instruction, tuple[str, ...]]:
    """The instruction, and the names of its registers in the order of their numbers."""
    names = tuple(dict.fromkeys(_NAME.findall(text)))
    (parsed,) = parse_body(text, dict.fromkeys(names, "b32"), "<op>").body
    assert isinstance(parsed, Instruction)
    return parsed, names


def _giver(op: DecodedOp, program: Program) -> Callable[[list[Any], tuple[int, ...], Any], None]:
    """A function that puts an instruction's result into the op's: the last register, or all of them as a struct."""
    if not op.results:
        return lambda values, slots, result: None
    (slot,), (type,) = op.results, op.result_types
    convert, is_struct = from_register(type, program.domain), isinstance(type, Struct)

    def give(values: list[Any], slots: tuple[int, ...], result: Any) -> None:
        if not is_struct and isinstance(result, tuple):
            result = result[-1]
        values[slot] = result if convert is None else convert(result)

    return give
