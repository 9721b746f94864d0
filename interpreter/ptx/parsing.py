"""Reads the text of a PTX module (PTX ISA, "Syntax", "State Spaces, Types, and Variables", "Directives").

A hand-written parser: one regular expression cuts the text into words, and each statement is read from left to right,
so that 10,000 lines take about half a second. Names and labels in braces have their own scope. Words without effect on
a kernel's meaning (.loc, .file, .section, .pragma) are skipped; source_lines.py reads those that name source lines.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from math import prod

from lowtide.interpreter.ptx.initial_values import NOTHING, initial_values
from lowtide.interpreter.ptx.operands import Operands, Scope
from lowtide.interpreter.ptx.source_lines import SourceLines
from lowtide.interpreter.ptx.syntax import (
    Entry,
    Formal,
    Function,
    Group,
    Guard,
    Instruction,
    Label,
    Module,
    Name,
    Operand,
    Register,
    Signature,
    Variable,
)

_ORDERS = ("acquire", "release", "relaxed", "volatile")
_CARRIES = re.compile(r"(add|sub|mad\.lo|mad\.hi)\.cc\..*|(addc|subc|madc)\..*")
_CARRY = "CC.CF"
_BYTES = {"b8": 1, "u8": 1, "s8": 1, "b16": 2, "u16": 2, "s16": 2, "f16": 2, "b32": 4, "u32": 4, "s32": 4, "f32": 4}
_BYTES |= {"b64": 8, "u64": 8, "s64": 8, "f64": 8, "b128": 16}
_REGISTERS = {*_BYTES, "pred", "f16x2", "bf16", "bf16x2"}
_MOST_DEPTH = 64  # of braces within braces
_LINKING = (".visible", ".extern", ".weak", ".common")
_SPACES = (".shared", ".global", ".const", ".param", ".local")
_JUMPS = ("bra", "bra.uni")
_VERSIONS = range(6, 10)  # their major numbers; 6.0 is the first with instructions of warps that name their members
_TARGET = re.compile(r"sm_(\d+)[af]?")
_LEAST_TARGET, _MOST_TARGET = 70, 129  # the first whose threads proceed by themselves, and the last that is known
_NUMBERED_DIRECTIVES = frozenset(
    {"maxntid", "reqntid", "maxnreg", "minnctapersm", "maxnctapersm", "reqnctapercluster", "maxclusterrank"}
)
_MOST_PARAMETER = 32764  # bytes
_VECTORS = (".v2", ".v4")
_PARTS = ("xyzw", "rgba")  # of a register vector


def parse(text: str, file: str = "<ptx>") -> Module:
    """The module. Raises InterpreterError, with the line, for PTX that is invalid or not interpreted."""
    return _Parser(text, file).module()


def parse_body(text: str, registers: Mapping[str, str], file: str = "<assembly>") -> Entry:
    """Instructions by themselves, with registers declared outside: their types by name."""
    return _Parser(text, file).body(registers)


class _Parser(Operands):
    def __init__(self, text: str, file: str) -> None:
        super().__init__(text, file)
        self.sources = SourceLines(text)
        self.result = Module(file)
        self.jumps: list[tuple[Instruction, Scope]] = []
        self.targets: list[tuple[str, Scope]] = []
        self.linking = ""
        self.in_body = False
        self.function = ""  # that is being read

    # The module ---------------------------------------------------------------------------------------------------

    def module(self) -> Module:
        while self.kinds[self.at] != "end":
            self._top_level()
        return self.result

    def _alias(self) -> None:
        """A declared function is another name of a defined one (PTX ISA, "Other Directives: .alias")."""
        name = self.name("a function")
        self.expect(",")
        other = self.name("a function")
        found = self.result.functions.get(other)
        if found is None or not found.is_defined or name not in self.result.functions:
            self.reject(f"{name} is an alias of {other}: declare the one and define the other before [ptx-alias]")
        self.result.functions[name] = found
        self.expect(";")

    def _top_level(self) -> None:
        word = self.word
        if word == ".version":
            self.at += 1
            self.result.version = self._version()
        elif word == ".target":
            self.at += 1
            self.result.target = self._target()
            while self.take(","):
                self.next()
        elif word == ".address_size":
            self.at += 1
            self.integer()
        elif word in _LINKING:
            self.at += 1
            self.linking = word
            return
        elif word == ".entry":
            self.at += 1
            self._entry()
        elif word == ".func":
            self.at += 1
            self._function()
        elif word in _SPACES:
            for variable in self._variables():
                if self.linking != ".extern" or variable.space == "shared":
                    self.result.variables.append(variable)
        elif word == ".alias":
            self.at += 1
            self._alias()
        elif word == ".section":
            while not self.take("}"):
                self.next()
        elif not self.take(";"):
            self.reject(
                f"{word} is not interpreted; a module has kernels (.entry), functions (.func) and variables"
                " [ptx-top-level]"
            )
        self.linking = ""

    def _version(self) -> str:
        """`.version 8.7`"""
        word = self.word
        major, _, minor = word.partition(".")
        if not (major.isdecimal() and minor.isdecimal() and int(major) in _VERSIONS):
            self.reject(f"version {word} of the PTX ISA is not known; known are {_VERSIONS[0]}.0 to 9.x [ptx-version]")
        return self.next()

    def _target(self) -> str:
        """`.target sm_90a`"""
        word = self.word
        found = _TARGET.fullmatch(word)
        if found is None or not _LEAST_TARGET <= int(found[1]) <= _MOST_TARGET:
            self.reject(
                f"target {word} is not interpreted; known are sm_{_LEAST_TARGET} to sm_{_MOST_TARGET} [ptx-target]"
            )
        return self.next()

    def _variables(self) -> list[Variable]:
        """A statement that declares variables of one type: `.shared .align 16 .b8 name[1024];`."""
        declared = self._variable_type()
        found = [self._declared(*declared)]
        while self.take(","):
            found.append(self._declared(*declared))
        self.expect(";")
        return found

    def _variable(self) -> Variable:
        """A parameter: `.param .u64 .ptr .global .align 1 name`."""
        return self._declared(*self._variable_type())

    def _variable_type(self) -> tuple[str, int, str, int]:
        """The space, alignment (0 if it is the type's), type and number of elements of declared variables."""
        space, align, type, count = self.next()[1:], 0, "", 1
        while self.kinds[self.at] == "directive":
            word = self.next()
            if word == ".align":
                align = self.integer()
                if align < 1 or align & (align - 1):
                    self.reject(f"an alignment of {align} bytes; it is a power of two [ptx-alignment]")
            elif word[1:] in _BYTES:
                type = word[1:]
            elif word in _VECTORS:
                count = int(word[2:])
            elif word == ".attribute":  # .managed or .unified, which say where a variable may be accessed
                while not self.take(")") or self.word == ")":
                    self.next()
            elif word != ".ptr" and word not in _SPACES:
                self.reject(f"{word} of a variable is not interpreted [ptx-variable-word]")
        return space, align, type, count

    def _declared(self, space: str, align: int, type: str, count: int) -> Variable:
        """A variable by its name, dimensions and initializer: `name[4][2] = {{1, 2}, {3, 4}}`."""
        name, width = self.name("a variable"), _BYTES.get(type, 0)
        if not width:
            self.reject(f"{name} has no type that is interpreted [ptx-variable-type]")
        sides = [] if count == 1 else [count]
        dimensions = []
        while self.take("["):
            if self.take("]"):
                dimensions.append(0)
            else:
                dimensions.append(self.integer())
                self.expect("]")
                if dimensions[-1] < 0:
                    self.reject(f"{name} has {dimensions[-1]} elements; it has 0 or more [ptx-array-side]")
        sides = dimensions + sides
        contents, pointers = NOTHING
        if self.take("="):
            contents, pointers = initial_values(self, type, width, sides)
        size = len(contents) or width * prod(sides)
        unique = self._unique(name)
        return Variable(unique, space, type, size, align or width * count, contents, pointers)

    def _unique(self, name: str) -> str:
        """The name of a variable that is declared here, among all of the module."""
        scope, is_module = self.scope, not self.in_body
        if is_module:
            return name
        unique = name if scope.outer is None else f"{name}@{self.starts[self.at]}"
        if self.function:
            unique = f"{self.function}.{unique}"
        scope.variables[name] = unique
        return unique

    def body(self, registers: Mapping[str, str]) -> Entry:
        for name, type in registers.items():
            self.define(self.scope, name, type)
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
        if (size := sum(each.size for each in parameters)) > _MOST_PARAMETER:
            self.reject(f"{size} bytes of parameters; a kernel has at most {_MOST_PARAMETER} [ptx-parameter-bytes]")
        if name in self.result.entries:
            self.reject(f"kernel {name} is defined twice [ptx-kernel-twice]")
        self._begin(name, tuple(parameters))
        while self.kinds[self.at] == "directive":
            self._directive()
        self.expect("{")
        self._body()
        self.result.entries[name] = self.entry

    def _function(self) -> None:
        """`.func (.param .b32 result) name (.param .b64 a, .reg .b32 b) { … }`, or a declaration without a body."""
        self._begin("", ())
        self.in_body = True
        results = self._formals()
        self.entry.name = self.function = self.name("a function")
        self.scope.variables = {name: f"{self.function}.{name}" for name in self.scope.variables}
        results = tuple(self._renamed(each) for each in results)
        parameters = self._formals()
        while self.kinds[self.at] == "directive":
            self._directive()
        is_defined = self.take("{")
        if is_defined:
            self._body()
        else:
            self.expect(";")
        known = self.result.functions.get(self.function)
        if known is None or not known.is_defined:
            signature = Signature(results, parameters)
            self.result.functions[self.function] = Function(self.entry, signature, is_defined)
        self.in_body, self.function = False, ""

    def _renamed(self, formal: Formal) -> Formal:
        return replace(formal, name=f"{self.function}.{formal.name}") if isinstance(formal, Variable) else formal

    def _formals(self) -> tuple[Formal, ...]:
        """The parameters or results of a function; none if there is no parenthesis."""
        found: list[Formal] = []
        if self.take("(") and not self.take(")"):
            while not found or self.take(","):
                found.append(self._formal())
            self.expect(")")
        return tuple(found)

    def _formal(self) -> Formal:
        if not self.take(".reg"):
            return self._variable()
        type = self.next()[1:]
        return self.define(self.scope, self.name("a register"), type)

    def _begin(self, name: str, parameters: tuple[Variable, ...]) -> None:
        """A kernel or function begins."""
        self.entry = Entry(name, parameters)
        self.scope, self.jumps, self.targets = Scope(), [], []

    def _body(self) -> None:
        """The statements up to the closing brace."""
        self.in_body = True
        while not self.take("}"):
            self._statement()
        self.in_body = False
        self._resolve_jumps()

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
        if directive in _NUMBERED_DIRECTIVES and not (1 <= len(numbers) <= 3 and min(numbers) >= 1):
            self.reject(f".{directive} has one to three numbers from 1 on [ptx-directive]")
        self.entry.directives[directive] = tuple(numbers)

    def _to_semicolon(self) -> None:
        while not self.take(";"):
            self.next()

    # Statements ---------------------------------------------------------------------------------------------------

    def _statement(self) -> None:
        kind, word = self.kinds[self.at], self.word
        if kind == "name" and self.words[self.at + 1] == ":":
            if self.words[self.at + 2] == ".branchtargets":
                self._targets()
            elif self.words[self.at + 2] == ".calltargets":
                self._call_targets()
            elif self.words[self.at + 2] == ".callprototype":
                self._prototype()
            else:
                self._label()
        elif kind == "name" or word == "@":
            self._instruction()
        elif word == "{":
            self.at += 1
            self.scope = Scope(self.scope, depth=self.scope.depth + 1)
            if self.scope.depth > _MOST_DEPTH:
                self.reject(f"braces within braces, more than {_MOST_DEPTH} deep, are not interpreted [ptx-braces]")
            while not self.take("}"):
                self._statement()
            assert self.scope.outer is not None
            self.scope = self.scope.outer
        elif word == ".reg":
            self._registers()
        elif word in _SPACES:
            self.entry.variables += self._variables()
        elif word == ".pragma":
            self._to_semicolon()
        elif not self.take(";"):
            hint = "; is the text cut off?" if kind == "end" else ""
            self.reject(f"a statement is expected, not {word!r}{hint} [ptx-statement]")

    def _label(self) -> None:
        place, name = self.starts[self.at], self.next()
        self.at += 1
        unique = name if self.scope.outer is None else f"{name}@{place}"
        if name in self.scope.labels:
            self.reject(f"label {name} is defined twice [ptx-label-twice]", place)
        self.scope.labels[name] = unique
        self.entry.body.append(Label(unique, self.line(place)))

    def _targets(self) -> None:
        """`name: .branchtargets L1, L2;`"""
        name = self.next()
        self.at += 2
        labels = [self.name("a label")]
        while self.take(","):
            labels.append(self.name("a label"))
        self.expect(";")
        self.entry.targets[name] = tuple(labels)
        self.targets.append((name, self.scope))

    def _call_targets(self) -> None:
        """`name: .calltargets f, g;`"""
        name = self._unique(self.next())
        self.at += 2
        functions = [self.name("a function")]
        while self.take(","):
            functions.append(self.name("a function"))
        self.expect(";")
        self.entry.call_targets[name] = tuple(functions)

    def _prototype(self) -> None:
        """`name: .callprototype (.param .b32 _) _ (.param .b64 _) .noreturn;`"""
        name = self._unique(self.next())
        self.at += 2
        self.scope = Scope(self.scope)
        results = self._formals()
        self.name("_ in place of a function")
        self.entry.prototypes[name] = Signature(results, self._formals())
        assert self.scope.outer is not None
        self.scope = self.scope.outer
        self._to_semicolon()

    def _registers(self) -> None:
        """`.reg .b32 %r<401>;`, `.reg .pred p, q;`, `.reg .v4 .f32 v;`"""
        self.at += 1
        count = int(self.next()[2:]) if self.word in _VECTORS else 1
        type = self.next()[1:]
        if type not in _REGISTERS:
            self.reject(
                f"registers of type {type} are not interpreted; known are {', '.join(sorted(_REGISTERS))}"
                " [ptx-register-type]"
            )
        while True:
            name = self.name("a register")
            if any(name in each for each in (self.scope.registers, self.scope.ranges, self.scope.vectors)):
                self.reject(f"{name} is declared twice between these braces; rename one [ptx-register-twice]")
            if count > 1:
                self._define_vector(name, type, count)
            elif self.take("<"):
                self.scope.ranges[name] = type, self.integer()
                self.expect(">")
            else:
                self.define_any(self.scope, name, type)
            if not self.take(","):
                break
        self.expect(";")

    def _define_vector(self, name: str, type: str, count: int) -> None:
        """A vector of registers: v, or v.x to v.w, which are also v.r, v.g, v.b and v.a."""
        parts = [self.define(self.scope, f"{name}.{part}", type) for part in _PARTS[0][:count]]
        self.scope.registers |= {f"{name}.{part}": made for part, made in zip(_PARTS[1], parts, strict=False)}
        self.scope.vectors[name] = Group(tuple(parts))

    def _instruction(self) -> None:
        start, guard = self.starts[self.at], None
        if self.take("@"):
            negated = self.take("!")
            register = self.named(self.next())
            if not isinstance(register, Register):
                self.reject("a guard is a predicate register [ptx-guard]")
            guard = Guard(register, negated)
        if self.kinds[self.at] != "name":
            self.reject(f"an instruction is expected, not {self.word!r} [ptx-instruction]")
        name = self.next()
        operands: list[Operand] = []
        while self.word != ";":
            operand = self.operand()
            operands.append(Group((operand, self.operand())) if self.take("|") else operand)
            if not self.take(",") and self.word != ";":
                self.reject(f"',' or ';' is expected, not {self.word!r} [ptx-comma]")
        place = self.starts[self.at]
        self.at += 1
        if name.endswith(".b128") and name.startswith(("ld", "st")):
            name = f"{name.removesuffix('.b128')}.v2.b64"  # its registers are vectors of two
        name = _in_order(name)
        if _CARRIES.fullmatch(name):
            self._add_carry(name, operands)
        text, sources = self.text[start : place + 1], self.sources.at(start)
        made = Instruction(name, tuple(operands), guard, self.file, self.line(start), text, sources)
        self.entry.body.append(made)
        if name in _JUMPS:
            self.jumps.append((made, self.scope))

    def _add_carry(self, name: str, operands: list[Operand]) -> None:
        """The condition code, as a result and as a source (PTX ISA, "Condition Code Register")."""
        scope = self.scope
        while scope.outer is not None:
            scope = scope.outer
        carry = scope.registers.get(_CARRY) or self.define(scope, _CARRY, "pred")
        if name.partition(".")[0].endswith("c"):  # addc, subc, madc
            operands.append(carry)
        if ".cc." in name and operands:
            operands[0] = Group((operands[0], carry))

    def _resolve_jumps(self) -> None:
        for jump, scope in self.jumps:
            target = jump.operands[0] if jump.operands else None
            label = self._label_in(scope, target.name) if isinstance(target, Name) else None
            if label is None:
                raise jump.error("there is no such label [no-label]")
            jump.operands = (Name(label),)
        for name, scope in self.targets:
            found = {each: self._label_in(scope, each) for each in self.entry.targets[name]}
            if None in found.values():
                self.reject(f"{name} lists a label that there is not [ptx-branch-target]")
            self.entry.targets[name] = tuple(str(found[each]) for each in self.entry.targets[name])

    def _label_in(self, scope: Scope | None, name: str) -> str | None:
        """The unique name of a label that is seen from a scope."""
        while scope is not None and name not in scope.labels:
            scope = scope.outer
        return None if scope is None else scope.labels[name]


def _in_order(name: str) -> str:
    """The name of a load or store with the modifier of its order first, as the PTX ISA has it. Triton writes
    ld.global.gpu.acquire.b32, which ptxas takes, too."""
    stem, *words = name.split(".")
    found = [word for word in words if word in _ORDERS]
    if stem not in ("ld", "st") or not found or words[0] == "mmio":
        return name
    return ".".join((stem, *found, *(word for word in words if word not in _ORDERS)))
