"""Integers: arithmetic, bits, comparison (PTX ISA, "Integer Arithmetic Instructions", "Logic and Shift Instructions").

Values are signed; `unsigned` views them as unsigned ones. For numbers in place of integers see numbers/registers.py.
"""

from collections.abc import Callable, Mapping
from functools import reduce, wraps
from types import MappingProxyType
from typing import Any

import numpy as np

from lowtide.errors import InterpreterError
from lowtide.interpreter.numbers import registers
from lowtide.interpreter.numbers.registers import canonical, raw, unsigned
from lowtide.interpreter.ptx.bit_fields import packed
from lowtide.interpreter.ptx.lanewise import each_lane
from lowtide.interpreter.ptx.table import Form, Table

TABLE = Table()

_INTEGERS = "s16 u16 s32 u32 s64 u64"
_BITS = "b16 b32 b64"
_RAW = (int, np.ndarray, bool)
_SECTION = "Integer Arithmetic Instructions"


def of_integers(form: Form, function: Callable[..., Any], bits: int = 0, out: int = 0) -> Callable[..., Any]:
    """The function on raw values of `bits`, its result wrapped to `out` bits; by default, those of the type."""
    domain, width = form.domain, bits or form.bits
    to = out or width
    dtype = registers.SIGNED[to]

    @wraps(function)  # keeps its signature: the number of sources
    def compute(*values: Any) -> Any:
        result = function(*[v if v.__class__ in _RAW else raw(v, width, domain) for v in values])
        if result.__class__ is np.ndarray and result.dtype == dtype:
            return result
        return canonical(result, to)

    return compute


def seen(form: Form, function: Callable[..., Any], out: int = 0) -> Callable[..., Any]:
    """As `of_integers`, on unsigned values if the type is unsigned."""
    bits = form.bits
    if form.type[0] != "u":
        return of_integers(form, function, out=out)

    @wraps(function)
    def compute(*values: Any) -> Any:
        return function(*(unsigned(value, bits) for value in values))

    return of_integers(form, compute, out=out)


# Not the functions of `operator`: reading their signatures is slow.
_SAME_SIGNED_OR_NOT: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "add": lambda x, y: x + y,
        "sub": lambda x, y: x - y,
        "mul.lo": lambda x, y: x * y,
        "mad.lo": lambda x, y, z: x * y + z,
        "neg": lambda x: -x,
    }
)


_PAIRS = "s16x2 u16x2"


@TABLE.values("add", "sub", types=f"{_INTEGERS} {_PAIRS}", words="sat", section=f"{_SECTION}: add, sub")
def sum_or_difference(form: Form) -> Callable[..., Any]:
    """Wraps; with .sat it is clamped to the limits of the type."""
    if form.type in _PAIRS.split():
        return packed(form)
    if "sat" in form.words:
        limits, function = np.iinfo(f"i{form.bits // 8}"), _SAME_SIGNED_OR_NOT[form.row.name]
        sources = [(form.bits, True)] * 2
        return each_lane(form, lambda x, y: max(limits.min, min(limits.max, function(x, y))), sources=sources)
    return of_integers(form, _SAME_SIGNED_OR_NOT[form.row.name])


@TABLE.values("mul.lo", "mad.lo", "neg", types=_INTEGERS, section=f"{_SECTION}: mul, mad, neg")
def wrapping(form: Form) -> Callable[..., Any]:
    return of_integers(form, _SAME_SIGNED_OR_NOT[form.row.name])


_WIDE: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {"mul.wide": lambda x, y: x * y, "mad.wide": lambda x, y, z: x * y + z}
)


@TABLE.values("lop3", types="b32", words="and or", section="Logic and Shift Instructions: lop3")
def logic_of_three(form: Form) -> Callable[..., Any]:
    """Bit i of the table, where i consists of the bits of a, b and c, from the highest. With .and or .or, also a
    predicate: whether the result is not zero, combined with another."""

    def compute(a: Any, b: Any, c: Any, table: Any) -> Any:
        chosen = (i for i in range(8) if int(table) >> i & 1)
        terms = ((a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c) for i in chosen)
        return reduce(lambda x, y: x | y, terms, a & 0)

    plain = of_integers(form, compute)
    combine = next((registers.LOGIC[word] for word in ("and", "or") if word in form.words), None)
    if combine is None:
        return plain

    def with_predicate(a: Any, b: Any, c: Any, table: Any, other: Any) -> Any:
        result = plain(a, b, c, table)
        return result, combine(result != 0, other)

    return with_predicate


@TABLE.values("mul.wide", "mad.wide", types="s16 u16 s32 u32", section=f"{_SECTION}: mul, mad")
def widening(form: Form) -> Callable[..., Any]:
    function, bits, is_unsigned = _WIDE[form.row.name], form.bits, form.type[0] == "u"

    def compute(x: Any, y: Any, *addend: Any) -> Any:
        factors = [raw(value, bits, form.domain) for value in (x, y)]
        factors = [unsigned(value, bits) if is_unsigned else value for value in factors]
        factors = [value.astype(np.int64) if isinstance(value, np.ndarray) else value for value in factors]
        return canonical(function(*factors, *(raw(value, 2 * bits, form.domain) for value in addend)), 2 * bits)

    return compute


@TABLE.values("mul.hi", types=_INTEGERS, section=f"{_SECTION}: mul")
def high_product(form: Form) -> Callable[..., Any]:
    """The upper half of the product, computed on Python's integers: a product of 64 bits times 64 has 128."""
    bits, dtype = form.bits, np.int64 if form.type[0] == "s" else np.uint64

    def compute(x: Any, y: Any) -> Any:
        product = np.asarray(x, object) * np.asarray(y, object) >> bits
        return product.astype(dtype) if isinstance(product, np.ndarray) and product.ndim else int(product)

    return seen(form, compute)


def _quotient(x: Any, y: Any) -> Any:
    if np.any(np.asarray(y) == 0):
        raise InterpreterError("a division by zero has no value; guard the divisor [quotient-by-zero]")
    return truncated_quotient(x, y)


def truncated_quotient(x: Any, y: Any) -> Any:
    """x / y towards zero, for y other than zero."""
    if isinstance(x, np.ndarray) or isinstance(y, np.ndarray):
        floor = x // y
        rest = x - floor * y
        return floor + ((rest != 0) & ((x < 0) != (y < 0)))  # not by abs: the least integer has none
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


@TABLE.values("div", types=_INTEGERS, section=f"{_SECTION}: div")
def quotient(form: Form) -> Callable[..., Any]:
    return seen(form, _quotient)


@TABLE.values("rem", types=_INTEGERS, section=f"{_SECTION}: rem")
def remainder(form: Form) -> Callable[..., Any]:
    return seen(form, lambda x, y: x - y * _quotient(x, y))


def _either(of_arrays: Any, of_numbers: Any) -> Callable[..., Any]:
    return lambda x, y: of_arrays(x, y) if isinstance(x, np.ndarray) or isinstance(y, np.ndarray) else of_numbers(x, y)


EXTREMA = {"min": _either(np.minimum, min), "max": _either(np.maximum, max)}


@TABLE.values("min", "max", types=f"{_INTEGERS} {_PAIRS}", words="relu", section=f"{_SECTION}: min, max")
def extremum(form: Form) -> Callable[..., Any]:
    """With .relu, not below zero."""
    if form.type in _PAIRS.split():
        return packed(form)
    function = EXTREMA[form.row.name]
    if "relu" in form.words:
        return seen(form, lambda x, y: EXTREMA["max"](function(x, y), 0))
    return seen(form, function)


@TABLE.values("abs", types="s16 s32 s64", section=f"{_SECTION}: abs")
def absolute(form: Form) -> Callable[..., Any]:
    return of_integers(form, abs)


@TABLE.values("popc", "clz", types="b32 b64", section=f"{_SECTION}: popc, clz")
def counted(form: Form) -> Callable[..., Any]:
    """The number of set bits or of leading zeros, in 32 bits."""
    bits, is_popc = form.bits, form.row.name == "popc"

    def count(value: int) -> int:
        return value.bit_count() if is_popc else bits - value.bit_length()

    def compute(value: Any) -> Any:
        seen = unsigned(value, bits)
        if not isinstance(seen, np.ndarray):
            return count(seen)
        return np.array([count(each) for each in seen.tolist()], np.int32)

    return of_integers(form, compute, out=32)


# Logic and shifts -----------------------------------------------------------------------------------------------------

_LOGIC = "Logic and Shift Instructions"


@TABLE.values("and", "or", "xor", types=f"{_BITS} pred", section=f"{_LOGIC}: and, or, xor")
def logic(form: Form) -> Callable[..., Any]:
    """For registers that hold numbers, halves are kept, joined or negated."""
    name, bits, domain = form.row.name, form.bits, form.domain
    function, dtype = registers.LOGIC[name], registers.SIGNED[bits]

    def compute(x: Any, y: Any) -> Any:
        if x.__class__ in _RAW and y.__class__ in _RAW:
            result = function(x, y)
            return result if result.__class__ is np.ndarray and result.dtype == dtype else canonical(result, bits)
        return registers.logic(name, x, y, bits, domain)

    return compute


@TABLE.values("not", types=f"{_BITS} pred", section=f"{_LOGIC}: not")
def complement(form: Form) -> Callable[..., Any]:
    if form.type == "pred":
        return lambda x: ~x if isinstance(x, np.ndarray) else not x
    return of_integers(form, lambda x: ~x)


@TABLE.values("shl", types=_BITS, section=f"{_LOGIC}: shl")
def shift_left(form: Form) -> Callable[..., Any]:
    """Amounts above the width count as the width."""
    bits, domain = form.bits, form.domain

    def compute(value: Any, amount: Any) -> Any:
        if not isinstance(amount, np.ndarray):
            count = min(unsigned(amount, 32), bits)
            if not registers.is_raw(value):
                return registers.shifted(value, count, bits, domain)
            return canonical(value << count if count < bits else value * 0, bits)
        return canonical(_by_lane(unsigned(raw(value, bits, domain), bits), amount, bits, np.left_shift), bits)

    return compute


@TABLE.values("shr", types=f"{_BITS} {_INTEGERS}", section=f"{_LOGIC}: shr")
def shift_right(form: Form) -> Callable[..., Any]:
    """Amounts above the width count as the width; signed types are filled with the sign."""
    bits, domain, is_signed = form.bits, form.domain, form.type[0] == "s"

    def compute(value: Any, amount: Any) -> Any:
        if not isinstance(amount, np.ndarray):
            count = min(unsigned(amount, 32), bits)
            if not registers.is_raw(value) and not is_signed:
                return registers.shifted(value, -count, bits, domain)
            value = raw(value, bits, domain)
            if is_signed:
                return canonical(value >> min(count, bits - 1), bits)
            return canonical(unsigned(value, bits) >> count if count < bits else value * 0, bits)
        value = raw(value, bits, domain)
        if is_signed:
            return canonical(np.right_shift(value, np.minimum(unsigned(amount, 32), bits - 1).astype(np.int64)), bits)
        return canonical(_by_lane(unsigned(value, bits), amount, bits, np.right_shift), bits)

    return compute


def _by_lane(value: Any, amount: Any, bits: int, shift: Callable[..., Any]) -> Any:
    """An unsigned value shifted by each lane's amount."""
    count = unsigned(amount, 32).astype(np.uint64)
    wide = np.broadcast_to(np.asarray(value, np.uint64), count.shape)
    return (
        np.where(count < bits, shift(wide, np.minimum(count, bits - 1)), 0)
        .astype(f"u{bits // 8}")
        .view(registers.SIGNED[bits])
    )
