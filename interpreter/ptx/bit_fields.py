"""Bit fields, masks, funnel shifts and sums of small products.

PTX ISA, "Integer Arithmetic Instructions", "Logic and Shift Instructions".
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from lowtide.interpreter.numbers.registers import canonical, raw, unsigned
from lowtide.interpreter.ptx.lanewise import each_lane
from lowtide.interpreter.ptx.table import Form, Table

TABLE = Table()

_SECTION = "Integer Arithmetic Instructions"
_LOGIC = "Logic and Shift Instructions"
_INTEGERS = "s16 u16 s32 u32 s64 u64"
_BYTE = 0xFF


def _signs(form: Form, count: int, type: str = "") -> list[tuple[int, bool]]:
    """`count` sources of the type, signed if it is."""
    return [(form.bits, (type or form.type)[0] == "s")] * count


# Products -------------------------------------------------------------------------------------------------------------


@TABLE.values("mad.hi", types=_INTEGERS, words="sat", section=f"{_SECTION}: mad")
def mad_high(form: Form) -> Callable[..., Any]:
    bits = form.bits

    def compute(x: int, y: int, z: int) -> int:
        result = (x * y >> bits) + z
        return _saturated(result, bits) if "sat" in form.words else result

    return each_lane(form, compute, sources=_signs(form, 3))


def _saturated(value: int, bits: int) -> int:
    return max(-1 << bits - 1, min((1 << bits - 1) - 1, value))


@TABLE.values("mul24.lo", "mul24.hi", types="u32 s32", section=f"{_SECTION}: mul24")
def mul24(form: Form) -> Callable[..., Any]:
    """The low or the high 32 bits of the 48-bit product of two 24-bit values."""
    return each_lane(form, lambda x, y: _of_24(form, x, y))


@TABLE.values("mad24.lo", "mad24.hi", types="u32 s32", words="sat", section=f"{_SECTION}: mad24")
def mad24(form: Form) -> Callable[..., Any]:
    def compute(x: int, y: int, z: int) -> int:
        found = _of_24(form, x, y)
        if form.type[0] == "s":
            found, z = int(canonical(found, 32)), int(canonical(z, 32))
        return _saturated(found + z, 32) if "sat" in form.words else found + z

    return each_lane(form, compute)


def _of_24(form: Form, x: int, y: int) -> int:
    x, y = x & 0xFFFFFF, y & 0xFFFFFF
    if form.type[0] == "s":
        x, y = (value - (value >> 23 << 24) for value in (x, y))
    return x * y >> 16 if form.row.name.endswith("hi") else x * y


@TABLE.values("sad", types=_INTEGERS, section=f"{_SECTION}: sad")
def sad(form: Form) -> Callable[..., Any]:
    return each_lane(form, lambda x, y, z: abs(x - y) + z, sources=_signs(form, 2))


def _part(value: int, at: int, bits: int, type: str) -> int:
    found = value >> at * bits & (1 << bits) - 1
    return int(canonical(found, bits)) if type[0] == "s" else found


@TABLE.values("dp4a", types="u32 s32", section=f"{_SECTION}: dp4a")
def dp4a(form: Form) -> Callable[..., Any]:
    """A sum of four products of bytes, added to a register."""
    first, second = form.types
    return each_lane(form, lambda x, y, z: z + sum(_part(x, i, 8, first) * _part(y, i, 8, second) for i in range(4)))


@TABLE.values("dp2a.lo", "dp2a.hi", types="u32 s32", section=f"{_SECTION}: dp2a")
def dp2a(form: Form) -> Callable[..., Any]:
    """A sum of two products of halves by the low or the high bytes, added to a register."""
    first, second = form.types
    start = 2 if form.row.name.endswith("hi") else 0
    return each_lane(
        form, lambda x, y, z: z + sum(_part(x, i, 16, first) * _part(y, start + i, 8, second) for i in range(2))
    )


@TABLE.values(
    "vabsdiff2", "vabsdiff4", types="u32 s32", words="add", section="Video Instructions: vabsdiff2, vabsdiff4"
)
def differences(form: Form) -> Callable[..., Any]:
    """The distances of the halves or bytes of two registers, of the second and third type; with .add, their sum, added
    to a third register. All parts are taken."""
    _, first, second = form.types
    bits = 32 // int(form.row.name[-1])
    places = range(32 // bits)

    def compute(x: int, y: int, z: int) -> int:
        found = [abs(_part(x, at, bits, first) - _part(y, at, bits, second)) for at in places]
        if "add" in form.words:
            return z + sum(found)
        return sum((each & (1 << bits) - 1) << bits * at for at, each in zip(places, found, strict=True))

    return each_lane(form, compute)


# Fields ---------------------------------------------------------------------------------------------------------------


@TABLE.values("bfe", types="s32 u32 s64 u64", section=f"{_SECTION}: bfe")
def field(form: Form) -> Callable[..., Any]:
    """`length` bits from `position`, both 8 bits; above them zeros or copies of the field's highest bit."""
    bits, is_signed = form.bits, form.type[0] == "s"

    def compute(value: int, position: int, length: int) -> int:
        position, length = position & _BYTE, length & _BYTE
        count = max(0, min(length, bits - position))
        found = value >> position & (1 << count) - 1
        is_set = is_signed and length > 0 and value >> min(position + length, bits) - 1 & 1
        return found - (1 << count) if is_set else found

    by_lane = each_lane(form, compute, sources=[(bits, False), (32, False), (32, False)])

    def of_lanes(value: Any, position: Any, length: Any) -> Any:
        """As `compute`, for one field of the values of all lanes."""
        row = raw(value, bits, form.domain)
        if not isinstance(row, np.ndarray) or not isinstance(position, int) or not isinstance(length, int):
            return by_lane(value, position, length)
        position, length = position & _BYTE, length & _BYTE
        count = max(0, min(length, bits - position))
        if is_signed and length > 0:  # without a bit of the value, all are copies of its sign
            top = max(0, bits - length - position)
            return canonical(row, bits) << top >> min(bits - 1, top + position)
        mask = np.array((1 << count) - 1, f"u{bits // 8}")
        return canonical(unsigned(row, bits) >> min(position, bits - 1) & mask, bits)

    return of_lanes


@TABLE.values("bfi", types="b32 b64", section=f"{_SECTION}: bfi")
def inserted(form: Form) -> Callable[..., Any]:
    """The low `length` bits of a value, inserted into another at `position`."""
    bits = form.bits

    def compute(value: int, into: int, position: int, length: int) -> int:
        position, length = position & _BYTE, length & _BYTE
        mask = ((1 << length) - 1 << position) & (1 << bits) - 1
        return into & ~mask | value << position & mask

    return each_lane(form, compute, sources=[(bits, False), (bits, False), (32, False), (32, False)])


@TABLE.values("bfind", types="u32 s32 u64 s64", words="shiftamt", section=f"{_SECTION}: bfind")
def bfind(form: Form) -> Callable[..., Any]:
    """The place of the highest set bit, or for a negative value of the highest zero; -1 if there is none. With
    .shiftamt, the shift that brings it to the top."""
    bits, is_shift = form.bits, "shiftamt" in form.words

    def compute(value: int) -> int:
        place = (~value if value < 0 else value).bit_length() - 1
        return bits - 1 - place if is_shift and place >= 0 else place

    return each_lane(form, compute, sources=_signs(form, 1), outs=(32,))


@TABLE.values("fns", types="b32", section=f"{_SECTION}: fns")
def fns(form: Form) -> Callable[..., Any]:
    """The place of the n-th set bit from a place on, upwards, or for a negative n downwards; for n = 0 that place, if
    its bit is set. -1 if there is none."""

    def compute(mask: int, base: int, count: int) -> int:
        places = range(base, 32) if count > 0 else range(base, -1, -1) if count < 0 else (base,)
        found = [place for place in places if mask >> place & 1]
        number = max(abs(count), 1) - 1
        return found[number] if number < len(found) else -1

    return each_lane(form, compute, sources=[(32, False), (32, False), (32, True)])


@TABLE.values("brev", types="b32 b64", section=f"{_SECTION}: brev")
def brev(form: Form) -> Callable[..., Any]:
    """The bits in reverse order."""
    return each_lane(form, lambda value: int(f"{value:0{form.bits}b}"[::-1], 2))


@TABLE.values("szext", types="u32 s32", words="clamp wrap", section=f"{_SECTION}: szext")
def szext(form: Form) -> Callable[..., Any]:
    """The low bits of a value, as many as the second source says, extended by zeros or by the highest of them."""
    is_wrap, is_signed = "wrap" in form.words, form.type[0] == "s"

    def compute(value: int, width: int) -> int:
        width = width & 31 if is_wrap else min(width, 32)
        found = value & (1 << width) - 1
        return found - (1 << width) if is_signed and width and found >> width - 1 else found

    return each_lane(form, compute)


@TABLE.values("bmsk", types="b32", words="clamp wrap", section=f"{_SECTION}: bmsk")
def bmsk(form: Form) -> Callable[..., Any]:
    """A mask of some bits from a position on."""
    is_wrap = "wrap" in form.words

    def compute(position: int, width: int) -> int:
        position, width = (value & 31 if is_wrap else min(value, 32) for value in (position, width))
        return ((1 << width) - 1 << position) & 0xFFFFFFFF

    return each_lane(form, compute)


@TABLE.values("shf.l", "shf.r", types="b32", words="clamp wrap", section=f"{_LOGIC}: shf")
def funnel(form: Form) -> Callable[..., Any]:
    """The high 32 bits of a pair (low, high) shifted left, or the low ones of it shifted right."""
    is_wrap, is_left = "wrap" in form.words, form.row.name.endswith("l")

    def compute(low: int, high: int, amount: int) -> int:
        amount = amount & 31 if is_wrap else min(amount, 32)
        whole = high << 32 | low
        return whole << amount >> 32 if is_left else whole >> amount

    return each_lane(form, compute)


@TABLE.values("cnot", types="b16 b32 b64", section=f"{_LOGIC}: cnot")
def cnot(form: Form) -> Callable[..., Any]:
    """1 for zero, else 0."""
    return each_lane(form, lambda value: int(value == 0))


# Two halves of 16 bits ------------------------------------------------------------------------------------------------

_OF_HALVES: Mapping[str, Callable[[int, int], int]] = MappingProxyType(
    {"add": lambda x, y: x + y, "sub": lambda x, y: x - y, "min": min, "max": max}
)


def packed(form: Form) -> Callable[..., Any]:
    """add, sub, min and max of two 16-bit integers in a register; with .relu, not below zero."""
    function = _OF_HALVES[form.row.name]

    def half(x: int, y: int, at: int) -> int:
        result = function(_part(x, at, 16, form.type), _part(y, at, 16, form.type))
        if "sat" in form.words:
            result = _saturated(result, 16) if form.type[0] == "s" else max(0, min(0xFFFF, result))
        return (max(result, 0) if "relu" in form.words else result) & 0xFFFF

    return each_lane(form, lambda x, y: half(x, y, 0) | half(x, y, 1) << 16)
