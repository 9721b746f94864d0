"""The sum inside one tensor core instruction, bit for bit as on Hopper.

An instruction adds the accumulator and all products of its K at once. Each product is exact; its exponent is the sum of
its factors' exponents (so a product of significands of 2 or more is not normalized). All terms are aligned to the
largest of these exponents and truncated some bits below it. The sum of the truncated terms is exact, and is rounded
once to the accumulator's type: towards zero for f32, to nearest for f16. A sum above the largest number becomes
infinite. A sum of zero is positive.

- tf32 is f32 without its last 13 bits.
- wgmma of fp8 keeps fewer bits, and its f32 sums have 14 significant ones.
- mma.sync of fp8 consists of two of f16: ptxas sums the lower two of each four of K first, then the upper two, starting
  from zero, and adds the accumulator to that, rounded to nearest.

Source: probing of an H200 by `benchmarks/probe_tensor_cores.py` (single instructions) and
`benchmarks/tensor_core_bits.py` (kernels), which compare bit for bit; for the method, Fasi, Higham, Mikaitis and
Pranesh, "Numerical behavior of NVIDIA tensor cores", 2021.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.elements import ELEMENTS, ElementType
from lowtide.interpreter.numbers.storage import cut, is_cut

Values = NDArray[Any]


@dataclass(frozen=True)
class Rule:
    """Bits of terms kept below the largest exponent, and significant bits of an f32 sum."""

    kept: int
    significant: int = 24


MMA_SYNC, WGMMA = "mma.sync", "wgmma"
_FP8 = ("f8E4M3FN", "f8E5M2")
_WIDE = Rule(25)

#: By the unit that adds and the type of the operands, by MLIR name.
RULES: Mapping[tuple[str, str], Rule] = MappingProxyType(
    {(unit, operand): _WIDE for unit in (MMA_SYNC, WGMMA) for operand in ("f16", "bf16", "tf32")}
    | {(WGMMA, operand): Rule(13, 14) for operand in _FP8}
)

_TO_NEAREST = "f16"  # accumulators that are not truncated
_OF_ZERO = -100_000  # an exponent below all others
_ROWS = {row.ir: row for row in ELEMENTS.values() if row.is_float}


def is_known(unit: str, operands: tuple[str, str], accumulator: str) -> bool:
    """Whether the rule of an instruction is known: for mma.sync or wgmma, on operands of these types."""
    if unit == MMA_SYNC and operands[0] in _FP8:
        return accumulator == "f32"
    return (unit, operands[0]) in RULES


def multiply_add(
    a: Values, b: Values, c: Values, operands: tuple[str, str], accumulator: str, unit: str = WGMMA
) -> Values:
    """c + a · bᵀ by one instruction: a (…, M, K), b (…, N, K), c (…, M, N), float64 that hold values of their types.

    `operands` and `accumulator` are MLIR types for which `is_known` holds.
    """
    if unit == MMA_SYNC and operands[0] in _FP8:
        total = np.zeros_like(c)
        for half in (0, 1):
            taken = np.arange(a.shape[-1]) % 4 // 2 == half
            total = multiply_add(a[..., taken], b[..., taken], total, ("f16", "f16"), "f32", unit)
        return (total + c).astype(np.float32).astype(np.float64)
    a, b = (cut(each, name) if is_cut(name) else each for each, name in zip((a, b), operands, strict=True))
    rule, row = RULES[unit, operands[0]], _ROWS[accumulator]
    left, right = a[..., :, None, :], b[..., None, :, :]
    products = left * right
    exponents = np.where(
        products == 0, _OF_ZERO, _exponent(left, _ROWS[operands[0]]) + _exponent(right, _ROWS[operands[1]])
    )
    largest = np.maximum(exponents.max(-1), np.where(c == 0, _OF_ZERO, _exponent(c, row)))
    shift = np.where(largest == _OF_ZERO, 0, rule.kept - largest)
    total = np.trunc(np.ldexp(products, shift[..., None])).sum(-1) + np.trunc(np.ldexp(c, shift))
    rounded = _round(np.ldexp(total, -shift), row, rule.significant) + 0.0  # a zero is positive
    special = ~(np.isfinite(products).all(-1) & np.isfinite(c))
    return np.where(special, products.sum(-1) + c, rounded)


def _exponent(values: Values, row: ElementType) -> Values:
    """The exponent of each value; for a subnormal, that of the smallest normal number."""
    _, exponent = np.frexp(values)
    return np.maximum(exponent - 1, row.min_exponent)


def _round(values: Values, row: ElementType, significant: int) -> Values:
    """Rounded to the accumulator's type: to nearest, or truncated to this many bits."""
    dtype = np.dtype(row.library)
    if row.ir == _TO_NEAREST:
        return values.astype(dtype).astype(np.float64)
    if significant < row.precision:
        fraction, exponent = np.frexp(values)
        values = np.ldexp(np.trunc(np.ldexp(fraction, significant)), exponent - significant)
    rounded = values.astype(dtype)
    limit = np.ldexp(1.0, np.frexp(row.largest)[1])  # a sum of this magnitude is infinite
    beyond = (np.abs(rounded.astype(np.float64)) > np.abs(values)) & (np.abs(values) < limit)
    return np.where(beyond, np.nextafter(rounded, dtype.type(0)), rounded).astype(np.float64)
