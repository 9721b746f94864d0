"""Element types by their names in other libraries, and the conversion of values to bits and back.

All follows from the rows of `lowtide.elements` and needs only numpy: an array of a type that numpy lacks (bf16, f8…) is
held as unsigned integers of its size.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from lowtide.decompositions import Decomposition
from lowtide.elements import ELEMENTS, ElementType, element_type

_LARGEST_RANDOM = 2**16 - 1  # of integers, so that sums of a few do not wrap around

#: Our name, by the last component of the dtype's name in torch, numpy, CuPy and ml_dtypes.
LIBRARY_NAMES: dict[str, str] = {row.library: row.name for row in ELEMENTS.values()}

#: By (code, bits) of DLDataType.
DLPACK_NAMES: dict[tuple[int, int], str] = {(row.dlpack, row.bits): row.name for row in ELEMENTS.values()}

#: By the typestr of the CUDA array interface, without the byte order.
TYPESTR_NAMES: dict[str, str] = {row.typestr: row.name for row in ELEMENTS.values() if row.typestr is not None}


def stored_dtype(dtype: str) -> np.dtype[Any]:
    """The numpy dtype of an array with the bytes of elements: numpy's own, or unsigned integers."""
    row = element_type(dtype)
    return np.dtype(row.typestr or f"u{row.bytes}")


def round_to(values: Any, dtype: str) -> np.ndarray:
    """The float64 values rounded to a type (to nearest, ties to even, subnormals kept), as float64.

    Larger values become ±∞, or NaN in a type without infinities. Integers are saturated, and NaN becomes 0.
    """
    values, row = np.asarray(values, dtype=np.float64), element_type(dtype)
    if not row.is_float:
        return np.where(np.isnan(values), 0.0, np.clip(np.rint(values), row.lowest, row.largest))
    if row.typestr is not None:
        with np.errstate(over="ignore", invalid="ignore"):
            return values.astype(row.typestr).astype(np.float64)
    finite = np.isfinite(values)
    safe = np.where(finite, values, 0.0)
    unit = _unit_exponent(safe, row)
    rounded = np.ldexp(np.rint(np.ldexp(safe, -unit)), unit)
    beyond = np.copysign(math.inf, rounded) if row.has_infinity else math.nan
    rounded = np.where(np.abs(rounded) > row.largest, beyond, rounded)
    return np.where(finite, rounded, values if row.has_infinity else math.nan)


def half_unit(values: Any, dtype: str) -> np.ndarray:
    """The largest change by rounding a value to `dtype`: half a unit in the last place (below overflow)."""
    values, row = np.asarray(values, dtype=np.float64), element_type(dtype)
    if not row.is_float:
        return np.full(values.shape, 0.5)
    return np.ldexp(0.5, _unit_exponent(np.where(np.isfinite(values), values, 0.0), row))


def wrapped(values: Any, dtype: str) -> np.ndarray:
    """Integers, as float64, wrapped to the range of an integer type by its arithmetic modulo 2^bits.

    They are exact below 2⁵³.
    """
    row = element_type(dtype)
    return np.mod(np.asarray(values, dtype=np.float64) - row.lowest, 2.0**row.bits) + row.lowest


def random_numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Random numbers for tests, float64: normally distributed, or any integer of a type (of 32 bits, those below
    2¹⁶)."""
    row = element_type(dtype)
    if row.is_float:
        return rng.standard_normal(shape)
    most = min(int(row.largest), _LARGEST_RANDOM)
    return rng.integers(max(int(row.lowest), -most - 1), most, shape, endpoint=True).astype(np.float64)


def multiplied(values: np.ndarray, dtype: str) -> np.ndarray:
    """The multiplied part of float64 values of operands: without the bits that a type stores but does not multiply."""
    row = element_type(dtype)
    if row.storage is None:
        return values
    finite = np.isfinite(values)
    safe = np.where(finite, values, 0.0)
    unit = _unit_exponent(safe, row)
    return np.where(finite, np.ldexp(np.trunc(np.ldexp(safe, -unit)), unit), values)


def split(values: np.ndarray, row: Decomposition) -> np.ndarray:
    """The float64 values as their pieces represent them; values whose first piece overflows are infinite."""
    return np.where(np.abs(values) >= row.overflow, np.copysign(np.inf, values), values)


def left_out(row: Decomposition, a: np.ndarray, b: np.ndarray, size: np.ndarray) -> np.ndarray:
    """The largest error of a · b, (M, K) by (K, N), finite, as sums of products of pieces; `size` is |a| · |b|. If b is
    (groups, K, N), the error is at most this for each group.

    Subnormal pieces omit the same amount of each element, whatever its size.
    """
    rows, columns = np.abs(a).sum(axis=1, keepdims=True), np.abs(b).sum(axis=-2)
    columns = columns.max(axis=0) if columns.ndim > 1 else columns
    return np.asarray(row.error * size + row.lost * (rows + columns + a.shape[1] * row.lost))


def to_bits(values: np.ndarray, dtype: str) -> np.ndarray:
    """The values rounded to a type, as an array of `stored_dtype`."""
    row, rounded = element_type(dtype), round_to(values, dtype)
    if row.typestr is not None:
        return rounded.astype(row.typestr)
    fraction = row.precision - 1
    infinity = ((1 << (row.bits - row.precision)) - 1) << fraction
    magnitude = np.where(np.isfinite(rounded), np.abs(rounded), 0.0)
    unit = _unit_exponent(magnitude, row)
    steps = np.ldexp(magnitude, -unit).astype(np.int64)  # the significand, or less for a subnormal
    bits = ((unit - _least_unit(row)).astype(np.int64) << fraction) + steps
    nan = infinity | 1 << (fraction - 1) if row.has_infinity else (1 << (row.bits - 1)) - 1
    bits = np.where(np.isinf(rounded), infinity, np.where(np.isnan(rounded), nan, bits))
    return (bits | np.signbit(rounded).astype(np.int64) << (row.bits - 1)).astype(f"u{row.bytes}")


def from_bits(stored: np.ndarray, dtype: str) -> np.ndarray:
    """The float64 values of an array from `to_bits`."""
    row = element_type(dtype)
    if row.typestr is not None:
        return stored.view(row.typestr).astype(np.float64)
    return _values_of_bits(row)[stored.view(f"u{row.bytes}")]


@lru_cache(maxsize=8)
def _values_of_bits(row: ElementType) -> np.ndarray:
    """The value of each bit pattern of a float type of at most 16 bits."""
    fraction = row.precision - 1
    bits = np.arange(1 << row.bits, dtype=np.int64)
    exponent = bits >> fraction & (1 << (row.bits - row.precision)) - 1
    significand = bits & (1 << fraction) - 1 | np.where(exponent > 0, 1 << fraction, 0)
    values = np.ldexp(significand.astype(np.float64), np.maximum(exponent, 1) - 1 + _least_unit(row))
    beyond = np.where(significand == 1 << fraction, math.inf, math.nan) if row.has_infinity else math.nan
    values = np.where(values > row.largest, beyond, values)
    return np.where(bits >> (row.bits - 1), -values, values)


def _unit_exponent(values: np.ndarray, row: ElementType) -> np.ndarray:
    """The exponent of the unit in the last place of finite values."""
    _, exponent = np.frexp(values)
    return np.where(values == 0, _least_unit(row), np.maximum(exponent - row.precision, _least_unit(row)))


def _least_unit(row: ElementType) -> int:
    """The exponent of the smallest subnormal."""
    return row.min_exponent + 1 - row.precision
