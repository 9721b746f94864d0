"""Where values of MLIR become registers of instructions, and back: a float is a `Number` in a register, two of 16 bits
`Packed`. Integers, pointers and what already is of a register's kind stay as they are."""

from collections.abc import Callable
from typing import Any, TypeAlias

from lowtide.interpreter.machine.pending import PendingRegister, PendingRegisters
from lowtide.interpreter.numbers import registers
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.numbers.packed import Packed
from lowtide.interpreter.numbers.registers import Half, Number
from lowtide.interpreter.program.types import Scalar, Struct, Type, Vector

Conversion: TypeAlias = Callable[[Any], Any]

_KEPT = (Packed, Number, Half, PendingRegister, PendingRegisters, type(None))


def to_register(type: Type) -> Conversion | None:
    """Makes what registers hold of a value of this type; None where it stays as it is."""
    if isinstance(type, Struct):
        parts = [to_register(element) or _same for element in type.elements]
        return lambda value: (
            value
            if isinstance(value, _KEPT)
            else tuple(convert(each) for convert, each in zip(parts, value, strict=True))
        )
    if isinstance(type, Vector):
        element = type.element.name
        return lambda value: value if isinstance(value, _KEPT) else Packed(value, element)
    if isinstance(type, Scalar) and type.is_float:
        name = type.name
        return lambda value: value if isinstance(value, _KEPT) else Number(value, name)
    return None


def from_register(type: Type, domain: Domain) -> Conversion | None:
    """Makes a value of this type of what registers hold; None where it stays as it is."""
    if isinstance(type, Struct):
        parts = [from_register(element, domain) for element in type.elements]
        if not any(parts):
            return None
        made = [convert or _same for convert in parts]
        return lambda held: (
            held
            if isinstance(held, _KEPT)
            else tuple([convert(each) for convert, each in zip(made, held, strict=True)])
        )
    if isinstance(type, Vector):
        element = type.element.name
        return lambda held: held if _stays(held) else registers.halves(held, element, domain)
    if isinstance(type, Scalar) and type.is_float:
        name = type.name
        return lambda held: held if _stays(held) else registers.number(held, name, domain)
    return None


def _stays(held: Any) -> bool:
    return held is None or isinstance(held, PendingRegister | PendingRegisters)


def _same(value: Any) -> Any:
    return value
