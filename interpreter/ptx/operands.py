"""Reads the operands of instructions, by the names in their scope (PTX ISA, "Operands", "Constants")."""

import re
import struct
from dataclasses import dataclass, field

from lowtide.interpreter.ptx.syntax import (
    Address,
    Entry,
    Group,
    Immediate,
    Name,
    Negated,
    Operand,
    Register,
)
from lowtide.interpreter.ptx.words import Words

_NUMBERED = re.compile(r"(.*?)(\d+)")
_OFFSETS = range(-(2**31), 2**32)  # of addresses, in bytes
_WARP = 32  # the constant WARP_SZ
_SIGN = 1 << 63  # of the bits of an f64


@dataclass(eq=False)
class Scope:
    """Names between braces: registers, ranges of numbered ones (%r<401>) with their type, labels."""

    outer: "Scope | None" = None
    registers: dict[str, Register] = field(default_factory=dict)
    ranges: dict[str, tuple[str, int]] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)  # their unique names
    vectors: dict[str, Group] = field(default_factory=dict)
    depth: int = 0


class Operands(Words):
    """The words of a text, the kernel whose registers they name, and the scope of the present word."""

    def __init__(self, text: str, file: str) -> None:
        super().__init__(text, file)
        self.entry = Entry("", ())
        self.scope = Scope()

    def define(self, scope: Scope, name: str, type: str) -> Register:
        made = scope.registers[name] = Register(name, type, len(self.entry.registers))
        self.entry.registers.append(made)
        return made

    def define_any(self, scope: Scope, name: str, type: str) -> Register | Name:
        """Define a register; one of 128 bits is a vector of two registers of 64."""
        if type != "b128":
            return self.define(scope, name, type)
        scope.vectors[name] = Group(tuple(self.define(scope, f"{name}.{half}", "b64") for half in ("low", "high")))
        return Name(name)

    def operand(self) -> Operand:
        if self.take("{"):
            return Group(self._elements())
        if self.take("["):
            return self._address()
        if self.take("("):
            return Group(() if self.take(")") else self._elements(")"))
        if self.take("!"):
            register = self._element("a predicate register")
            if not isinstance(register, Register):
                self.reject("only a predicate register is negated by ! [ptx-negated]")
            return Negated(register)
        found = self._element("an operand")
        if not isinstance(found, Name):
            return found
        if self.word in ("+", "-"):  # the address of a byte of a variable
            return Address(found, self._offset())
        vector = self._vector(found.name)
        return found if vector is None else vector

    def _vector(self, name: str) -> Group | None:
        """The registers of a vector; None for another name."""
        scope: Scope | None = self.scope
        while scope is not None and name not in scope.vectors:
            scope = scope.outer
        return None if scope is None else scope.vectors[name]

    def _element(self, what: str) -> Register | Name | Immediate:
        """An element of a group, or the base of an address."""
        kind = self.kinds[self.at]
        if kind == "name" and self.word == "WARP_SZ":
            self.at += 1
            return Immediate(_WARP)
        if kind == "name":
            return self.named(self.next())
        if kind in ("integer", "float") or self.word == "-":
            return self._immediate()
        found = f"not {self.word!r}" if self.word else "but the text ends here"
        self.reject(f"{what} is expected, {found} [ptx-expected-what]")

    def _elements(self, end: str = "}") -> tuple[Operand, ...]:
        elements = [self._element("a register or a number")]
        while self.take(","):
            elements.append(self._element("a register or a number"))
        self.expect(end)
        return tuple(elements)

    def _address(self) -> Address:
        base = self._element("an address, which is a register, a variable or a number,")
        offset, coordinates = self._offset(), None
        if self.take(","):
            self.expect("{")
            coordinates = self._elements()
        self.expect("]")
        return Address(base, offset, coordinates)

    def _offset(self) -> int:
        """The bytes after an address, as in `a+4` or `a+-4`; 0 if none are given."""
        if self.word == "-":
            self.reject("bytes after an address have a +; write +- and the number [ptx-minus]")
        if not self.take("+"):
            return 0
        offset = self.integer()
        if offset not in _OFFSETS:
            self.reject(f"{offset} bytes after an address; an offset has 32 bits [ptx-offset]")
        return offset - 2**32 if offset >= 2**31 else offset

    def _immediate(self) -> Immediate:
        sign = -1 if self.take("-") else 1
        kind, word = self.kinds[self.at], self.next()
        if kind == "integer":
            return Immediate(sign * self.number(word))
        if kind != "float":
            self.reject(f"a number is expected, not {word!r} [ptx-constant]")
        form = word[:2].lower()
        if form in ("0f", "0d"):
            if sign < 0:
                self.reject(f"the bits of a float have no minus; set the first bit of {word} [ptx-bits-minus]")
            return Immediate(int(word[2:], 16), "f32" if form == "0f" else "f64")
        bits = int.from_bytes(struct.pack("<d", float(word)), "little")
        return Immediate(bits ^ (_SIGN if sign < 0 else 0), "f64")

    def named(self, name: str) -> Register | Name:
        scope: Scope | None = self.scope
        while scope is not None:
            if name in scope.registers:
                return scope.registers[name]
            if name in scope.vectors:
                return Name(name)
            if scope.ranges and (match := _NUMBERED.fullmatch(name)):
                type, count = scope.ranges.get(match[1], ("", 0))
                if int(match[2]) < count:
                    return self.define_any(scope, name, type)
            if name in scope.variables:
                return Name(scope.variables[name])
            scope = scope.outer
        return Name(name)
