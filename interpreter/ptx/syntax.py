"""PTX as plain data: a module, its kernels, their instructions with typed operands (parsing.py makes them)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from lowtide.errors import NotInterpreted
from lowtide.interpreter.ptx.source_lines import Sources

_SHOWN = 120  # characters of an instruction in a message


@dataclass(frozen=True, slots=True)
class Register:
    """`slot` numbers it among all registers of a kernel, of any scope; `type` as declared: b32, pred, …"""

    name: str
    type: str
    slot: int


@dataclass(frozen=True, slots=True)
class Immediate:
    """A constant: an integer, or the bits of a float of type f32 or f64."""

    value: int
    type: str = ""


@dataclass(frozen=True, slots=True)
class Name:
    """A variable, a parameter, a label or a special register (%tid.x)."""

    name: str


@dataclass(frozen=True, slots=True)
class Address:
    """[base + offset], or [base, {coordinates}] for a tensor."""

    base: Register | Name | Immediate
    offset: int = 0
    coordinates: tuple[Operand, ...] | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """{a, b, …}, usually of registers; two results a|b; the arguments or results (a, b) of a call."""

    elements: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Negated:
    """!p, a predicate negated where it is read."""

    register: Register


Operand: TypeAlias = Register | Immediate | Name | Address | Group | Negated


@dataclass(frozen=True, slots=True)
class Guard:
    """@p or @!p."""

    register: Register
    negated: bool


@dataclass(slots=True, eq=False)
class Instruction:
    """`name` is the opcode with its modifiers, as written: `setp.lt.s32`; `text` is the whole instruction.

    `sources` are the lines of the kernel's source that it comes from, by `.loc`: the innermost, then those of the calls
    that were inlined around it.
    """

    name: str
    operands: tuple[Operand, ...]
    guard: Guard | None
    file: str
    line: int
    text: str
    sources: Sources = ()

    def describe(self) -> str:
        """The instruction's text, shortened, and its location, with the lines of the source that are known."""
        text = " ".join(self.text.split())
        source = f" ({', called at '.join(map(str, self.sources))})" if self.sources else ""
        return f"`{text if len(text) <= _SHOWN else text[: _SHOWN - 3] + '…'}` at {self.file}:{self.line}{source}"

    def error(self, rule: str) -> NotInterpreted:
        """The error for an instruction that cannot be run."""
        return NotInterpreted(f"{self.describe()}: {rule}")


@dataclass(frozen=True, slots=True)
class Label:
    """A label in a kernel's body; labels of different scopes have different names here."""

    name: str
    line: int


@dataclass(frozen=True)
class Variable:
    """A variable of a state space, or a parameter: `size` in bytes, 0 if the launch gives it.

    `contents`: its initial bytes, if it has an initializer; `pointers` are addresses among them: offset, name of the
    variable, and number of bytes after its start.
    """

    name: str
    space: str
    type: str
    size: int
    align: int
    contents: bytes = b""
    pointers: tuple[tuple[int, str, int], ...] = ()


Formal: TypeAlias = Variable | Register
"""A parameter or a result of a device function."""


@dataclass(frozen=True)
class Signature:
    """The results and parameters of a device function."""

    results: tuple[Formal, ...]
    parameters: tuple[Formal, ...]


@dataclass(eq=False)
class Entry:
    """A kernel. `directives` are those before its body: maxntid, reqntid, maxnreg, reqnctapercluster, …

    `variables` are declared in its body, with unique names. `targets`: lists of labels (.branchtargets) by name;
    `call_targets`: lists of functions (.calltargets), and `prototypes` of calls (.callprototype) likewise.
    """

    name: str
    parameters: tuple[Variable, ...]
    directives: dict[str, tuple[int, ...]] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    body: list[Label | Instruction] = field(default_factory=list)
    registers: list[Register] = field(default_factory=list)
    targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    call_targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    prototypes: dict[str, Signature] = field(default_factory=dict)


@dataclass(eq=False)
class Function:
    """A device function (.func). `is_defined`: it has a body."""

    entry: Entry
    signature: Signature
    is_defined: bool


@dataclass(eq=False)
class Module:
    """A file of PTX: its version and target, variables of the module, kernels and device functions by name."""

    file: str
    version: str = ""
    target: str = ""
    variables: list[Variable] = field(default_factory=list)
    entries: dict[str, Entry] = field(default_factory=dict)
    functions: dict[str, Function] = field(default_factory=dict)
