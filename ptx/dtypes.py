"""Element types of arrays, by numpy's names and those of other compilers, as records of launches name them."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import ml_dtypes  # noqa: F401 - registers the types that numpy lacks
import numpy as np
from numpy.typing import NDArray

from lowtide.elements import ELEMENTS
from lowtide.errors import LaunchError

_SIGNED = {f"{kind}{bits}": f"s{bits}" for bits in (8, 16, 32, 64) for kind in ("i", "int", "u", "uint", "s")}
_OTHERS = {
    "bool": "s8",
    "i1": "s8",
    "u8": "u8",
    "uint8": "u8",
    "fp8e4nv": "e4m3",
    "fp8e5": "e5m2",
    "f8e4m3": "e4m3",
    "f8e4m3fn": "e4m3",
    "e4m3fn": "e4m3",
    "f8e5m2": "e5m2",
    "float8_e4m3": "e4m3",
}
_FLOATS = {row.library: row.name for row in ELEMENTS.values() if row.is_float and row.storage is None}
_NAMES: Mapping[str, str] = MappingProxyType(
    {
        **_SIGNED,
        **_OTHERS,
        **_FLOATS,
        **{each: row.name for row in ELEMENTS.values() if row.is_float for each in (row.name, *row.aliases)},
    }
)
_LIBRARY: Mapping[str, Any] = MappingProxyType(
    {row.name: np.dtype(row.library) for row in ELEMENTS.values() if row.bits >= 8}
)
_SWIZZLES: Mapping[Any, int] = MappingProxyType(
    {
        **{span: span for span in (0, 32, 64, 128)},
        **{f"{span}B": span for span in (32, 64, 128)},
        **{f"{span}b": span for span in (32, 64, 128)},
        "none": 0,
        None: 0,
    }
)


def element_of(name: str, what: str) -> str:
    """The element type that a record has for a name. Integers have no sign in memory."""
    found = _NAMES.get(name)
    if found is None:
        known = ", ".join(sorted(set(_NAMES.values())))
        raise LaunchError(
            f"{what}: elements of type {name} are not interpreted; known are {known}, also by their names in numpy, "
            "torch and Triton [ptx-array-element]"
        )
    return found


def dtype_of(element: str) -> np.dtype[Any]:
    """The numpy (or ml_dtypes) type of an element type of a record."""
    found: np.dtype[Any] = _LIBRARY[element]
    return found


def in_record(values: NDArray[Any] | None, dtype: np.dtype[Any], what: str) -> tuple[str, NDArray[Any] | None]:
    """The element type and the values of an array as a record has them."""
    element = element_of(dtype.name, what)
    return element, None if values is None else as_element(values, element, what)


def as_element(values: NDArray[Any], element: str, what: str) -> NDArray[Any]:
    """An array whose bytes are elements of a type, as an array of that type: integers with or without a sign, and
    types that numpy lacks, such as bf16, in integers of their bits. Raises LaunchError for another type; `what` is the
    array."""
    wanted = dtype_of(element)
    native = values.astype(values.dtype.newbyteorder("="), copy=False)
    if native.dtype == wanted:
        return native
    is_bits = wanted.kind in "iuV" and native.dtype.kind in "iubV"
    if native.dtype.itemsize != wanted.itemsize or not is_bits:
        raise LaunchError(
            f"{what} has elements of {native.dtype.name}; elements of {element} are expected [ptx-element-bytes]"
        )
    return np.ascontiguousarray(native).view(wanted).reshape(native.shape)


def swizzle_of(swizzle: Any, what: str) -> int:
    """The bytes over which a tensor map's swizzle permutes."""
    found = _SWIZZLES.get(swizzle if isinstance(swizzle, int | str | None) else "")
    if found is None:
        raise LaunchError(f"{what}: swizzle {swizzle!r}; take 0, 32, 64 or 128 bytes [ptx-swizzle]")
    return found
