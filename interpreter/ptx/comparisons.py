"""Comparison and selection (PTX ISA, "Comparison and Selection Instructions", "Floating Point Instructions: testp")."""

import operator
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from lowtide.interpreter.numbers import registers
from lowtide.interpreter.numbers.packed import Packed
from lowtide.interpreter.numbers.registers import Number, halves, number, raw, unsigned
from lowtide.interpreter.ptx.rounding import flushed
from lowtide.interpreter.ptx.syntax import Group
from lowtide.interpreter.ptx.table import Form, Table, bits_of

TABLE = Table()

_SECTION = "Comparison and Selection Instructions"
_RAW = (int, np.ndarray, bool)
_INTEGERS = "s16 u16 s32 u32 s64 u64 b16 b32 b64"
_FLOATS = "f16 bf16 f32 f64"
PAIRS: Mapping[str, str] = MappingProxyType({"f16x2": "f16", "bf16x2": "bf16"})

COMPARISONS: Mapping[str, Callable[[Any, Any], Any]] = MappingProxyType(
    {name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}
)
# "lo" and others are synonyms for unsigned types.
_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
# As in domains.compare: ordered predicates are false if an operand is NaN, those with u true.
_OF_FLOATS = {name: f"o{name}" for name in COMPARISONS} | {f"{name}u": f"u{name}" for name in COMPARISONS}
_OF_FLOATS |= {"num": "ord", "nan": "uno"}


_WORDS = " ".join((*COMPARISONS, *_UNSIGNED, *_OF_FLOATS, "and", "or", "xor", "ftz"))


@TABLE.values("setp", types=f"{_INTEGERS} {_FLOATS} {' '.join(PAIRS)}", words=_WORDS, section=f"{_SECTION}: setp")
def setp(form: Form) -> Callable[..., Any]:
    """The comparison, combined by and, or, xor with another predicate if given; and p|q: its opposite combined so. Of
    two halves, p is for the low and q for the high one."""
    compare, combine = _compared(form), _combined(form)
    is_pair, are_halves = isinstance(form.instruction.operands[0], Group), form.type in PAIRS

    def both(x: Any, y: Any, other: Any = None) -> tuple[Any, Any]:
        found = compare(x, y)
        parts = (found[0], found[1]) if are_halves else (found, ~found if isinstance(found, np.ndarray) else not found)
        low, high = parts if combine is None else (combine(part, other) for part in parts)
        return low, high

    def one(x: Any, y: Any, other: Any = None) -> Any:
        found = compare(x, y)[0] if are_halves else compare(x, y)
        return found if combine is None else combine(found, other)

    chosen = both if is_pair else one
    if combine is None:
        return lambda x, y: chosen(x, y)
    return lambda x, y, other: chosen(x, y, other)


@TABLE.values("set", types=f"{_INTEGERS} {_FLOATS} {' '.join(PAIRS)}", words=_WORDS, section=f"{_SECTION}: set")
def set_(form: Form) -> Callable[..., Any]:
    """As setp, with a register as result: all bits, or 1.0 if it is a float; for two halves, in each."""
    compare, combine = _compared(form), _combined(form)
    target, domain = form.types[0], form.domain
    to = PAIRS.get(target, target)

    def chosen(x: Any, y: Any, other: Any = None) -> Any:
        found = compare(x, y)
        parts = list(found) if form.type in PAIRS else [found]
        if combine is not None:
            parts = [combine(part, other) for part in parts]
        if "f" not in target:
            bits = bits_of(target) // len(parts)
            made = [np.where(part, -1, 0).astype(registers.SIGNED[bits])[()] for part in parts]
            whole = made[0] if len(made) == 1 else registers.join(made[0], made[1], bits, domain)
            return whole if isinstance(whole, np.ndarray) else int(whole)
        one, zero = domain.constant(1.0, to), domain.constant(0.0, to)
        values = [np.where(part, one, zero) for part in parts]
        if target in PAIRS:
            return Packed(np.stack([np.atleast_1d(each) for each in values], axis=1), to)
        return Number(values[0] if values[0].ndim else values[0][()], to)

    if combine is None:
        return lambda x, y: chosen(x, y)
    return lambda x, y, other: chosen(x, y, other)


@TABLE.values("slct", types=f"{_INTEGERS} f32 f64", words="ftz", section=f"{_SECTION}: slct")
def slct(form: Form) -> Callable[..., Any]:
    """The first value if the third is not negative, else the second."""
    domain, kind, bits = form.domain, form.type, bits_of(form.types[0])

    def compute(x: Any, y: Any, deciding: Any) -> Any:
        if "f" in kind:
            holds = domain.compare("oge", number(deciding, kind, domain), domain.constant(0.0, kind))
        else:
            holds = raw(deciding, 32, domain) >= 0
        return registers.chosen(holds if np.ndim(holds) else bool(holds), x, y, bits)

    return compute


_LEAST_NORMAL = {"f32": 2.0**-126, "f64": 2.0**-1022}
_PROPERTIES: Mapping[str, Callable[[Any, float], Any]] = MappingProxyType(
    {
        "finite": lambda x, least: np.isfinite(x),
        "infinite": lambda x, least: np.isinf(x),
        "number": lambda x, least: ~np.isnan(x),
        "notanumber": lambda x, least: np.isnan(x),
        "normal": lambda x, least: np.isfinite(x) & (np.abs(x) >= least),
        "subnormal": lambda x, least: (np.abs(x) < least) & (x != 0),
    }
)


@TABLE.values("testp", types="f32 f64", words=" ".join(_PROPERTIES), section="Floating Point Instructions: testp")
def testp(form: Form) -> Callable[..., Any]:
    """A property of a float; numbers of domains other than those of floats are normal, or zero."""
    (name,) = form.words
    test, least = _PROPERTIES[name], _LEAST_NORMAL[form.type]

    def compute(x: Any) -> Any:
        found = test(np.asarray(number(x, form.type, form.domain)), least)
        return found if np.ndim(found) else bool(found)

    return compute


def _combined(form: Form) -> Callable[[Any, Any], Any] | None:
    """The operator between the comparison and another predicate."""
    return registers.LOGIC.get(form.instruction.name.split(".")[2])


def _compared(form: Form) -> Callable[[Any, Any], Any]:
    """The comparison of two registers: a predicate, or for two halves an array (2, 32 or 1)."""
    word = form.instruction.name.split(".")[1]
    return _of_floats(form, word) if "f" in form.type else _of_integers(form, word)


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
    flush = flushed(domain, PAIRS.get(dtype, dtype)) if "ftz" in form.words else lambda value: value

    def of_halves(x: Any, y: Any) -> Any:
        both = domain.compare(predicate, *(flush(halves(value, PAIRS[dtype], domain)) for value in (x, y)))
        rows = np.moveaxis(np.asarray(both), -1, 0)
        return rows if rows.shape[1] > 1 else [bool(row[0]) for row in rows]

    def compute(x: Any, y: Any) -> Any:
        result = domain.compare(predicate, *(flush(number(value, dtype, domain)) for value in (x, y)))
        return result if np.ndim(result) else bool(result)

    return of_halves if dtype in PAIRS else compute
