"""The table of instructions: the semantics of each opcode, its types and modifiers, and its section of the PTX ISA.

One of two decorators adds a row.

    @TABLE.values("add", types="s32 u32", section="Integer Arithmetic Instructions: add")
    def add(form: Form) -> Callable[..., Any]:       # made once, for an instruction
        return lambda x, y: ...                      # values of the sources to the value of the destination

    @TABLE.effects("mbarrier.init", words="shared shared::cta b64", section="…: mbarrier.init")
    def init(state: AgentState, op: Op, address, count): ...   # returns the destinations' values, if any

An instruction belongs to the row with the longest name that it begins with. The further words of its name are its
modifiers: each must be one of the row's `types` or `words`, and forms.py says which go together; others are refused.
For values see numbers/registers.py.
"""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from lowtide.errors import InterpreterError
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.program.batches import Bulk
from lowtide.interpreter.ptx.forms import FORMS, forms_of, has_form
from lowtide.interpreter.ptx.refused import reason
from lowtide.interpreter.ptx.syntax import Instruction

#: Computes before the run what does not depend on values, for `op.data`.
Prepare: TypeAlias = Callable[["Form"], Any]


@dataclass(frozen=True)
class Row:
    """`handler` takes values (with `values`, it makes the function that does). `results`: the number of leading
    operands that are results.

    `acts` is False if it only computes registers and polls. `bulk`: how consecutive instructions run together
    (program/batches.py). `is_wide`: the warps of a convoy may run it together, although it does not only compute
    (machine/convoys.py). `by_convoy`: the function for convoys, if it is another one.
    """

    name: str
    section: str
    types: frozenset[str]
    words: frozenset[str]
    handler: Callable[..., Any]
    results: int
    is_value: bool
    acts: bool
    prepare: Prepare | None = None
    bulk: Bulk | None = None
    is_wide: bool = False
    by_convoy: Callable[..., None] | None = None

    @property
    def resumable(self) -> bool:
        return inspect.isgeneratorfunction(self.handler)


@dataclass(frozen=True)
class Form:
    """An instruction for its row: `types` in order, and its other modifiers. `are_places`: see Slots."""

    instruction: Instruction
    row: Row
    types: tuple[str, ...]
    words: frozenset[str]
    domain: Domain
    are_places: bool

    @property
    def type(self) -> str:
        """The last type, of the operands."""
        if not self.types:
            raise self.instruction.error(
                f"{self.row.name} has a type; {self.row.name} takes {_listed(self.row.types)} [instruction-type]"
            )
        return self.types[-1]

    @property
    def bits(self) -> int:
        """The width of the last type."""
        return bits_of(self.type)


_WIDTHS = {"bf16": 16, "f16x2": 32, "bf16x2": 32, "tf32": 32, "e4m3": 8, "e5m2": 8, "e4m3x2": 16, "e5m2x2": 16}
_WIDTHS |= {"s16x2": 32, "u16x2": 32, "f32x2": 64}


def bits_of(type: str) -> int:
    """The width of a PTX type in bits; a predicate has 1."""
    return 1 if type == "pred" else _WIDTHS.get(type) or int(type[1:])


class Table:
    """Rows by name."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows.values())

    def values(
        self, *names: str, types: str, words: str = "", section: str, bulk: Bulk | None = None
    ) -> Callable[..., Any]:
        """Register a maker of functions of values under these names."""

        def enter(handler: Callable[..., Any]) -> Callable[..., Any]:
            for name in names:
                self.enter(Row(name, section, _set(types), _set(words), handler, 1, True, False, bulk=bulk))
            return handler

        return enter

    def effects(
        self,
        *names: str,
        types: str = "",
        words: str = "",
        section: str,
        results: int = 0,
        acts: bool = True,
        prepare: Prepare | None = None,
        bulk: Bulk | None = None,
        is_wide: bool = False,
        by_convoy: Callable[..., None] | None = None,
    ) -> Callable[..., Any]:
        """Register a function of an agent and values under these names."""

        def enter(handler: Callable[..., Any]) -> Callable[..., Any]:
            for name in names:
                kinds = _set(types), _set(words)
                self.enter(Row(name, section, *kinds, handler, results, False, acts, prepare, bulk, is_wide, by_convoy))
            return handler

        return enter

    def enter(self, row: Row) -> None:
        assert row.name not in self.rows, row.name
        self.rows[row.name] = row

    def form(self, instruction: Instruction, domain: Domain, are_places: bool = True) -> Form:
        """The instruction in its row. Raises InterpreterError for an instruction without a row, or unknown
        modifiers."""
        parts = instruction.name.split(".")
        if (refused := reason(parts)) is not None:
            raise instruction.error(refused)
        for count in range(len(parts), 0, -1):
            row = self.rows.get(".".join(parts[:count]))
            if row is not None:
                break
        else:
            known = sorted({name.split(".")[0] for name in self.rows})
            raise instruction.error(
                f"instruction {parts[0]!r} is not interpreted; known are {', '.join(known)} [instruction-unknown]"
            )
        rest = parts[count:]
        unknown = [word for word in rest if word not in row.types and word not in row.words]
        if unknown:
            raise instruction.error(
                f"modifier .{unknown[0]} of {row.name} is not interpreted; known are "
                f"{_listed(row.types | row.words) or 'none'} [modifier-unknown]"
            )
        types = tuple(word for word in rest if word in row.types)
        words = frozenset(word for word in rest if word not in row.types)
        if (row.is_value or row.name in FORMS) and not has_form(row.name, types, words):
            found = f"the PTX ISA has no such form of {row.name}; {_forms(row, types)} [form-in-isa]"
            raise InterpreterError(f"{instruction.describe()}: {found}")
        return Form(instruction, row, types, words, domain, are_places)


def _forms(row: Row, types: tuple[str, ...]) -> str:
    """What an instruction with these types may be, in words."""
    if row.name not in FORMS or (row.types and not types):
        return f"it takes one of {_listed(row.types)}"
    of_types = "".join(f".{type}" for type in types)
    return f"{f'of {of_types} ' * bool(types)}there is {', '.join(forms_of(row.name, types)) or 'none'}"


def joined(*tables: Table) -> Table:
    """All rows in one table."""
    result = Table()
    for table in tables:
        for row in table:
            result.enter(row)
    return result


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


def _listed(words: frozenset[str]) -> str:
    return ", ".join(f".{word}" for word in sorted(words))
