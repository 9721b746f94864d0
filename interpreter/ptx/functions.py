"""Calls of device functions (.func): each call is replaced by a copy of the function's body.

PTX ISA, "Control Flow Instructions: call, ret", "Function Declarations and Definitions". Parameters in .param space are
variables of the thread's own memory, as .local ones. A call names variables of the caller for them, and the copy of the
body uses these in their place. A call by an address is replaced by a copy of each function that it may reach, and jumps
to them. A recursive call cannot be replaced and is refused.
"""

from dataclasses import dataclass, field, replace

from lowtide.interpreter.ptx.call_parts import CallParts, parts_of
from lowtide.interpreter.ptx.control import RECURSIVE, UNDEFINED, UNKNOWN
from lowtide.interpreter.ptx.function_addresses import addresses_of, targets_of
from lowtide.interpreter.ptx.syntax import (
    Address,
    Entry,
    Formal,
    Group,
    Guard,
    Immediate,
    Instruction,
    Label,
    Module,
    Name,
    Negated,
    Operand,
    Register,
    Variable,
)

_MOST = 200_000  # instructions of a kernel with its functions
_PRINTS, _STOPS = ("vprintf",), ("__assertfail",)
_RETURNS = ("ret", "ret.uni")
_CALLS = ("call", "call.uni")
_JUMPS = ("bra", "bra.uni", "brx.idx", "brx.idx.uni")


@dataclass(eq=False)
class Body:
    """A kernel's instructions with those of the functions that it calls; their registers, variables and targets."""

    code: list[Label | Instruction] = field(default_factory=list)
    registers: list[Register] = field(default_factory=list)
    variables: list[Variable] = field(default_factory=list)
    targets: dict[str, tuple[str, ...]] = field(default_factory=dict)


def with_functions(module: Module, entry: Entry) -> Body:
    """The body of a kernel. Raises InterpreterError for calls that are recursive, or of no known function."""
    calls = any(isinstance(each, Instruction) and each.name in _CALLS for each in entry.body)
    if not calls and all(each.space != "param" for each in entry.variables):
        return Body(entry.body, entry.registers, entry.variables, entry.targets)
    return _Copier(module).copied(entry)


@dataclass(eq=False)
class _Frame:
    """A copy of a body: `mark` makes its labels unique, `first` is its first register, `names` replace variables."""

    entry: Entry
    mark: str
    first: int
    names: dict[str, str]
    returns_to: str = ""
    callers: tuple[str, ...] = ()


class _Copier:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.body = Body()
        self.addresses = addresses_of(module)
        self.locals: set[str] = set()
        self.copies = 0

    def copied(self, entry: Entry) -> Body:
        self._copy(_Frame(entry, "", 0, {}))
        return self.body

    def _copy(self, frame: _Frame) -> None:
        entry, body = frame.entry, self.body
        body.registers += [replace(each, slot=each.slot + frame.first) for each in entry.registers]
        for variable in entry.variables:
            if variable.space in ("param", "local"):
                frame.names.setdefault(variable.name, f"{variable.name}{frame.mark}")
                self.locals.add(frame.names[variable.name])
                body.variables.append(replace(variable, name=frame.names[variable.name], space="local"))
            elif all(variable.name != each.name for each in body.variables):  # one for all calls
                body.variables.append(variable)
        for name, labels in entry.targets.items():
            body.targets[f"{name}{frame.mark}"] = tuple(f"{label}{frame.mark}" for label in labels)
        for each in entry.body:
            if isinstance(each, Label):
                body.code.append(Label(f"{each.name}{frame.mark}", each.line))
            elif each.name in _CALLS:
                self._call(each, frame)
            else:
                body.code.append(self._instruction(each, frame))

    def _instruction(self, instruction: Instruction, frame: _Frame) -> Instruction:
        """An instruction of a body, in its copy."""
        operands = tuple(self._operand(each, frame) for each in instruction.operands)
        name, guard = instruction.name, self._guard(instruction, frame)
        if name in _RETURNS and frame.returns_to:
            name, operands = "bra", (Name(frame.returns_to),)
        elif name in _JUMPS:
            operands = tuple(Name(f"{each.name}{frame.mark}") if isinstance(each, Name) else each for each in operands)
        else:
            name = self._space(name, operands, frame)
        made = replace(instruction, name=name, operands=operands, guard=guard)
        same = (name, operands, guard) == (instruction.name, instruction.operands, instruction.guard)
        return instruction if same else made

    def _space(self, name: str, operands: tuple[Operand, ...], frame: _Frame) -> str:
        """ld.param and st.param of a variable of the thread, as ld.local and st.local. The address of a parameter of a
        function, in a register, is one in local memory."""
        parts = name.split(".")
        if parts[0] not in ("ld", "st") or not any(part.startswith("param") for part in parts):
            return name
        bases = [each.base for each in operands if isinstance(each, Address)]
        is_local = any(isinstance(base, Name) and base.name in self.locals for base in bases)
        if frame.returns_to and "param::entry" not in parts:
            is_local |= any(isinstance(base, Register) for base in bases)
        if not is_local:
            return name
        return ".".join("local" if part.startswith("param") else part for part in parts)

    def _guard(self, instruction: Instruction, frame: _Frame) -> Guard | None:
        guard = instruction.guard
        return None if guard is None else Guard(self._register(guard.register, frame), guard.negated)

    def _register(self, register: Register, frame: _Frame) -> Register:
        return replace(register, slot=register.slot + frame.first) if frame.first else register

    def _formal(self, formal: Formal, frame: _Frame) -> Operand:
        return self._register(formal, frame) if isinstance(formal, Register) else Name(formal.name)

    def _operand(self, operand: Operand, frame: _Frame) -> Operand:
        if isinstance(operand, Register):
            return self._register(operand, frame)
        if isinstance(operand, Negated):
            return Negated(self._register(operand.register, frame))
        if isinstance(operand, Name):
            return Name(frame.names.get(operand.name, operand.name))
        if isinstance(operand, Group):
            return Group(tuple(self._operand(each, frame) for each in operand.elements))
        if isinstance(operand, Address):
            base = self._operand(operand.base, frame)
            assert isinstance(base, Register | Name) or base is operand.base
            coordinates = operand.coordinates
            found = None if coordinates is None else tuple(self._operand(each, frame) for each in coordinates)
            return replace(operand, base=base, coordinates=found)
        return operand

    # Calls ------------------------------------------------------------------------------------------------------------

    def _call(self, call: Instruction, frame: _Frame) -> None:
        made = self._instruction(call, frame)
        parts = parts_of(made)
        self.copies += 1
        skip = f"over#{self.copies}"
        if made.guard is not None:
            self._jump(made, skip, Guard(made.guard.register, not made.guard.negated))
            made = replace(made, guard=None)
        if isinstance(parts.callee, Register):
            self._dispatch(made, parts, parts.callee, frame)
        else:
            self._inline(made, parts, parts.callee, frame)
        self.body.code.append(Label(skip, call.line))
        if len(self.body.code) > _MOST:
            raise call.error(f"the kernel and its calls have more than {_MOST} instructions [call-size]")

    def _jump(self, call: Instruction, label: str, guard: Guard | None = None) -> None:
        self.body.code.append(replace(call, name="bra", operands=(Name(label),), guard=guard))

    def _dispatch(self, call: Instruction, parts: CallParts, callee: Register, frame: _Frame) -> None:
        """A call by an address: compare it with that of each function, in turn. Lanes may call several functions."""
        self.copies += 1
        end, code = f"called#{self.copies}", self.body.code
        for name, function in targets_of(self.module, call, frame.entry, parts.targets).items():
            self.copies += 1
            other, found = f"other#{self.copies}", Register(f"%called#{self.copies}", "pred", len(self.body.registers))
            self.body.registers.append(found)
            address = Immediate(self.addresses[name])
            code.append(replace(call, name="setp.ne.s64", operands=(found, callee, address)))
            self._jump(call, other, Guard(found, False))
            if not function.is_defined or name in frame.callers:
                why = UNDEFINED if not function.is_defined else RECURSIVE
                code.append(replace(call, name="call", operands=(callee, Immediate(why))))
            else:
                self._inline(call, parts, name, frame)
            self._jump(call, end)
            code.append(Label(other, call.line))
        code.append(replace(call, name="call", operands=(callee, Immediate(UNKNOWN))))
        code.append(Label(end, call.line))

    def _inline(self, call: Instruction, parts: CallParts, callee: str, frame: _Frame) -> None:
        """A copy of the function's body, between copies of the arguments and of the results."""
        function = self.module.functions.get(callee)
        if function is None or not function.is_defined:
            self._external(call, callee, parts)
            return
        if callee in frame.callers:
            raise call.error(f"{callee} calls itself; recursive functions are not interpreted [call-recursive]")
        to, counts = function.signature, (len(parts.arguments), len(parts.results))
        if counts != (len(to.parameters), len(to.results)):
            raise call.error(
                f"{counts[0]} arguments and {counts[1]} results; {callee} takes {len(to.parameters)} and gives "
                f"{len(to.results)} [call-arguments]"
            )
        self.copies += 1
        mark, first = f"#{self.copies}", len(self.body.registers)
        end = f"return{mark}"
        inner = _Frame(function.entry, mark, first, {}, end, (*frame.callers, callee))
        pairs = [*zip(to.parameters, parts.arguments, strict=True), *zip(to.results, parts.results, strict=True)]
        named = ((formal, _variable(call, formal, given)) for formal, given in pairs)
        inner.names = {formal.name: variable for formal, variable in named if variable is not None}
        for formal, given in zip(to.parameters, parts.arguments, strict=True):
            self._move(call, self._formal(formal, inner), given, formal)
        self._copy(inner)
        self.body.code.append(Label(end, call.line))
        for formal, given in zip(to.results, parts.results, strict=True):
            self._move(call, given, self._formal(formal, inner), formal)

    def _move(self, call: Instruction, target: Operand, source: Operand, formal: Formal) -> None:
        """A copy of an argument into a register of the function, or of its register into a result."""
        if isinstance(formal, Register):
            self.body.code.append(replace(call, name=f"mov.{formal.type}", operands=(target, source)))

    def _external(self, call: Instruction, callee: str, parts: CallParts) -> None:
        """A function of the system: a failed assertion stops the kernel; printing does nothing and returns 0."""
        if callee in _STOPS:
            are_variables = all(isinstance(each, Name) for each in parts.arguments)
            self.body.code.append(replace(call, name="trap", operands=parts.arguments if are_variables else ()))
        elif callee in _PRINTS:
            for each in parts.results:
                if isinstance(each, Name):
                    zero = Address(each), Immediate(0)
                    self.body.code.append(replace(call, name="st.local.b32", operands=zero))
        else:
            raise call.error(
                f"{callee} is not defined in this module; link its PTX into the same file, or inline it [call-extern]"
            )


def _variable(call: Instruction, formal: Formal, given: Operand) -> str | None:
    """The variable that a call gives for a parameter in .param space; None for a register."""
    if isinstance(formal, Register):
        return None
    if not isinstance(given, Name):
        raise call.error(f"{formal.name} is in .param space; give a .param variable for it [call-variable]")
    return given.name
