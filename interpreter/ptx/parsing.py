"""Reads the text of a PTX module (PTX ISA, "Syntax", "State Spaces, Types, and Variables", "Directives").

A hand-written parser: one regular expression cuts the text into words, and each statement is read from left to right,
so that 10,000 lines take about half a second. Names and labels in braces have their own scope. Words without effect on
a kernel's meaning (.loc, .file, .section, .pragma) are skipped.
"""

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NoReturn

from lowtide.errors import InterpreterError
from lowtide.interpreter.ptx.syntax import (
    Address,
    Entry,
    Group,
    Guard,
    Immediate,
    Instruction,
    Label,
    Module,
    Name,
    Operand,
    Register,
    Variable,
)

_WORDS = re.compile(
    r"""(?P<skip>\s+|//[^\n]*|/\*.*?\*/|\.(?:loc|file)\b[^\n]*)
    |(?P<float>0[fF][0-9a-fA-F]{8}(?!\w)|0[dD][0-9a-fA-F]{16}(?!\w)|\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+)
    |(?P<integer>0[xX][0-9a-fA-F]+U?|0[bB][01]+U?|\d+U?)
    |(?P<name>[%$_a-zA-Z][\w$]*(?:(?:\.|::)[\w$]+)*)
    |(?P<directive>\.[a-zA-Z][\w.]*)
    |(?P<string>"[^"\n]*")
    |(?P<mark>[@!{}\[\]();:,<>=+|\-])""",
    re.VERBOSE | re.DOTALL,
)
_NUMBERED = re.compile(r"(.*?)(\d+)")
_BYTES = {"b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "b32": 4, "u32": 4, "s32": 4, "f32": 4}
_BYTES |= {"b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16}
_REGISTERS = {*_BYTES, "pred", "f16x2", "bf16", "bf16x2"}
_MOST_DEPTH = 64  # of braces within braces
_MOST_BITS = 64  # of an integer
_LINKING = (".visible", ".extern", ".weak", ".common")
_SPACES = (".shared", ".global", ".const", ".param", ".local")
_JUMPS = ("bra", "bra.uni")


@dataclass(eq=False)
class _Scope:
    """Names between braces: registers, ranges of numbered ones (%r<401>) with their type, labels."""

    outer: "_Scope | None" = None
    registers: dict[str, Register] = field(default_factory=dict)
    ranges: dict[str, tuple[str, int]] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    depth: int = 0


def parse(text: str, file: str = "<ptx>") -> Module:
    """The module. Raises InterpreterError, with the line, for PTX that is invalid or not interpreted."""
    return _Parser(text, file).module()


def parse_body(text: str, registers: Mapping[str, str], file: str = "<assembly>") -> Entry:
    """Instructions by themselves, with registers declared outside: their types by name."""
    return _Parser(text, file).body(registers)


class _Parser:
    def __init__(self, text: str, file: str) -> None:
        self.text = text
        self.file = file
        self.lines = [match.start() for match in re.finditer("\n", text)]
        self.words: list[str] = []
        self.kinds: list[str] = []
        self.starts: list[int] = []
        self._cut()
        self.at = 0
        self.result = Module(file)
        self.entry = Entry("", ())
        self.scope = _Scope()
        self.jumps: list[tuple[Instruction, _Scope]] = []

    def _cut(self) -> None:
        place = 0
        for match in _WORDS.finditer(self.text):
            if match.start() != place:
                break
            place = match.end()
            kind = match.lastgroup
            if kind != "skip":
                self.words.append(match.group())
                self.kinds.append(str(kind))
                self.starts.append(match.start())
        if place != len(self.text):
            self._fail(f"{self.text[place : place + 10]!r} is not a word of PTX [ptx-word]", place)
        self.words.append("")
        self.kinds.append("end")
        self.starts.append(len(self.text))

    def line(self, place: int) -> int:
        return bisect_right(self.lines, place - 1) + 1

    def _fail(self, rule: str, place: int | None = None) -> NoReturn:
        where = self.starts[self.at] if place is None else place
        raise InterpreterError(f"{self.file}:{self.line(where)}: {rule}")

    @property
    def word(self) -> str:
        return self.words[self.at]

    def next(self) -> str:
        """The current word, which is consumed; the end stays."""
        if self.kinds[self.at] == "end":
            self._fail("the text ends within a statement or a kernel; is it cut off? [ptx-cut-off]")
        self.at += 1
        return self.words[self.at - 1]

    def take(self, word: str) -> bool:
        if self.words[self.at] == word:
            self.at += 1
            return True
        return False

    def expect(self, word: str) -> None:
        if not self.take(word):
            self._fail(f"{word!r} is expected, not {self.word!r} [ptx-expected]")

    def integer(self) -> int:
        sign = -1 if self.take("-") else 1
        if self.kinds[self.at] != "integer":
            self._fail(f"an integer is expected, not {self.word!r} [ptx-integer]")
        return sign * self._value(self.next())

    def _value(self, word: str) -> int:
        """An integer from its word (PTX ISA, "Integer Constants")."""
        digits = word.rstrip("U").lower()
        base = {"0x": 16, "0b": 2}.get(digits[:2]) or (8 if digits[0] == "0" else 10)
        significant = digits[2:] if base in (16, 2) else digits
        if base == 8 and not set(significant) <= set("01234567"):
            self._fail(f"{word} is not an octal number; write it without the leading 0 [ptx-octal]")
        if len(significant) > _MOST_BITS or (value := int(significant, base)) >= 1 << _MOST_BITS:
            self._fail(f"{word[:20]}… does not fit into {_MOST_BITS} bits [ptx-number-bits]")
        return value

    def name(self, of: str) -> str:
        """A name, of a kernel for example."""
        if self.kinds[self.at] != "name":
            self._fail(f"the name of {of} is expected, not {self.word!r} [ptx-operand]")
        return self.next()

    # The module ---------------------------------------------------------------------------------------------------

    def module(self) -> Module:
        while self.kinds[self.at] != "end":
            self._top_level()
        return self.result

    def _top_level(self) -> None:
        word = self.word
        if word == ".version":
            self.at += 1
            self.result.version = self.next()
        elif word == ".target":
            self.at += 1
            self.result.target = self.next()
            while self.take(","):
                self.next()
        elif word == ".address_size":
            self.at += 1
            self.integer()
        elif word in _LINKING:
            self.at += 1
        elif word == ".entry":
            self.at += 1
            self._entry()
        elif word in _SPACES:
            self.result.variables.append(self._variable())
            self.expect(";")
        elif word == ".section":
            while not self.take("}"):
                self.next()
        elif not self.take(";"):
            self._fail(
                f"{word} is not interpreted; a module has kernels (.entry) and variables in shared memory"
                " [ptx-top-level]"
            )

    def _variable(self) -> Variable:
        """`.shared .align 16 .b8 name[1024]`, `.param .u64 .ptr .global .align 1 name`."""
        space, align, type = self.next()[1:], 0, ""
        while self.kinds[self.at] == "directive":
            word = self.next()
            if word == ".align":
                align = self.integer()
                if align < 1 or align & (align - 1):
                    self._fail(f"an alignment of {align} bytes; it is a power of two [ptx-alignment]")
            elif word[1:] in _BYTES:
                type = word[1:]
            elif word != ".ptr" and word not in _SPACES:
                self._fail(f"{word} of a variable is not interpreted [ptx-variable-word]")
        name, size = self.name("a variable"), _BYTES.get(type, 0)
        if not size:
            self._fail(f"{name} has no type that is interpreted [ptx-variable-type]")
        align = align or size
        while self.take("["):
            if self.take("]"):
                size = 0
            else:
                size *= self.integer()
                self.expect("]")
        if self.word == "=":
            self._fail(f"initialised variables, as {name}, are not interpreted [ptx-initialised]")
        return Variable(name, space, type, size, align)

    def body(self, registers: Mapping[str, str]) -> Entry:
        for name, type in registers.items():
            self._define(self.scope, name, type)
        while self.kinds[self.at] != "end":
            self._statement()
        self._resolve_jumps()
        return self.entry

    def _entry(self) -> None:
        name = self.name("a kernel")
        parameters = []
        if self.take("(") and not self.take(")"):
            parameters.append(self._variable())
            while self.take(","):
                parameters.append(self._variable())
            self.expect(")")
        self.entry = Entry(name, tuple(parameters))
        self.scope, self.jumps = _Scope(), []
        while self.kinds[self.at] == "directive":
            self._directive()
        self.expect("{")
        while not self.take("}"):
            self._statement()
        self._resolve_jumps()
        self.result.entries[name] = self.entry

    def _directive(self) -> None:
        directive = self.next()[1:]
        if directive == "pragma":
            self._to_semicolon()
            return
        numbers = []
        if self.kinds[self.at] == "integer":
            numbers.append(self.integer())
            while self.take(","):
                numbers.append(self.integer())
        self.entry.directives[directive] = tuple(numbers)

    def _to_semicolon(self) -> None:
        while not self.take(";"):
            self.next()

    # Statements ---------------------------------------------------------------------------------------------------

    def _statement(self) -> None:
        kind, word = self.kinds[self.at], self.word
        if kind == "name" and self.words[self.at + 1] == ":":
            self._label()
        elif kind == "name" or word == "@":
            self._instruction()
        elif word == "{":
            self.at += 1
            self.scope = _Scope(self.scope, depth=self.scope.depth + 1)
            if self.scope.depth > _MOST_DEPTH:
                self._fail(f"braces within braces, more than {_MOST_DEPTH} deep, are not interpreted [ptx-braces]")
            while not self.take("}"):
                self._statement()
            assert self.scope.outer is not None
            self.scope = self.scope.outer
        elif word == ".reg":
            self._registers()
        elif word in _SPACES:
            self.entry.variables.append(self._variable())
            self.expect(";")
        elif word in (".pragma", ".branchtargets", ".callprototype", ".calltargets"):
            self._to_semicolon()
        elif not self.take(";"):
            hint = "; is the text cut off?" if kind == "end" else ""
            self._fail(f"a statement is expected, not {word!r}{hint} [ptx-statement]")

    def _label(self) -> None:
        place, name = self.starts[self.at], self.next()
        self.at += 1
        unique = name if self.scope.outer is None else f"{name}@{place}"
        if name in self.scope.labels:
            self._fail(f"label {name} is defined twice [ptx-label-twice]", place)
        self.scope.labels[name] = unique
        self.entry.body.append(Label(unique, self.line(place)))

    def _registers(self) -> None:
        """`.reg .b32 %r<401>;`, `.reg .pred p, q;`"""
        self.at += 1
        type = self.next()[1:]
        if type not in _REGISTERS:
            self._fail(
                f"registers of type {type} are not interpreted; known are {', '.join(sorted(_REGISTERS))}"
                " [ptx-register-type]"
            )
        while True:
            name = self.name("a register")
            if self.take("<"):
                self.scope.ranges[name] = type, self.integer()
                self.expect(">")
            else:
                self._define(self.scope, name, type)
            if not self.take(","):
                break
        self.expect(";")

    def _define(self, scope: _Scope, name: str, type: str) -> Register:
        made = scope.registers[name] = Register(name, type, len(self.entry.registers))
        self.entry.registers.append(made)
        return made

    def _instruction(self) -> None:
        start, guard = self.starts[self.at], None
        if self.take("@"):
            negated = self.take("!")
            register = self._named(self.next())
            if not isinstance(register, Register):
                self._fail("a guard is a predicate register [ptx-guard]")
            guard = Guard(register, negated)
        if self.kinds[self.at] != "name":
            self._fail(f"an instruction is expected, not {self.word!r} [ptx-instruction]")
        name = self.next()
        operands: list[Operand] = []
        while self.word != ";":
            operands.append(self._operand())
            if not (self.take(",") or self.take("|")) and self.word != ";":
                self._fail(f"',' or ';' is expected, not {self.word!r} [ptx-comma]")
        place = self.starts[self.at]
        self.at += 1
        made = Instruction(name, tuple(operands), guard, self.file, self.line(start), self.text[start : place + 1])
        self.entry.body.append(made)
        if name in _JUMPS:
            self.jumps.append((made, self.scope))

    # Operands -----------------------------------------------------------------------------------------------------

    def _operand(self) -> Operand:
        if self.take("{"):
            return Group(self._elements())
        if self.take("["):
            return self._address()
        return self._element("an operand")

    def _element(self, what: str) -> Register | Name | Immediate:
        """An element of a group, or the base of an address."""
        kind = self.kinds[self.at]
        if kind == "name":
            return self._named(self.next())
        if kind in ("integer", "float") or self.word == "-":
            return self._immediate()
        self._fail(f"{what} is expected, not {self.word!r} [ptx-expected-what]")

    def _elements(self) -> tuple[Operand, ...]:
        elements = [self._element("a register or a number")]
        while self.take(","):
            elements.append(self._element("a register or a number"))
        self.expect("}")
        return tuple(elements)

    def _address(self) -> Address:
        base = self._element("an address, which is a register, a variable or a number,")
        offset, coordinates = 0, None
        if self.take("+") or self.word == "-":
            offset = self.integer()
        if self.take(","):
            self.expect("{")
            coordinates = self._elements()
        self.expect("]")
        return Address(base, offset, coordinates)

    def _immediate(self) -> Immediate:
        sign = -1 if self.take("-") else 1
        kind, word = self.kinds[self.at], self.next()
        if kind == "integer":
            return Immediate(sign * self._value(word))
        if kind != "float" or word[:2].lower() not in ("0f", "0d") or sign < 0:
            self._fail(
                f"the constant {word!r} is not interpreted; write floats by their bits, 0f… or 0d… [ptx-constant]"
            )
        return Immediate(int(word[2:], 16), "f32" if word[1] in "fF" else "f64")

    def _named(self, name: str) -> Register | Name:
        scope: _Scope | None = self.scope
        while scope is not None:
            if name in scope.registers:
                return scope.registers[name]
            if scope.ranges and (match := _NUMBERED.fullmatch(name)):
                type, count = scope.ranges.get(match[1], ("", 0))
                if int(match[2]) < count:
                    return self._define(scope, name, type)
            scope = scope.outer
        return Name(name)

    def _resolve_jumps(self) -> None:
        for jump, scope in self.jumps:
            target = jump.operands[0] if jump.operands else None
            inner: _Scope | None = scope
            while inner is not None and isinstance(target, Name) and target.name not in inner.labels:
                inner = inner.outer
            if inner is None or not isinstance(target, Name):
                raise jump.error("there is no such label [no-label]")
            jump.operands = (Name(inner.labels[target.name]),)
