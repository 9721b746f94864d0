"""The contents of hardware registers at levels with untyped registers (PTX).

A register of PTX has only a width: 32 bits may be an integer, an f32, two f16, or half of an f64. Kinds of values:

raw      an integer of the register's width, signed: a Python int if uniform (bool for a predicate), else an array
Number   one number of the domain that fills the register: f16 and bf16 in 16 bits, f32 in 32, f64 in 64
Packed   two numbers of 16 bits in 32, two of 8 in 16, four of 8 in 32 (packed.py)
Pair     two values of 32 bits in 64
Half     32 bits that are half of a 64-bit Number
Mixed    values of different kinds in different lanes, after branches meet (packed.py)

Moving, packing, selecting and storing keep numbers unchanged. So do the bit operations by which compilers move halves
of registers, negate, and convert bf16 to f32 (`logic`, `shifted`). Other integer operations on numbers need bits, which
only the domains of floats have: elsewhere `raw` refuses them, except for zero. Raw bits can be read as numbers in each
domain.
"""

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import InterpreterError, NotInterpreted
from lowtide.interpreter.numbers.blending import blend
from lowtide.interpreter.numbers.codes import ELEMENT_BYTES, ZERO_TYPE
from lowtide.interpreter.numbers.domains import Domain, FloatDomain
from lowtide.interpreter.numbers.packed import Mixed, Packed, joined

Values = NDArray[Any]

_RAW = (int, np.ndarray, bool, np.bool_, np.integer)
_FLOATS = FloatDomain()
SIGNED: dict[int, Any] = {1: np.dtype(np.bool_), **{bits: np.dtype(f"i{bits // 8}") for bits in (8, 16, 32, 64)}}
_UNSIGNED = {bits: np.dtype(f"u{bits // 8}") for bits in (8, 16, 32, 64)}


class RegisterError(InterpreterError):
    """A register does not hold the kind of value that an instruction reads."""


class NotBits(RegisterError, NotInterpreted):
    """The bits of a number are needed in a domain without bits."""


class Unreadable:
    """A register that may not be accessed now, with the reason `why`."""

    why: str = ""

    def blend(self, condition: Any, other: Any) -> Any:
        raise RegisterError(self.why)


def readable(value: Any) -> Any:
    """The value, if it may be accessed. Raises InterpreterError."""
    if isinstance(value, Unreadable):
        raise RegisterError(value.why)
    return value


@dataclass(eq=False, slots=True)
class Number:
    """A number of float type `dtype`: `payload` of the domain, a scalar if uniform, else an array (32,)."""

    payload: Any
    dtype: str

    def at(self, place: Any) -> "Number":
        """An element of a vector of numbers, whose payload is (32 or 1, n)."""
        column = self.payload[place]
        return Number(column if len(column) > 1 else column[0], self.dtype)

    def blend(self, condition: Any, other: Any) -> Any:
        """This in lanes where the condition (32,) holds, else `other`."""
        if isinstance(other, Number) and other.dtype == self.dtype:
            return Number(np.where(condition, self.payload, other.payload), self.dtype)
        return joined(condition, self, other)


@dataclass(eq=False, slots=True)
class Pair:
    """64 bits made of two 32-bit values."""

    low: Any
    high: Any

    def blend(self, condition: Any, other: Any) -> Any:
        """This in lanes where the condition (32,) holds, else `other`."""
        if isinstance(other, Pair):
            return Pair(blend(condition, self.low, other.low), blend(condition, self.high, other.high))
        return joined(condition, self, other)


@dataclass(eq=False, slots=True)
class Half:
    """The low or the high 32 bits of a 64-bit number."""

    number: Number
    is_high: bool

    def blend(self, condition: Any, other: Any) -> Any:
        """This in lanes where the condition (32,) holds, else `other`."""
        same = isinstance(other, Half) and (other.is_high, other.number.dtype) == (self.is_high, self.number.dtype)
        return (
            Half(self.number.blend(condition, other.number), self.is_high) if same else joined(condition, self, other)
        )


@dataclass(eq=False, slots=True)
class Halves:
    """A vector of 32-bit registers that hold the halves of 64-bit numbers: payload (32 or 1, n)."""

    payload: Any
    dtype: str

    def at(self, place: tuple[Any, int]) -> Half:
        """An element of the vector."""
        lanes, index = place
        return Half(Number(self.payload, self.dtype).at((lanes, index // 2)), index % 2 == 1)


def is_raw(value: Any) -> bool:
    return isinstance(value, _RAW)


def canonical(value: Any, bits: int) -> Any:
    """A raw value wrapped to its width, signed."""
    if isinstance(value, np.ndarray):
        return value if value.dtype == SIGNED[bits] else value.astype(SIGNED[bits])
    if bits == 1:
        return bool(value & 1)
    half = 1 << (bits - 1)
    return (int(value) + half & 2 * half - 1) - half


def unsigned(value: Any, bits: int) -> Any:
    """The bits of a raw value read as an unsigned number."""
    if isinstance(value, np.ndarray):
        return value if bits == 1 else canonical(value, bits).view(_UNSIGNED[bits])
    return int(value) & ((1 << bits) - 1)


# Between kinds --------------------------------------------------------------------------------------------------------


def raw(value: Any, bits: int, domain: Domain) -> Any:
    """The bits of a register, as an integer. Raises NotBits for nonzero numbers of a domain without bits."""
    if is_raw(value):
        return value
    if isinstance(value, Mixed):
        return value.map(lambda each: raw(each, bits, domain)).astype(SIGNED[bits])
    if isinstance(value, Number | Packed):
        width = 8 * ELEMENT_BYTES[value.dtype] if value.dtype != ZERO_TYPE else 16
        rows = np.asarray(value.payload).reshape(-1, 1) if isinstance(value, Number) else value.payload
        if not np.any(rows) and not np.any(np.signbit(rows)):
            return 0
        if value.dtype == ZERO_TYPE or not domain.is_float:
            raise NotBits(
                f"an integer operation on a register that holds {_what(value)}: the number domain {domain.name!r} has "
                "numbers, not their bits; take the domain 'float' [register-not-bits]"
            )
        words = np.ascontiguousarray(domain.to_bits(rows, value.dtype)).view(f"i{width * rows.shape[1] // 8}")[:, 0]
        words = words.astype(SIGNED[bits])
        return words if len(words) > 1 else int(words[0])
    if isinstance(value, Half):
        whole = raw(value.number, 2 * bits, domain)
        return canonical(whole >> bits if value.is_high else whole, bits)
    if isinstance(value, Pair):
        return _join_raw(raw(value.low, 32, domain), raw(value.high, 32, domain), 32)
    readable(value)
    raise RegisterError(
        f"a register that holds {_what(value)} is used as an integer of {bits} bits [register-as-integer]"
    )


def number(value: Any, dtype: str, domain: Domain) -> Any:
    """A register read as a number of a type: its payload, a scalar if uniform, else an array (32,)."""
    if isinstance(value, Number) and value.dtype == dtype:
        return value.payload
    if isinstance(value, Mixed):
        return value.map(lambda each: number(each, dtype, domain))
    if isinstance(value, Packed) and dtype == "f32" and value.dtype == "bf16" and np.all(_is_zero(value.payload[:, 0])):
        payload = value.payload[:, 1]  # a bf16 is the upper half of the same number as an f32
        return payload if len(payload) > 1 else payload[0]
    width = 8 * ELEMENT_BYTES[dtype]
    bits = unsigned(raw(value, width, domain), width)
    if not np.any(bits):
        return np.zeros(np.shape(bits), domain.payload) if np.ndim(bits) else domain.payload(0)
    floats = _FLOATS.from_bits(np.asarray(bits), dtype)
    if domain.is_float:
        return floats if np.ndim(bits) else floats[()]
    if not np.ndim(bits):
        return domain.constant(float(floats), dtype)
    lanes = floats.tolist()
    known = {each: domain.constant(each, dtype) for each in set(lanes)}  # a few numbers, in most warps
    return np.array([known[each] for each in lanes], domain.payload)


def halves(value: Any, dtype: str, domain: Domain) -> Values:
    """A 32-bit register read as two 16-bit numbers: payload (32 or 1, 2)."""
    if isinstance(value, Packed) and value.dtype in (dtype, ZERO_TYPE):
        return value.payload
    low, high = split(value, 32, domain)
    parts = [np.atleast_1d(number(each, dtype, domain)) for each in (low, high)]
    return np.stack(np.broadcast_arrays(*parts), axis=1)


def split(value: Any, bits: int, domain: Domain) -> tuple[Any, Any]:
    """The low and the high half of a register of this width."""
    half = bits // 2
    if isinstance(value, Packed) and bits == 8 * _size_of(value):
        if value.dtype == ZERO_TYPE:
            return 0, 0
        first, second = np.split(value.payload, 2, axis=1)
        return _of_row(first, value.dtype), _of_row(second, value.dtype)
    if isinstance(value, Pair):
        return value.low, value.high
    if isinstance(value, Number) and bits == 64:
        return Half(value, False), Half(value, True)
    if isinstance(value, Mixed):
        parts = [split(each, bits, domain) for each in (value.first, value.second)]
        low, high = (Mixed(value.condition, *each) for each in zip(*parts, strict=True))
        return low, high
    whole = raw(value, bits, domain)
    return canonical(whole, half), canonical(whole >> half, half)


def join(low: Any, high: Any, half: int, domain: Domain) -> Any:
    """A register made of two halves of this width."""
    if is_raw(low) and is_raw(high):
        return _join_raw(low, high, half)
    if low is None and high is None:
        return None
    if low is None or high is None:  # an unwritten value counts as any
        return join(0, high, half, domain) if low is None else join(low, 0, half, domain)
    if half == 32:
        return _whole(low, high) or Pair(low, high)
    dtypes = types_of(low) | types_of(high)
    if len(dtypes) == 1:
        (dtype,) = dtypes
        parts = [numbers_of(each, half, dtype, domain) for each in (low, high)]
        lanes = max(map(len, parts))
        return Packed(np.concatenate([np.broadcast_to(part, (lanes, part.shape[1])) for part in parts], axis=1), dtype)
    return _join_raw(raw(low, half, domain), raw(high, half, domain), half)


def _size_of(value: Packed) -> int:
    """The bytes of a register that holds these numbers."""
    each = ELEMENT_BYTES[value.dtype] if value.dtype != ZERO_TYPE else 2
    return each * int(value.payload.shape[1])


def width_of(value: Packed, bits: int) -> int:
    """The width of a register that holds these numbers, at least `bits`."""
    return max(bits, 8 * _size_of(value))


def _of_row(payload: Values, dtype: str) -> Any:
    """One number, or several, for each lane."""
    if payload.shape[1] > 1:
        return Packed(payload, dtype)
    return Number(payload[:, 0] if len(payload) > 1 else payload[0, 0], dtype)


def numbers_of(value: Any, bits: int, dtype: str, domain: Domain) -> Values:
    """A register of this width read as numbers of a type: (32 or 1, as many as fit)."""
    count = bits // (8 * ELEMENT_BYTES[dtype])
    if count == 1:
        return np.atleast_1d(number(value, dtype, domain))[:, None]
    if isinstance(value, Packed) and value.dtype == dtype and value.payload.shape[1] == count:
        return value.payload
    parts = [numbers_of(each, bits // 2, dtype, domain) for each in split(value, bits, domain)]
    lanes = max(map(len, parts))
    return np.concatenate([np.broadcast_to(part, (lanes, part.shape[1])) for part in parts], axis=1)


def _whole(low: Any, high: Any) -> Number | None:
    """The number with these halves; None if they are not halves of one number."""
    if not (isinstance(low, Half) and isinstance(high, Half)) or low.is_high or not high.is_high:
        return None
    one, other = low.number, high.number
    return one if one.dtype == other.dtype and np.array_equal(one.payload, other.payload) else None


def _join_raw(low: Any, high: Any, half: int) -> Any:
    wide = SIGNED[2 * half]
    low, high = unsigned(low, half), high
    low, high = (each.astype(wide) if isinstance(each, np.ndarray) else each for each in (low, high))
    return canonical(low | high << half, 2 * half)


def types_of(value: Any) -> set[str]:
    """The types of the numbers that a register holds."""
    if isinstance(value, Number | Packed):
        return {value.dtype} - {ZERO_TYPE}
    if isinstance(value, Pair):
        return types_of(value.low) | types_of(value.high)
    if isinstance(value, Half):
        return types_of(value.number)
    return types_of(value.first) | types_of(value.second) if isinstance(value, Mixed) else set()


def truncated(value: Any, bits: int, to: int, domain: Domain) -> Any:
    """The low `to` bits of a register of `bits`; None if it was never written."""
    while value is not None and not is_raw(value) and bits > to:
        value, bits = split(value, bits, domain)[0], bits // 2
    return canonical(value, to) if is_raw(value) else value


def extended(value: Any, bits: int, to: int, domain: Domain) -> Any:
    """A register of `bits` with zeros above them; None if it was never written."""
    if value is None:
        return None
    if is_raw(value):
        wide = unsigned(value, bits)
        return canonical(wide.astype(np.int64) if isinstance(wide, np.ndarray) and bits < 64 else wide, to)
    while bits < to:
        value, bits = join(value, 0, bits, domain), 2 * bits
    return value


# Bit operations that move numbers ----------------------------------------------------------------------------------


def logic(name: str, x: Any, y: Any, bits: int, domain: Domain) -> Any:
    """and, or, xor with at least one operand that holds numbers: by halves, if these determine the result."""
    found = _kept(name, x, y, bits, domain)
    if found is None:
        found = _kept(name, y, x, bits, domain)
    if found is not None:
        return found
    if bits > 16 and not any(isinstance(each, Number) for each in (x, y)):
        parts = zip(split(x, bits, domain), split(y, bits, domain), strict=True)
        low, high = (logic(name, first, second, bits // 2, domain) for first, second in parts)
        return join(low, high, bits // 2, domain)
    if isinstance(x, Mixed):
        return joined(x.condition, *(logic(name, each, y, bits, domain) for each in (x.first, x.second)))
    if isinstance(y, Mixed):
        return logic(name, y, x, bits, domain)
    narrow = _narrow(x, bits), _narrow(y, bits)
    if name == "or" and narrow[0] is not None and narrow[1] is not None:
        one, other = (each.payload for each in narrow if each is not None)
        nothing = _is_zero(one), _is_zero(other)
        if np.all(nothing[0] | nothing[1]):
            return Packed(np.where(nothing[0], other, one), narrow[0].dtype)
    if name == "or" and isinstance(x, Number) and isinstance(y, Number) and x.dtype == y.dtype:
        nothing = _is_zero(x.payload), _is_zero(y.payload)
        if np.all(nothing[0] | nothing[1]):
            return Number(np.where(nothing[0], y.payload, x.payload), x.dtype)
    return LOGIC[name](raw(x, bits, domain), raw(y, bits, domain))


LOGIC: dict[str, Callable[[Any, Any], Any]] = {"and": operator.and_, "or": operator.or_, "xor": operator.xor}


def _narrow(value: Any, bits: int) -> Packed | None:
    """A register of this width that holds 8-bit numbers, with zeros above them; None for others."""
    if not isinstance(value, Number | Packed) or ELEMENT_BYTES.get(value.dtype) != 1:
        return None
    rows = value.payload if isinstance(value, Packed) else np.atleast_1d(value.payload)[:, None]
    above = np.zeros((len(rows), max(0, bits // 8 - rows.shape[1])), rows.dtype)
    return Packed(np.concatenate([rows, above], axis=1), value.dtype)


def _kept(name: str, x: Any, mask: Any, bits: int, domain: Domain) -> Any:
    """The result of a uniform mask on a register without arithmetic on bits; None if it needs that."""
    if isinstance(mask, np.ndarray) or not is_raw(mask):
        return None
    mask = int(mask) & ((1 << bits) - 1)
    ones = (1 << bits) - 1
    if mask == 0:
        return 0 if name == "and" else x
    if name == "and" and mask == ones:
        return x
    if isinstance(x, Number):
        if name == "xor" and mask == 1 << (bits - 1):
            return Number(domain.negate(x.payload), x.dtype)
        if name == "and" and mask == ones >> 1 and domain.name != "field":
            return Number(np.abs(x.payload), x.dtype)
    return None


def shifted(value: Any, amount: int, bits: int, domain: Domain) -> Any:
    """A register shifted left by `amount` bits (negative: right, logically), by halves if possible."""
    half = bits // 2
    if abs(amount) == half and half >= 16:
        low, high = split(value, bits, domain)
        return join(0, low, half, domain) if amount > 0 else join(high, 0, half, domain)
    if amount == 0:
        return value
    if isinstance(value, Mixed):
        return joined(value.condition, *(shifted(each, amount, bits, domain) for each in (value.first, value.second)))
    if abs(amount) == 8 and (narrow := _narrow(value, bits)) is not None:
        # 8-bit numbers move by one, with a zero of all bits after them.
        row = narrow.payload
        zero = np.zeros((len(row), 1), row.dtype)
        kept = np.concatenate([zero, row[:, :-1]] if amount > 0 else [row[:, 1:], zero], axis=1)
        return Packed(kept, narrow.dtype)
    whole = unsigned(raw(value, bits, domain), bits)
    return canonical(whole << amount if amount > 0 else whole >> -amount, bits)


def chosen(condition: Any, x: Any, y: Any, bits: int) -> Any:
    """`x` in lanes where a predicate holds, else `y`."""
    x, y = readable(x), readable(y)
    if not isinstance(condition, np.ndarray):
        return x if condition else y
    if not condition.any() or condition.all():
        return x if condition.all() else y
    if is_raw(x) and is_raw(y):
        return np.where(condition, x, y).astype(SIGNED[bits])
    if x is None or y is None:
        return y if x is None else x
    return joined(condition, x, y) if is_raw(x) else x.blend(condition, y)


def of_lane(value: Any, lane: int) -> Any:
    """The value of one lane, for all lanes; a kind that cannot be uniform has it in each lane."""
    if isinstance(value, np.ndarray):
        return value[lane].item()
    return of_lanes(value, np.full(32, lane))


def of_lanes(value: Any, lanes: Any) -> Any:
    """The value of each lane after it takes the value of lane `lanes` (32,)."""
    if isinstance(value, np.ndarray):
        return value[lanes]
    if isinstance(value, Number):
        return Number(value.payload[lanes], value.dtype) if np.ndim(value.payload) else value
    if isinstance(value, Packed):
        return Packed(value.payload[lanes], value.dtype) if len(value.payload) > 1 else value
    if isinstance(value, Pair):
        return Pair(of_lanes(value.low, lanes), of_lanes(value.high, lanes))
    if isinstance(value, Mixed):
        first, second = (of_lanes(each, lanes) for each in (value.first, value.second))
        return Mixed(value.condition[lanes], first, second)
    return readable(value)


def _is_zero(values: Any) -> Any:
    """The lanes whose bits are all zero."""
    values = np.asarray(values)
    return (values == 0) & ~np.signbit(values) if values.dtype.kind == "f" else values == 0


def _what(value: Any) -> str:
    if isinstance(value, Number):
        return f"an {value.dtype}"
    if isinstance(value, Packed):
        return f"two {value.dtype}"
    if isinstance(value, Half):
        return f"half of an {value.number.dtype}"
    return "nothing yet" if value is None else f"a {type(value).__name__}"
