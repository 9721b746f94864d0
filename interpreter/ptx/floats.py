"""Floats in the number domain: one in a register, or two in a 32-bit one (f16x2, bf16x2).

PTX ISA, "Floating Point Instructions", "Half Precision Floating Point Instructions". Approximate functions compute like
exact ones, rounded once, so they are within the error that the ISA allows.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from inspect import Signature, signature
from types import MappingProxyType
from typing import Any

import numpy as np

from lowtide.interpreter.machine.agents import AgentState
from lowtide.interpreter.numbers.domains import Domain
from lowtide.interpreter.numbers.packed import Packed
from lowtide.interpreter.numbers.registers import Number, halves, join, number, split
from lowtide.interpreter.program.batches import Batch, Bulk, NotTogether
from lowtide.interpreter.ptx import integers
from lowtide.interpreter.ptx.rounding import modified
from lowtide.interpreter.ptx.table import Form, Table

TABLE = Table()

_TWO_SINGLES = "f32x2"
_PAIR_AND_RESULT = 3  # operands
_PAIRS = {"f16x2": "f16", "bf16x2": "bf16"}
_TYPES = "f16 bf16 f32 f64 f16x2 bf16x2"


@dataclass(slots=True, eq=False)
class OfNumbers:
    """A function of payloads of numbers of type `source`, and the type name of its result."""

    domain: Domain
    source: str
    target: str
    function: Callable[..., Any]

    @property
    def __signature__(self) -> Signature:
        return _sources(self.function)

    def __call__(self, *values: Any) -> Number:
        source = self.source
        payloads = [
            v.payload if v.__class__ is Number and v.dtype == source else number(v, source, self.domain) for v in values
        ]
        return Number(self.function(*payloads, self.target), self.target)


@lru_cache(maxsize=256)
def _sources(function: Callable[..., Any]) -> Signature:
    """The parameters of a function without the last, a type name: the sources of an instruction."""
    return Signature(list(signature(function).parameters.values())[:-1])


def of_floats(form: Form, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of payloads and a type name, on registers of the instruction's type."""
    domain, type = form.domain, form.type
    function = modified(domain, form.row.name, form.words, _PAIRS.get(type, type), function)
    if type in _PAIRS:
        dtype = _PAIRS[type]

        def compute(*values: Any) -> Packed:
            return Packed(function(*(halves(v, dtype, domain) for v in values), dtype), dtype)

        compute.__signature__ = _sources(function)  # type: ignore[attr-defined]
        return compute
    return OfNumbers(domain, type, type, function)


def _together(state: AgentState, batch: Batch) -> None:
    """Functions of numbers, on the operands of all instructions at once."""
    values, run, lanes = state.values, batch.ops[0].run, len(state.lanes)
    columns = []
    for reads in zip(*(op.readers for op in batch.ops), strict=True):
        found = [read(values) for read in reads]
        if any(value.__class__ is not Number or value.dtype != run.source for value in found):
            raise NotTogether
        payloads = [value.payload for value in found]
        varying = [isinstance(payload, np.ndarray) and payload.ndim == 1 for payload in payloads]
        if all(varying):
            columns.append(np.concatenate(payloads).reshape(len(payloads), lanes))
        elif any(varying):
            columns.append(np.stack([np.broadcast_to(payload, (lanes,)) for payload in payloads]))
        else:
            columns.append(np.array(payloads)[:, None])
    result = run.function(*columns, run.target)
    if result.shape[1] == 1:
        raise NotTogether
    for op, row in zip(batch.ops, result, strict=True):
        op.give(values, op.results, Number(row, run.target))


NUMBERS_TOGETHER = Bulk(
    _together, key=lambda op: op.instruction.name, accesses=False, takes=lambda op: isinstance(op.run, OfNumbers)
)

_ROUNDED: Mapping[str, str] = MappingProxyType(
    {"add": "add", "sub": "subtract", "mul": "multiply", "fma": "fma", "mad": "fma", "div": "divide"}
)


def _rounded(form: Form) -> Callable[..., Any]:
    """Round to nearest, ties to even, or as the instruction says (rounding.py)."""
    function = getattr(form.domain, _ROUNDED[form.row.name])
    if len(form.types) > 1:
        return _mixed(form, function)
    return _of_pairs(form, function) if form.type == _TWO_SINGLES else of_floats(form, function)


def _mixed(form: Form, function: Callable[..., Any]) -> Callable[..., Any]:
    """Of f32, with factors, or a first term, of 16 bits, which are exact as f32 (PTX ISA, "Mixed Precision Floating
    Point Instructions")."""
    type, domain, count = form.type, form.domain, 2 if form.row.name == "fma" else 1
    compute = of_floats(replace(form, types=("f32",)), function)

    def widened(*values: Any) -> Number:
        wide = [Number(number(value, type, domain), "f32") for value in values[:count]]
        return compute(*wide, *values[count:])

    widened.__signature__ = signature(compute)  # type: ignore[attr-defined]
    return widened


def _of_pairs(form: Form, function: Callable[..., Any]) -> Callable[..., Any]:
    """Of both f32 in registers of 64 bits."""
    domain, compute = form.domain, of_floats(replace(form, types=("f32",)), function)

    def both(*values: Any) -> Any:
        low, high = zip(*(split(value, 64, domain) for value in values), strict=True)
        return join(compute(*low), compute(*high), 32, domain)

    both.__signature__ = signature(compute)  # type: ignore[attr-defined]
    return both


def _extremum(form: Form) -> Callable[..., Any]:
    """If one operand is NaN, the other; with .NaN, NaN."""
    name = {"min": "minimum", "max": "maximum"}[form.row.name]
    function = getattr(form.domain, name if "NaN" in form.words else f"{name[:3]}_number")
    if len(form.instruction.operands) > _PAIR_AND_RESULT:
        return _of_three(form, function)
    if "xorsign" in form.words:
        return of_floats(form, lambda x, y, dtype: _signed(form, function, x, y))
    if "abs" in form.words:
        raise form.instruction.error(
            ".abs without .xorsign is a modifier of min and max of three operands [abs-of-two]"
        )
    return of_floats(form, lambda x, y, dtype: function(x, y))


def _of_three(form: Form, function: Callable[..., Any]) -> Callable[..., Any]:
    """The least or greatest of three numbers, with .abs of their magnitudes."""
    if "xorsign" in form.words or form.type != "f32":
        raise form.instruction.error("min and max of three operands are of .f32, without .xorsign [three-operands]")
    size: Callable[[Any], Any] = np.abs if "abs" in form.words else lambda value: value
    return of_floats(form, lambda x, y, z, dtype: function(function(size(x), size(y)), size(z)))


def _signed(form: Form, function: Callable[..., Any], x: Any, y: Any) -> Any:
    """.xorsign.abs: of magnitudes, with the sign of the product."""
    found = np.abs(function(np.abs(x), np.abs(y)))
    if form.domain.is_float:
        return np.where(np.signbit(x) ^ np.signbit(y), -found, found)[()]
    return np.where((x < 0) ^ (y < 0), -found, found)[()]


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
    """The function with its name in the domain. copysign.f32 d, a, b gives b the sign of a."""
    name, apply = _FUNCTIONS[form.row.name], form.domain.apply
    if name == "copysign":
        return of_floats(form, lambda sign, value, dtype: apply(name, dtype, value, sign))
    return of_floats(form, lambda x, dtype: apply(name, dtype, x))


def _reciprocal(form: Form) -> Callable[..., Any]:
    domain: Domain = form.domain
    return of_floats(form, lambda x, dtype: domain.divide(domain.constant(1.0, dtype), x, dtype))


_SECTION = "Floating Point Instructions"


# Opcodes that integers share: one row each; the type decides.
def _by_type(
    of_integer: Callable[[Form], Any] | None, of_float: Callable[[Form], Any]
) -> Callable[[Form], Callable[..., Any]]:
    return lambda form: of_float(form) if "f" in form.type or of_integer is None else of_integer(form)


_SINGLE, _SMALL = "f32 f64", "f32 f16 bf16 f16x2 bf16x2"

_ROUNDED_WORDS = "rn rz rm rp ftz"

# By opcode: the maker of its function, its modifiers, its types.
_MAKERS: Mapping[str, tuple[Callable[[Form], Any], str, str]] = MappingProxyType(
    {
        **dict.fromkeys(("add", "sub", "mul"), (_rounded, f"{_ROUNDED_WORDS} sat", f"{_TYPES} {_TWO_SINGLES}")),
        "fma": (_rounded, f"{_ROUNDED_WORDS} sat relu", f"{_TYPES} {_TWO_SINGLES}"),
        "mad": (_rounded, f"{_ROUNDED_WORDS} sat", _SINGLE),
        "div": (_rounded, f"{_ROUNDED_WORDS} approx full", _SINGLE),
        **dict.fromkeys(("min", "max"), (_extremum, "NaN ftz xorsign abs", _TYPES)),
        "neg": (_negated, "ftz", _TYPES),
        "abs": (_function, "ftz", _TYPES),
        "copysign": (_function, "", _SINGLE),
        "rcp": (_reciprocal, f"{_ROUNDED_WORDS} approx", _SINGLE),
        **dict.fromkeys(("ex2", "tanh"), (_function, "approx ftz", _SMALL)),
        **dict.fromkeys(("lg2", "sin", "cos"), (_function, "approx ftz", "f32")),
        "sqrt": (_function, f"{_ROUNDED_WORDS} approx", _SINGLE),
        "rsqrt": (_function, "rn approx ftz", _SINGLE),
    }
)

for _name, (_maker, _words, _types) in _MAKERS.items():
    _shared = integers.TABLE.rows.get(_name)
    TABLE.values(
        _name,
        types=" ".join((_types, *(_shared.types if _shared else ()))),
        words=" ".join((_words, *(_shared.words if _shared else ()))),
        section=f"{_shared.section.partition(':')[0]}, {_SECTION}: {_name}" if _shared else f"{_SECTION}: {_name}",
        bulk=NUMBERS_TOGETHER,
    )(_by_type(_shared.handler if _shared else None, _maker))
