"""Number domains: the values that memory cells and SSA values hold in place of bits.

`float`   the values of the hardware: each is a float64 that holds an f16, bf16, f32 or f64 exactly; each operation
          computes in float64 and rounds once to its type.
`hopper`  as `float`, with sums inside mma.sync and wgmma as in Hopper's tensor cores (`tensor_cores`).
`exact`   integers without rounding: a GEMM on integers does not depend on the order of its sums, so two levels
          can be compared bit by bit.
`field`   integers modulo 2³¹ − 1: also exact, and with dyadic constants such as 0.5.

Integer types (`integers`) have the same values in every domain; numbers converted from them belong to the domain.

Values are numpy arrays (any shape) of the domain's `payload` dtype; float types have their MLIR names: "bf16", "f32".
Float casts may overflow to infinity on purpose: run under `numpy.errstate(all="ignore")`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import ml_dtypes  # noqa: F401 - registers the types that numpy lacks
import numpy as np
from numpy.typing import NDArray

from lowtide.elements import ELEMENTS
from lowtide.errors import InterpreterError, NotInterpreted
from lowtide.interpreter.numbers import fused, integers
from lowtide.interpreter.numbers.tensor_cores import MMA_SYNC, WGMMA, is_known, multiply_add

Values = NDArray[Any]

# By MLIR name.
_FLOATS = {row.ir: row for row in ELEMENTS.values() if row.is_float}
FLOAT_DTYPES: Mapping[str, Any] = MappingProxyType({name: np.dtype(row.library) for name, row in _FLOATS.items()})
NUMPY_DTYPES: Mapping[str, Any] = MappingProxyType({row.ir: np.dtype(row.library) for row in ELEMENTS.values()})
"""Arrays that users pass and get."""
_BITS: Mapping[str, Any] = MappingProxyType({name: np.dtype(f"u{row.bytes}") for name, row in _FLOATS.items()})

# Types in whose sums float64 would round at every step.
_AS_WIDE_AS_PAYLOAD = frozenset(name for name, row in _FLOATS.items() if row.precision > np.finfo(np.float64).nmant)

# Types to which a float64 is rounded by an f32.
_BY_SINGLES = frozenset(name for name, dtype in FLOAT_DTYPES.items() if dtype.type.__module__ != "numpy")

_COMPARISONS: Mapping[str, Callable[[Values, Values], Values]] = MappingProxyType(
    {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
)

_FIELD_BITS = 31  # of the field's prime
_SIGNIFICAND = 53  # of a float64

_erf, _erfc = np.frompyfunc(math.erf, 1, 1), np.frompyfunc(math.erfc, 1, 1)

FUNCTIONS: Mapping[str, Callable[..., Values]] = MappingProxyType(
    {
        "absf": np.abs,
        "ceil": np.ceil,
        "copysign": np.copysign,
        "cos": np.cos,
        "erf": lambda x: np.asarray(_erf(x), np.float64),
        "erfc": lambda x: np.asarray(_erfc(x), np.float64),
        "exp": np.exp,
        "exp2": np.exp2,
        "expm1": np.expm1,
        "floor": np.floor,
        "log": np.log,
        "log1p": np.log1p,
        "log2": np.log2,
        "powf": np.power,
        "roundeven": np.rint,
        "rsqrt": lambda x: 1.0 / np.sqrt(x),
        "sin": np.sin,
        "sqrt": np.sqrt,
        "tanh": np.tanh,
        "trunc": np.trunc,
    }
)


class FloatDomain:
    """Floating point of the hardware; also the interface of the other domains."""

    name = "float"
    is_float: bool = True
    """Whether values are floats of the hardware's types, with bits."""
    payload: Any = np.float64

    def of_matrix(self, array: Values, dtype: str) -> Values:
        """The payload of a matrix of elements of `dtype` that the user gave as an array of any dtype."""
        if dtype in integers.INTEGERS:
            return integers.stored(np.asarray(array), dtype)
        return self.round(self.from_array(array), dtype)

    def from_array(self, array: Values) -> Values:
        """The payload of numbers that the user gave, of any dtype."""
        return np.asarray(array).astype(np.float64)

    def matrix_of(self, payload: Values, dtype: str) -> Values:
        """The user's matrix, in the numpy (or ml_dtypes) type of `dtype`, from its payload in memory."""
        return integers.loaded(payload, dtype) if dtype in integers.INTEGERS else self.to_array(payload, dtype)

    def to_array(self, values: Values, dtype: str) -> Values:
        """Numbers in the numpy (or ml_dtypes) type of `dtype`."""
        return values.astype(FLOAT_DTYPES[dtype])

    def constant(self, value: float, dtype: str) -> Any:
        """A constant of the IR, rounded to its type."""
        return self.round(np.float64(value), dtype)

    def round(self, values: Values, dtype: str) -> Values:
        """Rounded to `dtype`, to nearest, ties to even; also truncf and extf."""
        if dtype == "f64":
            return values
        return values.astype(FLOAT_DTYPES[dtype]).astype(np.float64)

    def round_wide(self, values: Values, dtype: str) -> Values:
        """As `round`, also for numbers that are neither f32 nor sums or products of two of `dtype`."""
        return self.round(fused.singles(values) if dtype in _BY_SINGLES else values, dtype)

    def unwritten(self, dtype: str) -> Any:
        """The number that wgmma reads where nothing was written. Hardware may read any number. This one makes each
        element of D wrong for which it counts."""
        return integers.UNWRITTEN if dtype in integers.INTEGERS else np.nan

    def negate(self, x: Values) -> Values:
        """-x, which never rounds."""
        return -x

    def add(self, x: Values, y: Values, dtype: str) -> Values:
        """x + y, rounded to `dtype`."""
        return self.round(x + y, dtype)

    def subtract(self, x: Values, y: Values, dtype: str) -> Values:
        """x - y, rounded to `dtype`."""
        return self.round(x - y, dtype)

    def multiply(self, x: Values, y: Values, dtype: str) -> Values:
        """x * y, rounded to `dtype`."""
        return self.round(x * y, dtype)

    def divide(self, x: Values, y: Values, dtype: str) -> Values:
        """x / y, rounded to `dtype`."""
        return self.round(np.divide(x, y), dtype)

    def fma(self, x: Values, y: Values, z: Values, dtype: str) -> Values:
        """x * y + z, rounded once to `dtype`; for f32, a sum with more than 53 bits rounds there, too."""
        if dtype in _AS_WIDE_AS_PAYLOAD:
            return fused.fma(x, y, z)
        if dtype == "f32":
            return self.round(x * y + z, dtype)
        return self.round_wide(fused.odd_sum(x * y, z), dtype)

    def dot(self, a: Values, b: Values, c: Values, dtype: str) -> Values:
        """c + a · bᵀ on matrices a: (…, M, K), b: (…, N, K), c: (…, M, N) of accumulators of `dtype`."""
        return integers.dot(a, b, c, dtype) if dtype in integers.INTEGERS else self._dot(a, b, c, dtype)

    def sum(self, x: Values, y: Values, dtype: str) -> Values:
        """x + y of accumulators: as `add`, or for integers modulo 2^bits."""
        if dtype in integers.INTEGERS:
            return integers.wrapped(x.astype(np.int64) + y.astype(np.int64), dtype)
        return self.add(x, y, dtype)

    def full(self, shape: Any, value: float, dtype: str) -> Values:
        """An array of one constant."""
        if dtype in integers.INTEGERS:
            return np.full(shape, int(value), integers.INTEGERS[dtype])
        return np.full(shape, self.constant(value, dtype), self.payload)

    def _dot(self, a: Values, b: Values, c: Values, dtype: str) -> Values:
        """c + a · bᵀ on matrices a: (…, M, K), b: (…, N, K), c: (…, M, N): in a wider type, rounded once to `dtype`.

        For f64 the wider type is numpy's longdouble: 11 more bits on x86, more on other CPUs, on a few none.
        """
        if dtype in _AS_WIDE_AS_PAYLOAD:
            wide_a, wide_b = a.astype(np.longdouble), b.swapaxes(-1, -2).astype(np.longdouble)
            return (wide_a @ wide_b + c).astype(np.float64)
        return self.round(a @ b.swapaxes(-1, -2) + c, dtype)

    def mma(
        self,
        a: Values,
        b: Values,
        c: Values,
        operands: tuple[str, str],
        dtype: str,
        depth: int,
        unit: str = MMA_SYNC,
    ) -> Values:
        """As `dot`, by instructions that multiply `depth` of K; `operands` are the types of a and b."""
        return self.dot(a, b, c, dtype)

    def mmas(
        self, a: Sequence[Values], b: Sequence[Values], c: Values, operands: tuple[str, str], dtype: str
    ) -> Values:
        """wgmma of (M, K) by (N, K), each added to the result of the previous one, the first to c: (M, N)."""
        for left, right in zip(a, b, strict=True):
            c = self.mma(left, right, c, operands, dtype, left.shape[-1], WGMMA)
        return c

    def maximum(self, x: Values, y: Values) -> Values:
        """The larger; NaN if either is (arith.maximumf)."""
        return np.maximum(x, y)

    def minimum(self, x: Values, y: Values) -> Values:
        """The smaller; NaN if either is (arith.minimumf)."""
        return np.minimum(x, y)

    def max_number(self, x: Values, y: Values) -> Values:
        """The larger; if one is NaN, the other (arith.maxnumf)."""
        return np.fmax(x, y)

    def min_number(self, x: Values, y: Values) -> Values:
        """The smaller; if one is NaN, the other (arith.minnumf)."""
        return np.fmin(x, y)

    def compare(self, predicate: str, x: Values, y: Values) -> Values:
        """arith.cmpf by its predicate's name: "oeq", "ult", "ord", "true", …"""
        if predicate in ("true", "false"):
            return np.full(np.broadcast(x, y).shape, predicate == "true")
        unordered = np.isnan(x) | np.isnan(y)
        if predicate in ("ord", "uno"):
            return unordered if predicate == "uno" else ~unordered
        result = _COMPARISONS[predicate[1:]](x, y)
        return result | unordered if predicate[0] == "u" else result & ~unordered

    def apply(self, function: str, dtype: str, *operands: Values) -> Values:
        """A function of the math dialect by its op's name ("exp2", "tanh", …), rounded to `dtype`."""
        if function not in FUNCTIONS:
            raise InterpreterError(
                f"the interpreter has no function {function!r}; it has {', '.join(sorted(FUNCTIONS))} [no-function]"
            )
        return self.round(FUNCTIONS[function](*operands), dtype)

    def from_integer(self, values: Values, dtype: str) -> Values:
        """sitofp and uitofp."""
        return self.round_wide(np.asarray(values).astype(np.float64), dtype)

    def to_integer(self, values: Values, integer: Any) -> Values:
        """fptosi and fptoui: towards zero, NaN to 0 (PTX ISA, "cvt")."""
        return np.trunc(np.where(np.isnan(values), 0.0, values)).astype(integer)

    def to_bits(self, values: Values, dtype: str) -> Values:
        """The bits of floats, as unsigned integers of their width."""
        return np.asarray(values).astype(FLOAT_DTYPES[dtype]).view(_BITS[dtype])

    def from_bits(self, bits: Values, dtype: str) -> Values:
        """Floats from their bits."""
        return np.asarray(bits).astype(_BITS[dtype]).view(FLOAT_DTYPES[dtype]).astype(np.float64)


class HopperDomain(FloatDomain):
    """As `float`, but each instruction of the tensor cores adds its products as those of Hopper do."""

    name = "hopper"

    def mma(
        self,
        a: Values,
        b: Values,
        c: Values,
        operands: tuple[str, str],
        dtype: str,
        depth: int,
        unit: str = MMA_SYNC,
    ) -> Values:
        if not is_known(unit, operands, dtype):
            return self.dot(a, b, c, dtype)
        for first in range(0, a.shape[-1], depth):
            part = slice(first, first + depth)
            c = multiply_add(a[..., part], b[..., part], c, operands, dtype, unit)
        return c


_UNWRITTEN = 1_000_003  # sums of its products are exact, and no sum of small numbers is near them


class ExactDomain(FloatDomain):
    """Integers of 64 bits that never round; ops without an exact integer result are refused."""

    name = "exact"
    is_float = False
    payload = np.int64

    def from_array(self, array: Values) -> Values:
        values = np.asarray(array)
        floats = values.astype(np.float64)
        if not np.all(np.isfinite(floats) & (np.abs(floats) < 2.0**53) & (floats == np.trunc(floats))):
            raise self._refused("an input that is not integer", "give integer inputs")
        return floats.astype(np.int64)

    def to_array(self, values: Values, dtype: str) -> Values:
        return np.array(values, np.int64)

    def constant(self, value: float, dtype: str) -> Any:
        if not math.isfinite(value) or value != math.trunc(value):
            raise self._refused(f"the constant {value}", "take the domain 'field' for dyadic constants, else 'float'")
        return np.int64(int(value))

    def unwritten(self, dtype: str) -> Any:
        return integers.UNWRITTEN if dtype in integers.INTEGERS else _UNWRITTEN

    def round(self, values: Values, dtype: str) -> Values:
        return values

    def round_wide(self, values: Values, dtype: str) -> Values:
        return self.round(values, dtype)

    def multiply(self, x: Values, y: Values, dtype: str) -> Values:
        self._check_product(x, y, 1)
        return self.round(x * y, dtype)

    def divide(self, x: Values, y: Values, dtype: str) -> Values:
        if np.any(y == 0) or np.any(x % np.where(y == 0, 1, y)):
            raise self._refused("a division with a remainder, or by zero", "take the domain 'float'")
        return x // y

    def fma(self, x: Values, y: Values, z: Values, dtype: str) -> Values:
        self._check_product(x, y, 1)
        return self.round(x * y + z, dtype)

    def _dot(self, a: Values, b: Values, c: Values, dtype: str) -> Values:
        bound = self._check_product(a, b, a.shape[-1])
        if bound < 2.0**53:  # then float64, which is fast, has all partial sums exactly
            return (a.astype(np.float64) @ b.swapaxes(-1, -2).astype(np.float64)).astype(np.int64) + c
        return a @ b.swapaxes(-1, -2) + c

    def mmas(
        self, a: Sequence[Values], b: Sequence[Values], c: Values, operands: tuple[str, str], dtype: str
    ) -> Values:
        return self.dot(np.concatenate(a, axis=1), np.concatenate(b, axis=1), c, dtype)

    def compare(self, predicate: str, x: Values, y: Values) -> Values:
        if predicate in ("true", "false", "ord", "uno"):
            return np.full(np.broadcast(x, y).shape, predicate in ("true", "ord"))
        return _COMPARISONS[predicate[1:]](x, y)

    def apply(self, function: str, dtype: str, *operands: Values) -> Values:
        if function == "absf":
            return np.abs(operands[0])
        if function in ("ceil", "floor", "trunc", "roundeven"):
            return operands[0]
        raise self._refused(f"math.{function}", "take the domain 'float'")

    def from_integer(self, values: Values, dtype: str) -> Values:
        return np.asarray(values).astype(np.int64)

    def to_integer(self, values: Values, integer: Any) -> Values:
        return np.asarray(values).astype(integer)

    def to_bits(self, values: Values, dtype: str) -> Values:
        raise self._refused("the bits of a float", "take the domain 'float'")

    def from_bits(self, bits: Values, dtype: str) -> Values:
        """Bits can be read as numbers if these are integers."""
        floats = FloatDomain().from_bits(bits, dtype)
        if not np.all(np.isfinite(floats) & (np.abs(floats) < 2.0**53) & (floats == np.trunc(floats))):
            raise self._refused("a float made from bits that is not integer", "take the domain 'float'")
        return self.from_array(floats)

    def _check_product(self, x: Values, y: Values, terms: int) -> float:
        """The largest possible sum of `terms` products. Raises InterpreterError if int64 may not hold it."""
        bound = float(np.abs(x).max(initial=0)) * float(np.abs(y).max(initial=0)) * terms
        if bound >= 2.0**62:
            raise self._refused("a product beyond 2^62", "give smaller inputs, or take the domain 'field'")
        return bound

    def _refused(self, what: str, way_out: str) -> NotInterpreted:
        return NotInterpreted(f"the number domain {self.name!r} has no {what}; {way_out} [domain-lacks]")


class FieldDomain(ExactDomain):
    """Integers modulo the prime 2³¹ − 1. It has no order: comparisons, maxima and rounding functions are refused."""

    name = "field"
    prime = 2**_FIELD_BITS - 1

    def from_array(self, array: Values) -> Values:
        return super().from_array(array) % self.prime

    def constant(self, value: float, dtype: str) -> Any:
        if not math.isfinite(value):
            raise self._refused(f"the constant {value}", "take the domain 'float'")
        ratio = Fraction(value)
        return np.int64(ratio.numerator * pow(ratio.denominator, -1, self.prime) % self.prime)

    def round(self, values: Values, dtype: str) -> Values:
        return values % self.prime

    def negate(self, x: Values) -> Values:
        return -x % self.prime

    def _check_product(self, x: Values, y: Values, terms: int) -> float:
        return 0.0  # a product of two numbers below the prime fits

    def divide(self, x: Values, y: Values, dtype: str) -> Values:
        if np.any(y == 0):
            raise self._refused("a division by zero", "take the domain 'float'")
        inverse = np.vectorize(lambda value: pow(int(value), -1, self.prime), otypes=[np.int64])
        return x * inverse(y) % self.prime

    def _dot(self, a: Values, b: Values, c: Values, dtype: str) -> Values:
        # Halves of 16 and 15 bits: each sum of products of halves is exact in float64 up to K = 2^21.
        low_a, high_a, low_b, high_b = (
            part.astype(np.float64)
            for part in (a & 0xFFFF, a >> 16, b.swapaxes(-1, -2) & 0xFFFF, b.swapaxes(-1, -2) >> 16)
        )
        low, middle, high = (
            part.astype(np.int64) % self.prime
            for part in (low_a @ low_b, low_a @ high_b + high_a @ low_b, high_a @ high_b)
        )
        return (low + (middle << 16) + (high * (2**32 % self.prime)) + c) % self.prime

    def maximum(self, x: Values, y: Values) -> Values:
        raise self._refused("order (maximum, minimum)", "take the domain 'exact' or 'float'")

    minimum = max_number = min_number = maximum

    def compare(self, predicate: str, x: Values, y: Values) -> Values:
        raise self._refused("order (comparison)", "take the domain 'exact' or 'float'")

    def apply(self, function: str, dtype: str, *operands: Values) -> Values:
        raise self._refused(f"math.{function}", "take the domain 'float'")

    def from_integer(self, values: Values, dtype: str) -> Values:
        return np.asarray(values).astype(np.int64) % self.prime

    def from_bits(self, bits: Values, dtype: str) -> Values:
        """Bits can be read as numbers if these are finite: all of them are dyadic."""
        floats = FloatDomain().from_bits(bits, dtype)
        if not np.all(np.isfinite(floats)):
            raise self._refused("a float made from bits that is not finite", "take the domain 'float'")
        significands, exponents = np.frexp(floats)
        integers = np.ldexp(significands, _SIGNIFICAND).astype(np.int64) % self.prime
        # 2³¹ is 1 modulo the prime, so exponents count modulo 31.
        return integers * (1 << (exponents.astype(np.int64) - _SIGNIFICAND) % _FIELD_BITS) % self.prime

    def to_integer(self, values: Values, integer: Any) -> Values:
        raise self._refused("way back to integers", "take the domain 'exact' or 'float'")


Domain = FloatDomain
DOMAINS: Mapping[str, type[Domain]] = MappingProxyType(
    {domain.name: domain for domain in (FloatDomain, HopperDomain, ExactDomain, FieldDomain)}
)


def domain(name: str) -> Domain:
    """The number domain `name`: "float", "hopper", "exact" or "field". Raises InterpreterError for other names."""
    if not isinstance(name, str) or name not in DOMAINS:
        raise InterpreterError(f"unknown number domain {name!r}; known are {', '.join(DOMAINS)} [unknown-domain]")
    return DOMAINS[name]()
