"""What memory keeps of elements, and what a load as some type makes of it.

Integers are kept without their sign. tf32 lies in memory as f32, and its last bits are cut off as it is read.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.elements import ELEMENTS, element_type
from lowtide.interpreter.numbers import integers

Values = NDArray[Any]

# By MLIR names, of types of which more bits are stored than are multiplied: the type in memory, and the bits cut off.
_STORED: Mapping[str, str] = MappingProxyType(
    {row.ir: element_type(row.storage).ir for row in ELEMENTS.values() if row.storage is not None}
)
_CUT: Mapping[str, int] = MappingProxyType(
    {row.ir: row.bits_cut for row in ELEMENTS.values() if row.storage is not None}
)


def in_memory(name: str) -> str:
    """The type that memory says of an element of a type."""
    return _STORED.get(name) or integers.in_memory(name)


def loaded(payload: Values, name: str) -> Values:
    """What memory keeps of elements of a type, as its numbers."""
    return cut(payload, name) if name in _CUT else integers.loaded(payload, name)


stored = integers.stored


def is_cut(name: str) -> bool:
    """Whether bits of what lies in memory are not looked at."""
    return name in _CUT


def rounded(payload: Values, name: str) -> Values:
    """Numbers of the type in memory, rounded to the bits that are looked at, ties away from zero (PTX ISA, "cvt",
    .rna); integers of other domains stay."""
    if payload.dtype.kind != "f":
        return payload
    bits = payload.astype(np.float32).view(np.uint32)
    half = np.uint32(1 << (_CUT[name] - 1))
    nearest = np.where(np.isfinite(payload), bits + half, bits).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(payload), payload, cut(nearest, name))


def cut(payload: Values, name: str) -> Values:
    """Numbers of the type in memory without the bits that are not looked at; integers of other domains stay."""
    if payload.dtype.kind != "f":
        return payload
    mask = np.uint32(0xFFFFFFFF << _CUT[name] & 0xFFFFFFFF)
    return (payload.astype(np.float32).view(np.uint32) & mask).view(np.float32).astype(np.float64)
