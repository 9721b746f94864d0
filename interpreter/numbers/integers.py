"""Integers, which have the same values in every number domain: exact, and modulo 2^bits as in hardware.

Memory keeps bits: a byte that was written as si8 may be read as ui8, or as the i8 of a register. Its payload is the
signed number. In registers, integers are numpy arrays of their own types, by the MLIR names in `INTEGERS`.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[Any]

_SIZES = (8, 16, 32, 64)
UNWRITTEN = 83
"""The number that wgmma reads of bytes that were never written."""
INTEGERS: Mapping[str, np.dtype[Any]] = MappingProxyType(
    {f"{sign}i{bits}": np.dtype(f"{'u' if sign == 'u' else ''}int{bits}") for bits in _SIZES for sign in ("", "s", "u")}
)
_SIGNED: Mapping[str, np.dtype[Any]] = MappingProxyType(
    {name: np.dtype(f"i{dtype.itemsize}") for name, dtype in INTEGERS.items()}
)


def in_memory(name: str) -> str:
    """The type of an element in memory: a signless integer."""
    return f"i{8 * INTEGERS[name].itemsize}" if name in INTEGERS else name


def loaded(payload: Values, name: str) -> Values:
    """The numbers of elements of a type, from memory."""
    if name not in INTEGERS:
        return payload
    return payload.astype(_SIGNED[name]).view(INTEGERS[name])


def stored(values: Any, name: str) -> Any:
    """The payload in memory of numbers of a type."""
    if name not in INTEGERS or INTEGERS[name].kind != "u":
        return values
    return np.asarray(values).astype(INTEGERS[name]).view(_SIGNED[name])


def wrapped(values: Values, name: str) -> Values:
    """64-bit integers wrapped to a type, modulo 2^bits."""
    return values.astype(np.int64).astype(INTEGERS[name])


def dot(a: Values, b: Values, c: Values, name: str) -> Values:
    """c + a · bᵀ as `Domain.dot`, for operands of at most 16 bits: exact, then modulo 2^bits (PTX ISA, "mma", without
    .satfinite)."""
    product = a.astype(np.float64) @ b.swapaxes(-1, -2).astype(np.float64)  # below 2^53
    return wrapped(product.astype(np.int64) + c.astype(np.int64), name)
