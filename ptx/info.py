"""Facts of a text of PTX before a run: kernels, parameters, resources, and instructions that are not interpreted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lowtide.errors import InterpreterError, without_codes
from lowtide.interpreter.launching import Parsed
from lowtide.interpreter.numbers.domains import domain
from lowtide.interpreter.ptx.coverage import uninterpreted
from lowtide.interpreter.ptx.operand_types import check_operands
from lowtide.interpreter.ptx.syntax import Entry, Instruction, Variable
from lowtide.interpreter.ptx.targets import check_targets
from lowtide.ptx.judging import DOMAIN

_LIMITS = ("maxntid", "reqntid", "maxnreg", "minnctapersm", "reqnctapercluster", "maxclusterrank")


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel: its PTX type, and its size in bytes."""

    name: str
    type: str
    size: int

    @classmethod
    def of(cls, variable: Variable) -> Parameter:
        return cls(variable.name, variable.type, variable.size)

    def cells(self, number: int) -> tuple[str, ...]:
        """A row of a table."""
        return str(number), self.name, f".{self.type}", str(self.size)


@dataclass(frozen=True)
class KernelInfo:
    """`shared` are the bytes of the kernel's own shared memory, `limits` its directives on launches. `missing` has a
    message for each instruction that is not interpreted, with its line."""

    name: str
    parameters: tuple[Parameter, ...]
    shared: int
    takes_dynamic: bool
    limits: dict[str, tuple[int, ...]]
    registers: int
    instructions: int
    missing: tuple[str, ...]

    @property
    def resources(self) -> str:
        """The resources in words."""
        dynamic = " and what the launch gives" if self.takes_dynamic else ""
        limits = "".join(f", .{name} {', '.join(map(str, sides))}" for name, sides in self.limits.items())
        return f"{self.shared} bytes of shared memory{dynamic}, {self.registers} virtual registers{limits}"

    def as_dict(self) -> dict[str, Any]:
        """As data for JSON."""
        return {
            "name": self.name,
            "parameters": [vars(each) for each in self.parameters],
            "shared_bytes": self.shared,
            "dynamic_shared": self.takes_dynamic,
            "limits": {name: list(sides) for name, sides in self.limits.items()},
            "registers": self.registers,
            "instructions": self.instructions,
            "not_interpreted": list(self.missing),
        }


def kernels_of(source: Parsed) -> list[KernelInfo]:
    """The kernels of a text."""
    return [_info(source, entry) for entry in source.module.entries.values()]


def _info(source: Parsed, entry: Entry) -> KernelInfo:
    variables = [each for each in (*source.module.variables, *entry.variables) if each.space == "shared"]
    missing = [without_codes(str(error)) for error in uninterpreted(source.module, entry, domain(DOMAIN))]
    if not missing:
        missing = _of_decoding(source, entry)
    return KernelInfo(
        entry.name,
        tuple(Parameter.of(each) for each in entry.parameters),
        sum(each.size for each in variables),
        any(not each.size for each in variables),
        {name: entry.directives[name] for name in _LIMITS if name in entry.directives},
        len(entry.registers),
        sum(isinstance(each, Instruction) for each in entry.body),
        tuple(missing),
    )


def _of_decoding(source: Parsed, entry: Entry) -> list[str]:
    """What else keeps a kernel from running, such as its variables, or a target that lacks an instruction."""
    try:
        check_targets(source.module, entry)
        check_operands(source.module, entry, domain(DOMAIN))
        source.program(entry.name, domain(DOMAIN))
    except InterpreterError as error:
        return [without_codes(str(error))]
    return []
