"""Whether the registers of an instruction fit its type (PTX ISA, "Type Checking Rules", "Instruction Operands").

A register must have the size of the instruction's type. A register of a float type does not fit an integer type, nor
the reverse; a register of a `.b` type fits both. Registers that hold loaded or stored data may be wider ("Operand Size
Exceeding Instruction-Type Size"). The interpreter itself needs no declared types: inline assembly and ops have none.
"""

from collections.abc import Iterator, Mapping
from itertools import chain
from types import MappingProxyType

from lowtide.errors import InterpreterError
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.ptx.rows import ROWS
from lowtide.interpreter.ptx.syntax import Address, Entry, Group, Instruction, Module, Operand, Register
from lowtide.interpreter.ptx.table import bits_of

_WHOLE = """
abs add and brev copysign cnot cos div ex2 fma lg2 mad mad.hi mad.lo max min mul mul.hi mul.lo neg not or rcp rem rsqrt
sad sin sqrt sub tanh xor
"""
_STRONG = "ld.acquire ld.relaxed ld.volatile st.relaxed st.release st.volatile"
_CHECKED: Mapping[str, int | None] = MappingProxyType(
    {
        **dict.fromkeys(_WHOLE.split()),
        **dict.fromkeys(("atom", "red")),
        **dict.fromkeys(("shl", "shr"), 2),
        "selp": 3,
        **dict.fromkeys(f"ld ld.param ld.param::entry st {_STRONG}".split()),
    }
)
"""For each row of the table, the number of leading operands that have the instruction's type. None: all operands but
addresses have it."""
_VECTORS = {"v2": 2, "v4": 4, "v8": 8}


def check_operands(module: Module, entry: Entry, domain: Domain) -> None:
    """Raises InterpreterError, as ptxas does, for the first instruction of a kernel or of a function whose registers do
    not fit its type. Instructions that are not interpreted are not checked.
    """
    rows: dict[str, tuple[str, str, int]] = {}
    bodies = (entry.body, *(each.entry.body for each in module.functions.values()))
    for each in chain.from_iterable(bodies):
        if not isinstance(each, Instruction):
            continue
        if each.guard is not None and each.guard.register.type != "pred":
            raise InterpreterError(
                f"{each.describe()}: the guard {each.guard.register.name} is a register of .{each.guard.register.type};"
                " a guard is a predicate: declare it as .pred [guard-type]"
            )
        if each.name not in rows:
            rows[each.name] = _row_of(each, domain)
        name, type, count = rows[each.name]
        if type:
            _check(each, name, type, count)


def _row_of(instruction: Instruction, domain: Domain) -> tuple[str, str, int]:
    """The row of an instruction, its type, and the number of elements of its data. The type is "" if the instruction is
    not checked."""
    try:
        form = ROWS.form(instruction, domain)
    except InterpreterError:
        return "", "", 1
    name = form.row.name
    if len(form.types) != 1 or name not in _CHECKED:
        return "", "", 1
    return name, form.types[0], next((_VECTORS[word] for word in form.words if word in _VECTORS), 1)


def _check(instruction: Instruction, name: str, type: str, count: int) -> None:
    has_hint = "L2::cache_hint" in instruction.name
    operands = instruction.operands[: -1 if has_hint else _CHECKED[name]]
    is_data = name.split(".")[0] in ("ld", "st")
    if is_data:
        for data in operands:
            held = len(data.elements) if isinstance(data, Group) else 1
            if not isinstance(data, Address) and held != count:
                raise InterpreterError(
                    f"{instruction.describe()}: {held} registers for {count} elements; give one for each "
                    "[vector-elements]"
                )
    type = "b64" if type == "b128" else type  # in two registers
    for register in _registers(operands):
        if not _fits(register.type, type, is_data):
            least = "at least " if is_data else ""
            raise InterpreterError(
                f"{instruction.describe()}: {register.name} is a register of .{register.type}; {name} of .{type} takes "
                f"registers of {least}{bits_of(type)} bits, of the same kind or .b: change the type of one of the two "
                "[operand-register-type]"
            )


def _registers(operands: tuple[Operand, ...]) -> Iterator[Register]:
    """The registers among operands, also in vectors, but not those of addresses."""
    for each in operands:
        if isinstance(each, Register):
            yield each
        elif isinstance(each, Group):
            yield from (part for part in each.elements if isinstance(part, Register))


def _fits(held: str, type: str, is_data: bool) -> bool:
    """Whether a register of type `held` may be an operand of `type`. `is_data`: it holds loaded or stored data."""
    if "pred" in (held, type):
        return held == type
    kinds = {_kind(held), _kind(type)}
    if is_data and bits_of(held) > bits_of(type):
        return "float" not in kinds or _kind(held) == "bits"
    return bits_of(held) == bits_of(type) and ("bits" in kinds or len(kinds) == 1)


def _kind(type: str) -> str:
    if type.startswith("bf") or type[0] in "fte":
        return "float"
    return "bits" if type[0] == "b" else "integer"
