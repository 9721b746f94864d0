"""Integers: arithmetic, bits, comparison (PTX ISA, "Integer Arithmetic Instructions", "Logic and Shift Instructions").

Values are signed; `unsigned` views them as unsigned ones. For numbers in place of integers see numbers/registers.py.
"""

import operator
from collections.abc import Callable, Mapping
from functools import reduce, wraps
from types import MappingProxyType
from typing import Any

import numpy as np

from lowtide.errors import InterpreterError
from lowtide.interpreter.numbers import registers
from lowtide.interpreter.numbers.registers import canonical, raw, unsigned
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


@TABLE.values(*_SAME_SIGNED_OR_NOT, types=_INTEGERS, section=f"{_SECTION}: add, sub, mul, mad, neg")
def wrapping(form: Form) -> Callable[..., Any]:
    return of_integers(form, _SAME_SIGNED_OR_NOT[form.row.name])


_WIDE: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {"mul.wide": lambda x, y: x * y, "mad.wide": lambda x, y, z: x * y + z}
)


@TABLE.values("lop3", types="b32", section="Logic and Shift Instructions: lop3")
def logic_of_three(form: Form) -> Callable[..., Any]:
    """Bit i of the table, where i consists of the bits of a, b and c, from the highest."""

    def compute(a: Any, b: Any, c: Any, table: Any) -> Any:
        chosen = (i for i in range(8) if int(table) >> i & 1)
        terms = ((a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c) for i in chosen)
        return reduce(lambda x, y: x | y, terms, a & 0)

    return of_integers(form, compute)


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
        if np.asarray(x).dtype.kind == "u" or np.asarray(y).dtype.kind == "u":
            return x // y
        return np.sign(x) * np.sign(y) * (abs(x) // abs(y))
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


@TABLE.values("min", "max", types=_INTEGERS, section=f"{_SECTION}: min, max")
def extremum(form: Form) -> Callable[..., Any]:
    return seen(form, EXTREMA[form.row.name])


@TABLE.values("abs", types="s16 s32 s64", section=f"{_SECTION}: abs")
def absolute(form: Form) -> Callable[..., Any]:
    return of_integers(form, abs)


@TABLE.values("bfe", types="s32 u32 s64 u64", section=f"{_SECTION}: bfe")
def field(form: Form) -> Callable[..., Any]:
    """`length` bits from `position`, both 8 bits; above them zeros or copies of the field's highest bit."""
    bits = form.bits

    def compute(value: Any, position: Any, length: Any) -> Any:
        position, length = int(position) & 0xFF, int(length) & 0xFF
        length = min(length, bits - position)
        if length <= 0:
            return 0 if form.type[0] == "u" else value >> bits - 1
        if form.type[0] == "u":
            return unsigned(value, bits) >> position & (1 << length) - 1
        above = bits - position - length
        return canonical(value << above, bits) >> above + position

    return of_integers(form, compute)


@TABLE.values("bfi", types="b32 b64", section=f"{_SECTION}: bfi")
def inserted(form: Form) -> Callable[..., Any]:
    """The low `length` bits of a value, inserted into another at `position`."""
    bits = form.bits

    def compute(value: Any, into: Any, position: Any, length: Any) -> Any:
        position, length = int(position) & 0xFF, int(length) & 0xFF
        mask = ((1 << length) - 1 << position) & ((1 << bits) - 1) if position < bits else 0
        wide = [each.astype(object) if isinstance(each, np.ndarray) else each for each in (value, into)]
        result = wide[1] & ~mask | wide[0] << min(position, bits) & mask
        if not isinstance(result, np.ndarray):
            return result
        return (result & (1 << bits) - 1).astype(f"u{bits // 8}")

    return of_integers(form, compute)


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


# Comparison -----------------------------------------------------------------------------------------------------------

COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}
)
# "lo" and others are synonyms for unsigned types.
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
# As in domains.compare: ordered predicates are false if an operand is NaN, those with u true.
_OF_FLOATS = {name: f"o{name}" for name in COMPARISONS} | {f"{name}u": f"u{name}" for name in COMPARISONS}
_OF_FLOATS |= {"num": "ord", "nan": "uno"}


@TABLE.values(
    "setp",
    types=f"{_INTEGERS} {_BITS} f16 bf16 f32 f64",
    words=" ".join((*COMPARISONS, *_UNSIGNED, *_OF_FLOATS, "and", "or", "xor")),
    section="Comparison and Selection Instructions: setp",
)
def setp(form: Form) -> Callable[..., Any]:
    """The comparison, combined by and, or, xor with another predicate if given."""
    words = form.instruction.name.split(".")[1:]
    with_other = registers.LOGIC.get(words[1])
    compare = _of_floats(form, words[0]) if "f" in form.type else _of_integers(form, words[0])
    if with_other is None:
        return compare
    return lambda x, y, other: with_other(compare(x, y), other)


def _of_integers(form: Form, word: str) -> Callable[..., Any]:
    word = _UNSIGNED.get(word, word)
    if word not in COMPARISONS:
        raise form.instruction.error(
            f"integers are not compared by .{word}; take one of {', '.join(COMPARISONS)} [integers-compared]"
        )
    function = COMPARISONS[word]
    if form.type[0] != "u" or word in ("eq", "ne"):

        def compute(x: Any, y: Any) -> Any:
            if x.__class__ not in _RAW or y.__class__ not in _RAW:
                x, y = (raw(value, form.bits, form.domain) for value in (x, y))
            return function(x, y)

        return compute
    bits, domain = form.bits, form.domain
    return lambda x, y: function(*(unsigned(raw(value, bits, domain), bits) for value in (x, y)))


def _of_floats(form: Form, word: str) -> Callable[..., Any]:
    if word not in _OF_FLOATS:
        raise form.instruction.error(
            f"floats are not compared by .{word}; take one of {', '.join(_OF_FLOATS)} [floats-compared]"
        )
    domain, dtype, predicate = form.domain, form.type, _OF_FLOATS[word]

    def compute(x: Any, y: Any) -> Any:
        result = domain.compare(predicate, *(registers.number(value, dtype, domain) for value in (x, y)))
        return result if np.ndim(result) else bool(result)

    return compute
