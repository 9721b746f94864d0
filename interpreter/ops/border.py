"""Conversion of MLIR values to registers of instructions, and back: a float is a `Number` in a register, two of 16 bits
are `Packed`. Integers, pointers and values in the form of registers are unchanged."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from lowtide.interpreter.machine.pending import PendingRegister, PendingRegisters
from lowtide.interpreter.numbers import registers
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.numbers.packed import Packed
from lowtide.interpreter.numbers.registers import Half, Number
from lowtide.interpreter.program.types import Scalar, Struct, Type, Vector

Conversion: TypeAlias = Callable[[Any], Any]

_KEPT = (Packed, Number, Half, PendingRegister, PendingRegisters, type(None))


@lru_cache(maxsize=256)
def to_register(type: Type) -> Conversion | None:
    """The conversion of a value of this type to a register; None if it is unchanged."""
    if isinstance(type, Struct):
        parts = [to_register(element) or _same for element in type.elements]
        return lambda value: (
            value
            if isinstance(value, _KEPT)
            else tuple(convert(each) for convert, each in zip(parts, value, strict=True))
        )
    if isinstance(type, Vector):
        element = type.element
        return lambda value: _one_register(value, element)
    if isinstance(type, Scalar) and type.is_float:
        name = type.name
        return lambda value: value if isinstance(value, _KEPT) else Number(value, name)
    return None


@lru_cache(maxsize=256)
def from_register(type: Type, domain: Domain) -> Conversion | None:
    """The conversion of a register to a value of this type; None if it is unchanged."""
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


def _one_register(value: Any, element: Scalar) -> Any:
    """A vector whose elements fill a register: numbers, or integers as their bits or the numbers that they hold."""
    if isinstance(value, Packed) and value.payload.ndim > 2:
        return Packed(value.payload.reshape(len(value), -1), value.dtype)
    if isinstance(value, _KEPT):
        return value
    if element.is_float:
        return Packed(value, element.name)
    rows = np.ascontiguousarray(value, element.dtype)
    bits = rows.view(registers.SIGNED[8 * rows.itemsize * rows.shape[-1]])[:, 0]
    return bits if len(bits) > 1 else int(bits[0])


def _stays(held: Any) -> bool:
    return held is None or isinstance(held, PendingRegister | PendingRegisters)


def _same(value: Any) -> Any:
    return value
