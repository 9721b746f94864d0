"""Floats in the number domain: one in a register, or two in one of 32 bits (f16x2, bf16x2).

PTX ISA, "Floating Point Instructions", "Half Precision Floating Point Instructions". Approximate functions compute as
exact ones do, rounded once.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.numbers.packed import Packed
from lowtide.interpreter.numbers.registers import Number, halves, number
from lowtide.interpreter.ptx import integers
from lowtide.interpreter.ptx.table import Form, Table

TABLE = Table()

_PAIRS = {"f16x2": "f16", "bf16x2": "bf16"}
_TYPES = "f16 bf16 f32 f64 f16x2 bf16x2"


def of_floats(form: Form, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of payloads and a type's name, on registers of the instruction's type."""
    domain, type = form.domain, form.type
    if type in _PAIRS:
        dtype = _PAIRS[type]
        return lambda *values: Packed(function(*(halves(v, dtype, domain) for v in values), dtype), dtype)

    def compute(*values: Any) -> Number:
        payloads = [v.payload if v.__class__ is Number and v.dtype == type else number(v, type, domain) for v in values]
        return Number(function(*payloads, type), type)

    return compute


_ROUNDED: Mapping[str, str] = MappingProxyType(
    {"add": "add", "sub": "subtract", "mul": "multiply", "fma": "fma", "div": "divide"}
)


def _rounded(form: Form) -> Callable[..., Any]:
    """Rounds to nearest, ties to even: no other rounding is asked for by the rows' words."""
    return of_floats(form, getattr(form.domain, _ROUNDED[form.row.name]))


def _extremum(form: Form) -> Callable[..., Any]:
    """The other operand where one is NaN; with .NaN, NaN."""
    name = {"min": "minimum", "max": "maximum"}[form.row.name]
    function = getattr(form.domain, name if "NaN" in form.words else f"{name[:3]}_number")
    return of_floats(form, lambda x, y, dtype: function(x, y))


def _negated(form: Form) -> Callable[..., Any]:
    return of_floats(form, lambda x, dtype: form.domain.negate(x))


_FUNCTIONS: Mapping[str, str] = MappingProxyType(
    {
        "abs": "absf",
        "copysign": "copysign",
        "ex2": "exp2",
        "lg2": "log2",
        "rsqrt": "rsqrt",
        "sqrt": "sqrt",
        "sin": "sin",
        "cos": "cos",
        "tanh": "tanh",
    }
)


def _function(form: Form) -> Callable[..., Any]:
    """By its name in the domain. copysign.f32 d, a, b gives b the sign of a."""
    name, apply = _FUNCTIONS[form.row.name], form.domain.apply
    if name == "copysign":
        return of_floats(form, lambda sign, value, dtype: apply(name, dtype, value, sign))
    return of_floats(form, lambda x, dtype: apply(name, dtype, x))


def _reciprocal(form: Form) -> Callable[..., Any]:
    domain: Domain = form.domain
    return of_floats(form, lambda x, dtype: domain.divide(domain.constant(1.0, dtype), x, dtype))


_SECTION = "Floating Point Instructions"


# Opcodes that integers have too: one row each, which the type decides.
def _by_type(
    of_integer: Callable[[Form], Any] | None, of_float: Callable[[Form], Any]
) -> Callable[[Form], Callable[..., Any]]:
    return lambda form: of_float(form) if "f" in form.type or of_integer is None else of_integer(form)


_MAKERS: Mapping[str, tuple[Callable[[Form], Any], str]] = MappingProxyType(
    {
        "add": (_rounded, "rn"),
        "sub": (_rounded, "rn"),
        "mul": (_rounded, "rn"),
        "fma": (_rounded, "rn"),
        "div": (_rounded, "rn approx full"),
        "min": (_extremum, "NaN"),
        "max": (_extremum, "NaN"),
        "neg": (_negated, ""),
        "rcp": (_reciprocal, "rn approx"),
        **{name: (_function, "rn approx") for name in _FUNCTIONS},
    }
)

for _name, (_maker, _words) in _MAKERS.items():
    _shared = integers.TABLE.rows.get(_name)
    TABLE.values(
        _name,
        types=" ".join((_TYPES, *(_shared.types if _shared else ()))),
        words=_words,
        section=f"{_SECTION}: {_name}",
    )(_by_type(_shared.handler if _shared else None, _maker))
