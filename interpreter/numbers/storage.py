"""Elements in memory, and their values when they are loaded as a type.

Memory keeps integers without a sign. tf32 is stored as f32, and its last bits are cut off when it is read.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.elements import ELEMENTS, element_type
from lowtide.interpreter.numbers import integers

Values = NDArray[Any]

# For types that store more bits than are multiplied, by MLIR name: the type in memory, and the number of bits cut off.
_STORED: Mapping[str, str] = MappingProxyType(
    {row.ir: element_type(row.storage).ir for row in ELEMENTS.values() if row.storage is not None}
)
_CUT: Mapping[str, int] = MappingProxyType(
    {row.ir: row.bits_cut for row in ELEMENTS.values() if row.storage is not None}
)


def in_memory(name: str) -> str:
    """The type of an element in memory."""
    return _STORED.get(name) or integers.in_memory(name)


def loaded(payload: Values, name: str) -> Values:
    """The numbers of elements of a type, from memory."""
    return cut(payload, name) if name in _CUT else integers.loaded(payload, name)


stored = integers.stored


def is_cut(name: str) -> bool:
    """Whether bits of the type in memory are ignored."""
    return name in _CUT


def rounded(payload: Values, name: str) -> Values:
    """Numbers of the type in memory, rounded to the bits that are used, ties away from zero (PTX ISA, "cvt", .rna);
    integers of other domains are unchanged."""
    if payload.dtype.kind != "f":
        return payload
    bits = payload.astype(np.float32).view(np.uint32)
    half = np.uint32(1 << (_CUT[name] - 1))
    nearest = np.where(np.isfinite(payload), bits + half, bits).astype(np.uint32).view(np.float32)
    return np.where(np.isnan(payload), payload, cut(nearest, name))


def cut(payload: Values, name: str) -> Values:
    """Numbers of the type in memory without the ignored bits; integers of other domains are unchanged."""
    if payload.dtype.kind != "f":
        return payload
    mask = np.uint32(0xFFFFFFFF << _CUT[name] & 0xFFFFFFFF)
    return (payload.astype(np.float32).view(np.uint32) & mask).view(np.float32).astype(np.float64)
