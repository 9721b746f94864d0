"""The bytes of a kernel's parameters, from the `kernelParams` of cuda-python."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from lowtide.errors import LaunchError

_WORD = 8  # bytes of an address


def bytes_at(address: int, size: int) -> bytes:
    """Bytes of the process's own memory."""
    return ctypes.string_at(address, size)


def parameter_bytes(given: Any, sizes: Sequence[int]) -> list[bytes]:
    """The bytes of each parameter. `sizes`: the sizes in bytes that the kernel declares.

    `given` is None, the address of an array of addresses, an object whose buffer is such an array, or a tuple of two
    tuples: the values and their ctypes types. The type None means that the value is a structure, an enum or an object
    with `getPtr`. Raises LaunchError if `given` is anything else, or does not match `sizes`.
    """
    if isinstance(given, tuple) and len(given) == 2 and all(isinstance(each, tuple) for each in given):
        values, types = given
        if len(values) != len(types) or len(values) != len(sizes):
            raise LaunchError(
                f"{len(values)} values and {len(types)} types; the kernel takes {len(sizes)} parameters"
                " [driver-parameters]"
            )
        return [_value(value, kind, size) for value, kind, size in zip(values, types, sizes, strict=True)]
    if given is None or isinstance(given, int):
        address = int(given or 0)
    else:
        try:
            address = int(np.frombuffer(given, np.uint8).__array_interface__["data"][0])
        except (TypeError, ValueError, BufferError) as error:
            raise LaunchError(
                f"kernelParams: {error}; pass a tuple of values and a tuple of types [driver-buffer]"
            ) from None
    if sizes and not address:
        raise LaunchError(f"no parameters are given; the kernel takes {len(sizes)}: pass them [driver-none]")
    places = [int.from_bytes(bytes_at(address + _WORD * at, _WORD), "little") for at in range(len(sizes))]
    return [bytes_at(place, size) for place, size in zip(places, sizes, strict=True)]


def _value(value: Any, kind: Any, size: int) -> bytes:
    """The bytes of a value of a type of ctypes."""
    if kind is None:
        if callable(getattr(value, "getPtr", None)):
            return bytes_at(value.getPtr(), size)
        if isinstance(value, ctypes.Structure):
            data = bytes(value)
        else:
            data = int(value.value).to_bytes(4, "little", signed=True)  # an enum
    elif kind is ctypes.c_void_p and callable(getattr(value, "getPtr", None)):
        data = int(value.getPtr()).to_bytes(_WORD, "little")
    else:
        plain = value.item() if isinstance(value, np.generic) else getattr(value, "value", value)
        data = bytes(value if isinstance(value, kind) else kind(plain))
    if len(data) < size:
        raise LaunchError(f"a value has {len(data)} bytes, its parameter {size}; pass a wider type [driver-value]")
    return data[:size]
