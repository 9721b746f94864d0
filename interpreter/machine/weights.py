"""Packed weights: the contents of the bytes of a matrix (docs/weights.md), by the formulas of the PTX ISA.

In 32 of K, byte 8 · t + 4 · s + c of a row is for thread t of the four that share a row of mma.m16n8k16's B, for the
s-th of two such mma: in the order of its values, with the middle two exchanged. ("Matrix Fragments for mma.m16n8k16".)
"""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.elements import ElementType, element_of_ir
from lowtide.interpreter.machine.hardware import fragments_of
from lowtide.interpreter.numbers.domains import Domain

Values = NDArray[Any]

_BLOCK = 32
_VALUES = (0, 2, 1, 3)  # of a thread, in the order of its bytes


@lru_cache(maxsize=1)
def order_of_k() -> NDArray[np.int64]:
    """The k of a block that each of its bytes holds."""
    ks = fragments_of((16, 8, 16), 16).b[0]
    return np.array([16 * s + ks[t, value] for t in range(4) for s in range(2) for value in _VALUES])


def placed(k: NDArray[np.int64]) -> NDArray[np.int64]:
    """The byte of its row that holds each k."""
    return k // _BLOCK * _BLOCK + np.argsort(order_of_k())[k % _BLOCK]


def unpacked(packed: Values, weights: str, domain: Domain, dtype: str, zeros: Values | None = None) -> Values:
    """The weights (rows, K) as numbers of a float type, from bytes (rows or rows / 2, K). `weights`: their MLIR type.

    `zeros`, which broadcast to (rows, K), are subtracted.
    """
    row = element_of_ir(weights)
    assert row is not None
    bytes_ = np.asarray(packed).astype(np.int64) & 0xFF
    if row.per_byte > 1:
        eight = bytes_.reshape(-1, 8, bytes_.shape[1])
        bytes_ = np.stack([eight & 0xF, eight >> 4], axis=1).reshape(-1, bytes_.shape[1])
    return fields_as_numbers(bytes_[:, placed(np.arange(bytes_.shape[1]))], weights, domain, dtype, zeros)


def fields_as_numbers(fields: Values, weights: str, domain: Domain, dtype: str, zeros: Values | None = None) -> Values:
    """The weights of fields of bits: integers, minus the magnitude of the smallest one and the zero points, whose lower
    bits of the same number count; or floats, all of whose fields are finite."""
    row = element_of_ir(weights)
    assert row is not None
    if row.is_float:
        return _floats(np.asarray(fields), row, domain, dtype)
    numbers, lowest = fields + int(row.lowest), int(row.lowest)
    if zeros is not None:
        numbers = numbers - (((np.asarray(zeros).astype(np.int64) - lowest) & (1 << row.bits) - 1) + lowest)
    return domain.from_integer(numbers, dtype)


def _floats(fields: Values, row: ElementType, domain: Domain, dtype: str) -> Values:
    """(-1)^sign · significand · 2^exponent (OCP 8-bit Floating Point Specification, "Encoding")."""
    stored = row.precision - 1  # bits of the significand without the hidden one
    exponents, fractions = fields >> stored & (1 << (row.bits - row.precision)) - 1, fields & (1 << stored) - 1
    significands = fractions + np.where(exponents > 0, 1 << stored, 0)
    units = significands << np.maximum(exponents, 1) - 1  # in units of the smallest positive number
    signed = np.where(fields >> (row.bits - 1), -units, units)
    one = domain.constant(1.0 / row.smallest, "f32")
    return domain.divide(domain.from_integer(signed, "f32"), one, dtype)
