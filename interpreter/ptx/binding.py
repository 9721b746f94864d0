"""Instructions bound to their rows and to slots of an agent's values, so that running one is a call.

All languages with the instructions of PTX decode to these: PTX itself, inline assembly, and ops of MLIR, whose values
are the registers (ops/instructions.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import CO_VARARGS, signature, unwrap
from operator import itemgetter
from types import FunctionType
from typing import Any

import numpy as np

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.machine.tensor_maps import map_at
from lowtide.interpreter.numbers.registers import SIGNED, Number, canonical, join
from lowtide.interpreter.program.program import Program
from lowtide.interpreter.ptx.moves import GENERIC_LOCAL, GENERIC_SHARED
from lowtide.interpreter.ptx.running import (
    Op,
    compute,
    compute_one,
    effect,
    give,
    guarded,
    guarded_bulk,
    resumable_effect,
)
from lowtide.interpreter.ptx.special_registers import SPECIAL
from lowtide.interpreter.ptx.syntax import Address, Group, Immediate, Instruction, Name, Negated, Operand, Register
from lowtide.interpreter.ptx.table import Form, Row, Table, bits_of

_OTHER_FORM = (AttributeError, LookupError, StopIteration, TypeError, ValueError)
"""Errors of rows for unknown modifiers or operands."""
_SINGLE = 32  # bits of an f32
# Instructions that change what others poll.
_SIGNALS = re.compile(
    r"(atom|red|mbarrier\.arrive\w*|mbarrier\.(expect|complete)_tx)\b.*|st\.(release|relaxed|volatile).*"
)
_OF_CTA = ("cp.async", "stmatrix")
_OF_ANY_SPACE = ("ld", "st", "atom", "red")
_SPACES = ("global", "shared", "local", "const", "param")
_SINK = "_"  # in place of a register: the result is dropped


@dataclass(eq=False)
class Slots:
    """The slots of registers, parameters and variables among an agent's values.

    `where` has the slot of each register, by its number; `addresses` are those of variables in shared memory, relative
    to its start, `local` those in the memory of a thread, `functions` those of functions. `sizes` are the bytes of
    parameters, by their slots.
    `readers` make a register of a slot's value, if that is of another kind, and `give` puts results there.
    `are_places`: a register is a place with changing contents; otherwise a value that is set once.
    """

    program: Program
    where: Sequence[int]
    parameters: Mapping[str, int] = field(default_factory=dict)
    addresses: Mapping[str, int] = field(default_factory=dict)
    local: Mapping[str, int] = field(default_factory=dict)
    functions: Mapping[str, int] = field(default_factory=dict)
    sizes: Mapping[int, int] = field(default_factory=dict)
    readers: Mapping[int, Callable[[Any], Any]] = field(default_factory=dict)
    give: Callable[[list[Any], tuple[int, ...], Any], None] | None = None
    are_places: bool = True

    def of(self, register: Register) -> int:
        """The slot of a register."""
        return self.where[register.slot]

    def constant(self, immediate: Immediate, bits: int) -> int:
        """A slot that holds a constant as a register of this width, which is read as fast as a register."""
        known, key = self.program.constants, (immediate, bits)
        if key not in known:
            known[key] = self.program.reserve(), self._value(immediate, bits)
        return known[key][0]

    def _value(self, immediate: Immediate, bits: int) -> Any:
        """The register of an immediate. Floats that the domain lacks stay bits, so only computing with them is
        refused."""
        if not immediate.type:
            return canonical(immediate.value, bits)
        width = bits_of(immediate.type)
        number = np.array(immediate.value, f"u{width // 8}").view(f"f{width // 8}")
        type = immediate.type
        if type == "f64" and bits == _SINGLE:  # it is converted where it is used
            number, type, width = number.astype(np.float32), "f32", bits
        try:
            return Number(self.program.domain.constant(float(number), type), type)
        except InterpreterError:
            return canonical(int(number.view(f"u{width // 8}")), width)

    def address(self, offset: int) -> int:
        """A slot that holds the address of a byte of the CTA's shared memory."""
        places = self.program.addresses
        if offset not in places:
            places[offset] = self.program.reserve()
        return places[offset]

    def parameter_address(self, parameter: int) -> int:
        """A slot that holds the address of a parameter, whose number is that of its slot, if it has a known size."""
        places = self.program.parameter_addresses
        if parameter not in self.sizes:
            return parameter
        if parameter not in places:
            places[parameter] = self.program.reserve()
            self.program.placed[parameter] = self.sizes[parameter]
        return places[parameter]

    def global_address(self, name: str, offset: int) -> int:
        """A slot that holds the address of a byte of a variable in global memory."""
        places = self.program.global_addresses
        if (name, offset) not in places:
            places[name, offset] = self.program.reserve()
        return places[name, offset]


def bind(instruction: Instruction, table: Table, slots: Slots) -> Op:
    """The instruction, ready to run. Raises InterpreterError for an instruction without a row."""
    row, run, data, widths = _formed(instruction, table, slots)
    operands = instruction.operands
    results = [slot for operand in operands[: row.results] for slot in _result_slots(instruction, operand, slots)]
    sources = operands[row.results :]
    op = Op(instruction, effect, instruction, results=tuple(results), acts=row.acts, run=run, data=data)
    op.give = slots.give or give
    op.readers = tuple(_reader(op, operand, bits, slots) for operand, bits in zip(sources, widths, strict=True))
    if row.is_value:
        op.handler = compute_one if slots.give is None and isinstance(operands[0], Register) else compute
    else:
        op.resumable = row.resumable
        op.handler = resumable_effect if row.resumable else effect
    read = [slot for operand in sources for slot in _slots_of(operand, slots)]
    op.sources = tuple(read)
    if instruction.guard is not None:
        op.guard = guard = slots.of(instruction.guard.register)
        op.handler = guarded(instruction.guard, guard, op.handler, op.resumable)
        read += [guard, *results]
    if row.bulk is not None and (instruction.guard is None or row.bulk.is_masked) and row.bulk.takes(op):
        op.bulk = row.bulk if instruction.guard is None else guarded_bulk(row.bulk)
    op.is_single = op.handler is compute_one
    op.in_cta = row.name in _OF_CTA or (row.name in ("ld", "st") and op.data[0] not in ("global", "const", "shared"))
    op.is_maskable = row.is_value or (op.bulk is not None and row.name in ("ld", "st"))
    op.is_free = row.is_value or op.bulk is not None
    op.operands, op.computes = tuple(read), row.is_value
    op.signals = bool(_SIGNALS.fullmatch(instruction.name))
    op.by_convoy = None if instruction.guard is not None or not slots.are_places else row.by_convoy
    op.is_wide, op.has_places = row.is_value or row.is_wide, row.name == "wgmma.mma_async"
    return op


def _formed(instruction: Instruction, table: Table, slots: Slots) -> tuple[Row, Callable[..., Any], Any, list[int]]:
    """An instruction's row, the function that runs it, the row's prepared data, and the widths of its sources'
    constants; computed once for all ops with the same text."""
    known = slots.program.forms
    if instruction not in known:
        form = table.form(instruction, slots.program.domain, slots.are_places)
        row, count = form.row, len(instruction.operands) - form.row.results
        if count < 0:
            raise instruction.error(f"{row.name} has {row.results} results; write `_` for a dropped one [result-count]")
        try:
            run = row.handler(form) if row.is_value else row.handler
            data = row.prepare(form) if row.prepare is not None else None
            _confirm_count(run, (0 if row.is_value else 2) + count)
            known[instruction] = row, run, data, _widths(form, count)
        except _OTHER_FORM as error:
            raise instruction.error(
                f"no known form of {row.name} has these modifiers and operands [form-known]"
            ) from error
    found: tuple[Row, Callable[..., Any], Any, list[int]] = known[instruction]
    return found


def _confirm_count(run: Callable[..., Any], count: int) -> None:
    """Raise TypeError if a function does not take `count` values."""
    run = unwrap(run)
    if not isinstance(run, FunctionType) or vars(run):  # it may have a signature of its own
        signature(run).bind(*range(count))
        return
    code = run.__code__  # rows make many functions, and a signature takes longer than all else here
    least = code.co_argcount - len(run.__defaults__ or ())
    if count < least or (count > code.co_argcount and not code.co_flags & CO_VARARGS):
        raise TypeError(f"{run.__name__} does not take {count} values")


def _widths(form: Form, count: int) -> list[int]:
    """The widths of constants among the sources."""
    if not form.types or form.row.name.startswith("wmma"):
        return [64 if "b64" in form.words else 32] * count
    bits, name = min(form.bits, 64), form.row.name
    widths = [bits] * count
    if name in ("mad.wide",):
        widths[2] = 2 * bits
    if name in ("shl", "shr"):
        widths[1] = 32
    if name in ("bfe", "bfi"):
        widths[-2:] = [32, 32]
    if name in ("selp", "setp", "set") and count == 3:
        widths[2] = 1
    if name == "slct":
        widths[:2] = [bits_of(form.types[0])] * 2
    return widths


def _within(operand: Operand) -> tuple[Operand, ...]:
    """An operand and its parts."""
    if isinstance(operand, Negated):
        return (operand.register,)
    if isinstance(operand, Group):
        return tuple(each for element in operand.elements for each in _within(element))
    if isinstance(operand, Address):
        return (operand.base, *(operand.coordinates or ()))
    return (operand,)


def _slots_of(operand: Operand, slots: Slots) -> list[int]:
    """The slots of registers that an operand reads."""
    return [slots.of(each) for each in _within(operand) if isinstance(each, Register)]


def _result_slots(instruction: Instruction, operand: Operand, slots: Slots) -> list[int]:
    if isinstance(operand, Register):
        return [slots.of(operand)]
    if isinstance(operand, Group):
        return [slot for element in operand.elements for slot in _result_slots(instruction, element, slots)]
    if isinstance(operand, Name) and operand.name == _SINK:
        return [slots.program.reserve()]
    raise instruction.error("a result goes into a register [result-register]")


def _reader(op: Op, operand: Operand, bits: int, slots: Slots) -> Callable[[list[Any]], Any]:
    """A function that reads a source from an agent's values."""
    if isinstance(operand, Register):
        return _register_reader(slots.of(operand), slots)
    if isinstance(operand, Immediate):
        return itemgetter(slots.constant(operand, bits))
    if isinstance(operand, Negated):
        return _negated_reader(_register_reader(slots.of(operand.register), slots))
    if isinstance(operand, Group):
        readers = [_reader(op, element, bits, slots) for element in operand.elements]
        are_plain = all(isinstance(element, Register) for element in operand.elements)
        if len(readers) > 1 and are_plain and all(isinstance(read, itemgetter) for read in readers):
            return itemgetter(*_slots_of(operand, slots))
        return lambda values: tuple([read(values) for read in readers])
    if isinstance(operand, Address):
        return _address_reader(op, operand, slots)
    return _named_reader(op, operand.name, 0, slots)


def _register_reader(slot: int, slots: Slots) -> Callable[[list[Any]], Any]:
    convert = slots.readers.get(slot)
    return itemgetter(slot) if convert is None else lambda values: convert(values[slot])


def _negated_reader(read: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """The negation of a predicate; one that was never written stays so."""

    def negated(values: list[Any]) -> Any:
        value = read(values)
        return value if value is None else ~value if isinstance(value, np.ndarray) else not value

    return negated


def _address_reader(op: Op, address: Address, slots: Slots) -> Callable[[list[Any]], Any]:
    base, offset = address.base, address.offset
    if address.coordinates is not None:
        read = _reader(op, base, 64, slots)
        coordinates = [_reader(op, each, 32, slots) for each in address.coordinates]
        return lambda values: (read(values), [coordinate(values) for coordinate in coordinates])
    if isinstance(base, Name):
        return _named_reader(op, base.name, offset + _window(op, base.name, slots), slots)
    if isinstance(base, Immediate):
        return itemgetter(slots.constant(Immediate(base.value + offset), 64))
    read = itemgetter(slots.of(base))
    if not offset:
        return read
    return lambda values: read(values) + offset


def _window(op: Op, name: str, slots: Slots) -> int:
    """What makes the address of a variable generic, for an access that names no state space."""
    stem, *words = op.name.split(".")
    if stem not in _OF_ANY_SPACE or any(word.partition("::")[0] in _SPACES for word in words):
        return 0
    return GENERIC_SHARED if name in slots.addresses else GENERIC_LOCAL if name in slots.local else 0


def _named_reader(op: Op, name: str, offset: int, slots: Slots) -> Callable[[list[Any]], Any]:
    """A parameter's value, a variable's address, a special register."""
    if name in slots.parameters:
        slot = slots.parameters[name]
        if op.name.startswith("ld.param"):
            return itemgetter(slot)
        place = slots.parameter_address(slot)
        return lambda values: _address_of(values[slot], offset, values[place])
    if name in slots.addresses:
        return itemgetter(slots.address(slots.addresses[name] + offset))
    if name in slots.local:
        return itemgetter(slots.constant(Immediate(slots.local[name] + offset), 64))
    if name in slots.functions:
        return itemgetter(slots.constant(Immediate(slots.functions[name] + offset), 64))
    if name in slots.program.globals:
        return itemgetter(slots.global_address(name, offset))
    if name in SPECIAL:
        raise op.instruction.error(f"only mov reads {name} [mov-alone]")
    raise op.instruction.error(f"{name} is not a known register, variable or parameter [name-unknown]")


def _address_of(parameter: Any, offset: int, place: int | None) -> Any:
    """The address of a byte of a parameter in memory at `place`; at some levels tensor maps are not in memory."""
    return map_at(parameter, offset) if place is None else place + offset


def bind_special(instruction: Instruction, slots: Slots) -> Op | None:
    """`mov` of a special register, or of two into one of 64 bits; None for other instructions."""
    operands = instruction.operands
    source = operands[1] if len(operands) == 2 else None
    parts = source.elements if isinstance(source, Group) else (source,)
    names = [each.name for each in parts if isinstance(each, Name) and each.name in SPECIAL]
    if not instruction.name.startswith("mov.") or len(names) != len(parts) or len(parts) > 2:
        return None
    reads, target = [SPECIAL[name] for name in names], _result_slots(instruction, operands[0], slots)
    bits = bits_of(instruction.name.split(".")[-1])

    def special(state: AgentState, op: Op) -> None:
        value = reads[0](state)
        if len(reads) > 1:
            value = join(value, reads[1](state), bits // 2, state.machine.domain)
        state.values[target[0]] = value.astype(SIGNED[bits], copy=False) if isinstance(value, np.ndarray) else value

    def by_convoy(convoy: Any, op: Op) -> None:
        for state in convoy.each(op):
            special(state, op)
        convoy.gather(op.results)

    op = Op(instruction, special, instruction, results=tuple(target), computes=True)
    op.by_convoy = by_convoy if instruction.guard is None else None
    op.is_maskable = instruction.guard is None
    if instruction.guard is not None:
        op.guard = guard = slots.of(instruction.guard.register)
        op.handler, op.operands = guarded(instruction.guard, guard, special, False), (guard, *target)
    return op
