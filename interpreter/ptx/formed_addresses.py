"""Finds the variables and parameters from which the address of an access is formed.

An address that is formed from one of them must stay inside it, or inside the array that it points to. The analysis
follows addresses through registers, on all paths: if several instructions write a register, it may hold the address of
each of their variables. For an address that is loaded from memory, the variable is unknown.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lowtide.interpreter.numbers.accesses import Described
from lowtide.interpreter.numbers.cells import Buffer
from lowtide.interpreter.ptx.running import Op
from lowtide.interpreter.ptx.syntax import Address, Group, Immediate, Name, Operand, Register

Held = frozenset[str]
"""The variables whose address a register may hold."""

_NONE: Held = frozenset()
_ANY: Held = frozenset({"*"})  # it may be an address of any
_KEEP = frozenset({"mov", "selp", "cvt", "cvta", "mapa", "min", "max", "shfl"})
_COPIES = ("cp.async.ca.", "cp.async.cg.")
_BULK = ("cp.async.bulk.", "cp.reduce.async.bulk.")


@dataclass(frozen=True)
class _Code:
    """The ops of a kernel; `slot` gives the slot of a register. `variables` have names, or `pointers` point to them:
    parameters, by name and offset."""

    ops: Sequence[Op]
    variables: Mapping[str, Buffer]
    slot: Callable[[Register], int]
    pointers: Mapping[tuple[str, int], str] = field(default_factory=dict)
    held: dict[int, Held] = field(default_factory=dict)

    def of(self, operand: Operand) -> Held:
        """The variables whose address an operand, or a part of it, may hold."""
        if isinstance(operand, Register):
            return self.held.get(self.slot(operand), _NONE)
        if isinstance(operand, Group):
            return _joined([self.of(each) for each in operand.elements])
        if isinstance(operand, Address) and isinstance(operand.base, Name):  # `name+4`
            operand = operand.base
        if not isinstance(operand, Name) or operand.name.startswith("%"):  # of a special register
            return _NONE
        if self.pointers:  # another variable
            return _ANY
        return frozenset({operand.name}) if operand.name in self.variables else _NONE

    def loaded(self, op: Op) -> Held:
        """What a parameter that an op loads points to."""
        address = op.instruction.operands[1]
        if isinstance(address, Address) and isinstance(address.base, Name):
            pointee = self.pointers.get((address.base.name, address.offset))
            return _NONE if pointee is None else frozenset({pointee})
        return _NONE


def limits(
    ops: Iterable[Op], variables: Mapping[str, Buffer], slot: Callable[[Register], int]
) -> dict[Described, tuple[Buffer, ...]]:
    """For each op that accesses shared memory by addresses of known variables, those variables."""
    return _limits(_Code(list(ops), variables, slot)) if variables else {}


@dataclass(frozen=True)
class PointerLimits:
    """The same for parameters that point to arrays in global memory, for each launch of a kernel."""

    ops: Sequence[Op]
    slot: Callable[[Register], int]
    _found: dict[frozenset[tuple[tuple[str, int], str]], dict[Described, Held]] = field(default_factory=dict)

    def of(
        self, pointers: Mapping[tuple[str, int], str], arrays: Mapping[str, Buffer]
    ) -> dict[Described, tuple[Buffer, ...]]:
        """For each op that accesses memory by addresses of known arrays, those arrays. `pointers`: the name of the
        array, by the name of the parameter and the byte in it."""
        key = frozenset(pointers.items())
        if key not in self._found:
            self._found[key] = _reached_by_op(_Code(self.ops, arrays, self.slot, pointers)) if pointers else {}
        return {op: tuple(arrays[name] for name in sorted(names)) for op, names in self._found[key].items()}


def _limits(code: _Code) -> dict[Described, tuple[Buffer, ...]]:
    return {op: tuple(code.variables[name] for name in sorted(names)) for op, names in _reached_by_op(code).items()}


def _reached_by_op(code: _Code) -> dict[Described, Held]:
    while _spread(code):
        pass
    reached = ((op, _reached(op, code)) for op in code.ops)
    return {op: names for op, names in reached if names not in (_NONE, _ANY)}


def _joined(parts: Sequence[Held]) -> Held:
    joined = frozenset[str]().union(*parts)
    return _ANY if joined >= _ANY else joined


def _spread(code: _Code) -> bool:
    """Follow the addresses through each op once. Returns whether a register may hold more than was known."""
    grows = False
    for op in code.ops:
        made = _made(op, code)
        for slot in op.results if made else ():
            known = code.held.get(slot, _NONE)
            code.held[slot] = now = _joined([known, made])
            grows |= now != known
    return grows


def _made(op: Op, code: _Code) -> Held:
    """The variables whose address the results of an op may be, by those of its operands."""
    stem = op.name.partition(".")[0]
    if op.name.startswith("ld.param"):
        return code.loaded(op)
    if not (op.computes or stem in _KEEP) or stem == "setp":
        return _NONE
    sources = op.instruction.operands[1:]
    given = [each for each in map(code.of, sources) if each]
    if not given or stem in _KEEP:
        return _joined(given)
    return given[0] if len(given) == 1 and _moves(stem, sources, code) else _ANY


def _moves(stem: str, sources: Sequence[Operand], code: _Code) -> bool:
    """Whether an op moves an address inside its variable: it adds to it, or rounds it down."""
    if stem == "and":
        return any(isinstance(each, Immediate) and each.value < 0 for each in sources)
    if stem == "sub":  # what is subtracted is no address
        return not code.of(sources[-1])
    if stem == "mad":  # nor is a factor
        return bool(code.of(sources[-1]))
    return stem in ("add", "or", "xor")


def _reached(op: Op, code: _Code) -> Held:
    """The variables from which the addresses of an op are formed; none if one of them is unknown."""
    addresses = [each for each in op.instruction.operands if isinstance(each, Address)]
    if code.pointers and ".tensor." in op.name:  # it accesses the array of a map
        return _NONE
    if op.name.startswith(_COPIES):  # from global memory to shared memory
        addresses = addresses[1:2] if code.pointers else addresses[:1]
    elif code.pointers and op.name.startswith(_BULK):  # to global memory, or from it
        addresses = addresses[:1] if ".bulk.global." in op.name else addresses[1:2]
    found = [code.of(each.base) for each in addresses]
    return _joined(found) if all(found) else _NONE
