"""The memory of a launch's arguments, in the form that cuLaunchKernelEx reads: an array of pointers, one per argument.

The layout is made once for a plan, a block for each set of values. Blocks are immutable, so that several threads may
launch from one; the driver copies the arguments during the launch.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from lowtide.elements import argument_type
from lowtide.errors import LaunchError
from lowtide.runtime.dtypes import round_to, to_bits
from lowtide.runtime.tensor_map_encoder import TENSOR_MAP_ALIGNMENT
from lowtide.runtime.tensor_maps import TENSOR_MAP, TENSOR_MAP_BYTES, TensorMap

_SLOT = 8  # bytes of an argument other than a tensor map; the driver reads each at its own size
_POINTER = "ptr"
# struct's format of elements by typestr; other elements are packed as bits.
_STRUCT = {"i8": "q", "i4": "i", "f4": "f", "f8": "d", "f2": "e"}
_STRUCT_BITS = {1: "B", 2: "H"}


class ArgumentBlock:
    """The arguments of one launch; `address` is the address of the array of pointers to them."""

    __slots__ = ("address", "storage")

    def __init__(self, storage: Any, address: int) -> None:
        self.storage = storage
        self.address = address


class ArgumentLayout:
    """The places of arguments of the given types in a block: tensor maps first, then the others, then the pointers."""

    def __init__(self, types: Sequence[str]) -> None:
        self.types = tuple(types)
        self._plain = [i for i, kind in enumerate(types) if kind != TENSOR_MAP]
        self._maps = [i for i, kind in enumerate(types) if kind == TENSOR_MAP]
        self._as_bits = [i for i in self._plain if types[i] != _POINTER and argument_type(types[i]).typestr is None]
        slots = TENSOR_MAP_BYTES * len(self._maps)
        self._pointers = slots + _SLOT * len(self._plain)
        offsets = {i: TENSOR_MAP_BYTES * position for position, i in enumerate(self._maps)}
        offsets |= {i: slots + _SLOT * position for position, i in enumerate(self._plain)}
        self._offsets = [offsets[i] for i in range(len(types))]
        packing = "".join(_packing(types[i]) for i in self._plain)
        self._struct = struct.Struct(f"<{f'{TENSOR_MAP_BYTES}s' * len(self._maps)}{packing}{'Q' * len(types)}")
        self._memory = ctypes.c_char * (self._struct.size + TENSOR_MAP_ALIGNMENT)

    def fill(self, values: Sequence[Any], encode: Callable[[TensorMap], bytes]) -> ArgumentBlock:
        """A new block with these values; `encode` gives the bytes of a tensor map. Raises LaunchError for a value that
        its type cannot hold, and the errors of `encode`."""
        maps = [encode(values[i]) for i in self._maps] if self._maps else ()
        storage = self._memory()
        base = ctypes.addressof(storage)
        start = -base % TENSOR_MAP_ALIGNMENT
        base += start
        try:
            if self._as_bits:
                values = [_bits(x, self.types[i]) if i in self._as_bits else x for i, x in enumerate(values)]
            plain = [values[i] for i in self._plain] if maps else values
            self._struct.pack_into(storage, start, *maps, *plain, *[base + offset for offset in self._offsets])
        except (struct.error, OverflowError) as error:
            shown = ", ".join(f"{values[i]}: {self.types[i]}" for i in self._plain)
            raise LaunchError(
                f"the launch arguments ({shown}) do not fit their types ({error}) [argument-fits]"
            ) from None
        return ArgumentBlock(storage, base + self._pointers)


def _packing(kind: str) -> str:
    """struct's format of a slot for one argument."""
    if kind == _POINTER:
        return "Q"
    row = argument_type(kind)
    code = _STRUCT_BITS[row.bytes] if row.typestr is None else _STRUCT[row.typestr]
    return f"{code}{_SLOT - row.bytes}x"


def _bits(value: float, kind: str) -> int:
    if math.isfinite(value) and not math.isfinite(round_to(value, kind)):
        raise OverflowError(f"float too large for {kind}")
    return int(to_bits(np.float64(value), kind))
