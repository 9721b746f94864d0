"""The sum inside one tensor core instruction, as the tensor cores of Hopper make it, to the bit.

An instruction adds the accumulator and all products of its K at once. Each product is exact, and counts with the sum of
its factors' exponents (so a product of significands of 2 or more is not normalized). All terms are aligned to the
largest of these exponents and cut, towards zero, some bits below it; the sum of what is left is exact, and is rounded
once to the accumulator's type: towards zero for f32, to nearest for f16.

Source: probing of an H200 by `benchmarks/tensor_core_bits.py`, which compares D bit for bit; for the method, Fasi,
Higham, Mikaitis and Pranesh, "Numerical behavior of NVIDIA tensor cores", 2021.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.elements import ELEMENTS, ElementType

Values = NDArray[Any]

#: Bits that terms keep below the largest exponent, by the MLIR type of the operands.
KEPT_BITS: Mapping[str, int] = MappingProxyType({"f16": 25, "bf16": 25})

_TO_NEAREST = "f16"  # the accumulators that are not truncated
_OF_ZERO = -100_000  # an exponent below all others
_ROWS = {row.ir: row for row in ELEMENTS.values() if row.is_float}


def multiply_add(a: Values, b: Values, c: Values, operands: tuple[str, str], accumulator: str) -> Values:
    """c + a · bᵀ by one instruction: a (…, M, K), b (…, N, K), c (…, M, N), float64 that hold values of their types.

    `operands` and `accumulator` are MLIR types; those of a and b have the same row in KEPT_BITS.
    """
    left, right = a[..., :, None, :], b[..., None, :, :]
    products = left * right
    exponents = np.where(
        products == 0, _OF_ZERO, _exponent(left, _ROWS[operands[0]]) + _exponent(right, _ROWS[operands[1]])
    )
    row = _ROWS[accumulator]
    largest = np.maximum(exponents.max(-1), np.where(c == 0, _OF_ZERO, _exponent(c, row)))
    shift = np.where(largest == _OF_ZERO, 0, KEPT_BITS[operands[0]] - largest)
    total = np.trunc(np.ldexp(products, shift[..., None])).sum(-1) + np.trunc(np.ldexp(c, shift))
    rounded = _round(np.ldexp(total, -shift), row)
    special = ~(np.isfinite(products).all(-1) & np.isfinite(c))
    return np.where(special, products.sum(-1) + c, rounded)


def _exponent(values: Values, row: ElementType) -> Values:
    """The exponent of each value; a subnormal has that of the smallest normal number."""
    _, exponent = np.frexp(values)
    return np.maximum(exponent - 1, row.min_exponent)


def _round(values: Values, row: ElementType) -> Values:
    """To the accumulator's type: to nearest, or towards zero."""
    dtype = np.dtype(row.library)
    rounded = values.astype(dtype)
    if row.ir == _TO_NEAREST:
        return rounded.astype(np.float64)
    beyond = np.abs(rounded.astype(np.float64)) > np.abs(values)
    return np.where(beyond, np.nextafter(rounded, dtype.type(0)), rounded).astype(np.float64)
