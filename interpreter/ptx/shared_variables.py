"""Places variables in shared memory, and finds the variables from which the address of an access is formed.

Variables may lie side by side in any order, so an address that is formed from one variable must stay inside it. The
analysis follows addresses through registers, on all paths: if several instructions write a register, it may hold the
address of each of their variables. For an address that is loaded from memory, the variable is unknown.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lowtide.errors import InterpreterError
from lowtide.interpreter.numbers.cells import Buffer, Described
from lowtide.interpreter.ptx.running import Op
from lowtide.interpreter.ptx.syntax import Address, Group, Immediate, Name, Operand, Register, Variable

_LEAST_ALIGNMENT, _MOST_ALIGNMENT = 16, 1024  # of shared memory: the hardware's, and the largest swizzle's period
_MOST_STATIC = 48 * 1024  # bytes of shared memory that a kernel declares (as ptxas)
_APART = 256  # bytes; a variable takes up a multiple of them, so that what runs past its end is found
_NO_END = 1 << 32  # of the variable that the launch sizes

Held = frozenset[str]
"""The variables whose address a register may hold."""

_NONE: Held = frozenset()
_ANY: Held = frozenset({"*"})  # it may be an address of any
_KEEP = frozenset({"mov", "selp", "cvt", "cvta", "mapa", "min", "max", "shfl"})


@dataclass(frozen=True)
class SharedPlaces:
    """`variables` by name, with offsets in shared memory; `origin` is the address of the first byte, `size` the bytes
    before the variable that the launch sizes."""

    variables: Mapping[str, Buffer] = field(default_factory=dict)
    origin: int = 0
    size: int = 0

    @property
    def offsets(self) -> dict[str, int]:
        return {name: each.start for name, each in self.variables.items()}

    @property
    def gaps(self) -> tuple[tuple[int, int], ...]:
        """The bytes that belong to no variable."""
        starts = [*sorted(each.start for each in self.variables.values()), self.size]
        ends = sorted(each.end for each in self.variables.values())
        return tuple((end, start) for end, start in zip(ends, starts[1:], strict=True) if end < start)


def places(variables: Sequence[Variable]) -> SharedPlaces:
    """The places of variables in shared memory, with the one that the launch sizes last.

    Hardware may place it at any multiple of its alignment. The first address with no larger alignment is taken, so that
    code that relies on one, such as a swizzle, fails here too.
    """
    found, at, alignment = {}, 0, 0
    if (total := sum(variable.size for variable in variables)) > _MOST_STATIC:
        raise InterpreterError(
            f"{total} bytes of variables in shared memory; a kernel may declare at most {_MOST_STATIC}: declare "
            "`.extern .shared name[]`, whose size the launch sets [shared-declared]"
        )
    for variable in sorted(variables, key=lambda each: each.size == 0):
        align = max(_LEAST_ALIGNMENT, variable.align)
        at = -(-at // align) * align
        found[variable.name] = Buffer(variable.name, at, at + variable.size if variable.size else _NO_END)
        at += -(-variable.size // _APART) * _APART
        alignment = align if not variable.size else alignment
    return SharedPlaces(found, alignment % _MOST_ALIGNMENT, at)


@dataclass(frozen=True)
class _Code:
    """The ops of a kernel; `slot` gives the slot of a register."""

    ops: Sequence[Op]
    variables: Mapping[str, Buffer]
    slot: Callable[[Register], int]
    held: dict[int, Held] = field(default_factory=dict)

    def of(self, operand: Operand) -> Held:
        """The variables whose address an operand, or a part of it, may hold."""
        if isinstance(operand, Register):
            return self.held.get(self.slot(operand), _NONE)
        if isinstance(operand, Group):
            return _joined([self.of(each) for each in operand.elements])
        if isinstance(operand, Address) and isinstance(operand.base, Name):  # `name+4`
            operand = operand.base
        is_known = isinstance(operand, Name) and operand.name in self.variables
        return frozenset({operand.name}) if is_known and isinstance(operand, Name) else _NONE


def limits(
    ops: Iterable[Op], variables: Mapping[str, Buffer], slot: Callable[[Register], int]
) -> dict[Described, tuple[Buffer, ...]]:
    """For each op that accesses shared memory by addresses of known variables, those variables."""
    if not variables:
        return {}
    code = _Code(list(ops), variables, slot)
    while _spread(code):
        pass
    reached = ((op, _reached(op, code)) for op in code.ops)
    return {op: tuple(variables[name] for name in sorted(names)) for op, names in reached if names not in (_NONE, _ANY)}


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
    if op.name.startswith(("cp.async.ca.", "cp.async.cg.")):  # the second is in global memory
        addresses = addresses[:1]
    found = [code.of(each.base) for each in addresses]
    return _joined(found) if all(found) else _NONE
