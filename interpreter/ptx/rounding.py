"""Modifiers of floating point instructions: roundings other than to nearest, .ftz, .sat and .relu.

PTX ISA, "Floating Point Instructions". A directed rounding is computed from the exact result, a fraction. In the number
domains without floats nothing rounds, and nothing is subnormal.
"""

from collections.abc import Callable, Mapping
from fractions import Fraction
from inspect import signature
from math import isfinite, isqrt
from types import MappingProxyType
from typing import Any

import numpy as np

from lowtide.interpreter.numbers.domains import Domain

Function = Callable[..., Any]
"""Of payloads and the name of the type."""

_LEAST_NORMAL: Mapping[str, float] = MappingProxyType(
    {"f16": 2.0**-14, "bf16": 2.0**-126, "f32": 2.0**-126, "f64": 2.0**-1022}
)
_PRECISION: Mapping[str, int] = MappingProxyType({"f16": 11, "bf16": 8, "tf32": 11, "f32": 24, "f64": 53})
_LEAST_EXPONENT: Mapping[str, int] = MappingProxyType(
    {"f16": -24, "bf16": -133, "tf32": -136, "f32": -149, "f64": -1074}
)
LARGEST: Mapping[str, float] = MappingProxyType(
    {
        "f16": 65504.0,
        "bf16": float.fromhex("0x1.fep127"),
        "tf32": float.fromhex("0x1.ffcp127"),
        "f32": float.fromhex("0x1.fffffep127"),
        "f64": float.fromhex("0x1.fffffffffffffp1023"),
    }
)
DIRECTED = ("rz", "rm", "rp")


def flushed(domain: Domain, dtype: str) -> Callable[[Any], Any]:
    """Subnormal numbers replaced by zeros of their sign (.ftz)."""
    if not domain.is_float or dtype not in _LEAST_NORMAL:
        return lambda value: value
    least = _LEAST_NORMAL[dtype]

    def flush(value: Any) -> Any:
        small = np.abs(value) < least
        return np.where(small, np.copysign(0.0, value), value)[()] if np.any(small) else value

    return flush


def saturated(domain: Domain) -> Callable[[Any], Any]:
    """Clamped to 0 … 1, NaN to 0 (.sat)."""

    def clamp(value: Any) -> Any:
        return np.clip(np.where(np.isnan(value), 0.0, value), 0.0, 1.0)[()] if domain.is_float else np.clip(value, 0, 1)

    return clamp


def rectified(value: Any) -> Any:
    """Not below zero; NaN stays (.relu)."""
    return np.maximum(value, 0) + 0


_EXACT: Mapping[str, Callable[..., Fraction]] = MappingProxyType(
    {
        "add": lambda x, y: x + y,
        "sub": lambda x, y: x - y,
        "mul": lambda x, y: x * y,
        "fma": lambda x, y, z: x * y + z,
        "mad": lambda x, y, z: x * y + z,
        "div": lambda x, y: x / y,
        "rcp": lambda x: 1 / x,
    }
)


def directed(name: str, mode: str, nearest: Function, domain: Domain) -> Function:
    """A function rounded towards zero (rz), down (rm) or up (rp); `nearest` is the function rounded to nearest."""
    if not domain.is_float:
        return nearest

    def one(dtype: str, found: float, *values: float) -> float:
        if not all(map(isfinite, values)) or (name in ("div", "rcp") and values[-1] == 0):
            return found
        if name == "sqrt":
            return _root(values[0], dtype, mode) if values[0] > 0 else found
        exact = _EXACT[name](*map(Fraction, values))
        if exact == 0:
            is_sum = name in ("add", "sub", "fma", "mad") and any(values)
            return -0.0 if mode == "rm" and is_sum else found
        return rounded_fraction(exact, dtype, mode)

    def compute(*values: Any) -> Any:
        *payloads, dtype = values
        rows = np.broadcast_arrays(nearest(*payloads, dtype), *payloads)
        made = [one(dtype, *map(float, each)) for each in zip(*(row.reshape(-1) for row in rows), strict=True)]
        return np.array(made).reshape(rows[0].shape)[()]

    return compute


def modified(domain: Domain, name: str, words: frozenset[str], dtype: str, function: Function) -> Function:
    """A function of payloads and a type with the modifiers of its instruction."""
    mode = next((word for word in DIRECTED if word in words), None)
    found = function if mode is None else directed(name, mode, function, domain)
    flush = flushed(domain, dtype) if "ftz" in words else None
    last = [flush] if flush is not None else []
    last += [saturated(domain)] if "sat" in words else []
    last += [rectified] if "relu" in words else []
    if not last and mode is None:
        return function

    def compute(*values: Any) -> Any:
        *payloads, type = values
        result = found(*(payloads if flush is None else map(flush, payloads)), type)
        for each in last:
            result = each(result)
        return result

    compute.__signature__ = signature(function)  # type: ignore[attr-defined]
    return compute


def rounded_fraction(exact: Fraction, dtype: str, mode: str) -> float:
    """A fraction other than zero, rounded to a type: to zero (rz), down (rm), up (rp), or to nearest even (rn)."""
    precision, least = _PRECISION[dtype], _LEAST_EXPONENT[dtype]
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= Fraction(2) ** exponent > size
    unit = Fraction(2) ** max(exponent - precision + 1, least)
    count, is_away = size // unit, mode == ("rp" if exact > 0 else "rm")
    rest = size - count * unit
    if mode == "rn":
        is_away = True
        count += rest * 2 > unit or (rest * 2 == unit and count % 2 == 1)
    else:
        count += is_away and rest > 0
    result = count * unit
    is_beyond = result > Fraction(LARGEST[dtype])
    value = float(result) if not is_beyond else float("inf") if is_away else LARGEST[dtype]
    return value if exact > 0 else -value


def _root(value: float, dtype: str, mode: str) -> float:
    """The square root of a positive number, rounded: the root of 4^s times it, as an integer, has all bits needed."""
    exact = Fraction(value)
    shift = 2 * _PRECISION[dtype] + max(0, -Fraction(value).numerator.bit_length() + exact.denominator.bit_length())
    scaled = exact * 4**shift
    floor = isqrt(scaled.numerator // scaled.denominator)
    is_exact = floor * floor == scaled
    near = Fraction(floor, 2**shift) if is_exact else Fraction(2 * floor + 1, 2 ** (shift + 1))
    return rounded_fraction(near, dtype, mode)


def rounded_to(domain: Domain, mode: str, always: bool = False) -> Callable[[Any, str], Any]:
    """Numbers, or integers of any size, rounded to a type in a mode: rn, rz, rm or rp. `always`: also for rn by a
    fraction, for types that the domain does not round to, and for integers that a float64 does not hold."""
    if not domain.is_float or (mode not in DIRECTED and not always):
        return domain.round_wide

    def compute(value: Any, dtype: str) -> Any:
        rows = np.asarray(value)
        flat = [
            float(each) if not isfinite(each) or each == 0 else rounded_fraction(Fraction(each), dtype, mode)
            for each in rows.reshape(-1).tolist()
        ]
        return np.array(flat, np.float64).reshape(rows.shape)[()]

    return compute
