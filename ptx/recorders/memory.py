"""The memory that a launch can reach. It becomes the arrays of the record, and pointers into them.

A recorder gets addresses. `Memory` joins regions that overlap, such as two views of one tensor, and finds the array
that contains an address.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import LaunchError, NotInterpreted
from lowtide.interpreter.placing import Order
from lowtide.launches import Array, Pointer
from lowtide.ptx.dtypes import dtype_of

#: Copies bytes to the host: an address and a number of bytes give an array of u8.
Reader: TypeAlias = Callable[[int, int], NDArray[np.uint8]]

MOST_BYTES = 1 << 30
"""The most bytes of arrays that a recorder copies by default."""
_ALIGNMENT = 256  # bytes, of the arrays of a record
_POINTER = 8  # bytes
_BYTE = "u8"


@dataclass(frozen=True)
class Region:
    """An array in memory. `element` is its element type in a record, `strides` are in elements."""

    name: str
    address: int
    element: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    read: Reader = field(compare=False, repr=False)

    @classmethod
    def of_bytes(cls, name: str, address: int, size: int, read: Reader, element: str = _BYTE) -> Region:
        """`size` contiguous bytes, as elements of a type if `size` is a multiple of theirs, else as u8."""
        width = dtype_of(element).itemsize
        if size % width:
            element, width = _BYTE, 1
        return cls(name, address, element, (size // width,), (1,), read)

    @property
    def size(self) -> int:
        """The bytes from the first element to the end of the last."""
        if 0 in self.shape:
            return 0
        last = sum((side - 1) * stride for side, stride in zip(self.shape, self.strides, strict=True))
        return (last + 1) * dtype_of(self.element).itemsize

    @property
    def end(self) -> int:
        return self.address + self.size

    def placeable(self) -> Region:
        """This region, or its memory as contiguous elements if the interpreter does not support its strides."""
        try:
            Order.of(self.name, Array(self.element, self.shape, self.strides))
        except NotInterpreted:
            return Region.of_bytes(self.name, self.address, self.size, self.read, self.element)
        return self

    def values(self) -> NDArray[Any]:
        """A copy of its elements."""
        dtype = dtype_of(self.element)
        held = self.read(self.address, self.size).view(dtype)
        strides = [stride * dtype.itemsize for stride in self.strides]
        return np.lib.stride_tricks.as_strided(held, self.shape, strides).copy()

    def joined(self, other: Region) -> Region:
        """One contiguous region with the memory of this one and of `other`, which overlaps it and begins after it."""
        size = max(self.end, other.end) - self.address
        same = self.element == other.element and (other.address - self.address) % dtype_of(self.element).itemsize == 0
        element = self.element if same else _BYTE
        return Region.of_bytes(f"{self.name}+{other.name}", self.address, size, self.read, element)


class Memory:
    """Regions, joined where they overlap. Raises LaunchError if they have more than `most_bytes` bytes."""

    def __init__(self, regions: Sequence[Region], most_bytes: int = MOST_BYTES) -> None:
        self.regions = _named(list(_joined(regions)))
        total = sum(region.size for region in self.regions)
        if total > most_bytes:
            largest = max(self.regions, key=lambda region: region.size)
            raise LaunchError(
                f"the arrays of the launch have {total} bytes; the largest, {largest.name}, has {largest.size}; the "
                f"limit is {most_bytes}: record a smaller problem, pass the arrays behind the pointers as arrays=…, or "
                "raise most_bytes [recorded-bytes]"
            )

    def find(self, address: int) -> Pointer | None:
        """A pointer to an address in an array, or else to the address at the end of one; None if there is no array."""
        for inside in (True, False):
            for region in self.regions:
                if region.address <= address < region.end or (not inside and address == region.end):
                    return Pointer(region.name, address - region.address)
        return None

    def contents(self) -> dict[str, NDArray[Any]]:
        """The present values of all arrays, by name."""
        return {region.name: region.values() for region in self.regions}

    def arrays(self) -> dict[str, Array]:
        """The arrays for a record, with their present values. Integers that are addresses become pointers."""
        return {region.name: self._array(region, region.values()) for region in self.regions}

    def _array(self, region: Region, values: NDArray[Any]) -> Array:
        pointers = tuple(self._pointers(region, values))
        return Array(
            region.element, region.shape, region.strides, values, region.address % _ALIGNMENT, relocations=pointers
        )

    def _pointers(self, region: Region, values: NDArray[Any]) -> Iterator[tuple[int, Pointer]]:
        """Each address of a region that a dense array of integers contains, with its offset in bytes."""
        size = values.nbytes
        if region.element not in ("u8", "s8", "s32", "s64") or region.size != size or size % _POINTER or not size:
            return
        words = np.ascontiguousarray(values).reshape(-1).view(np.uint64)
        least, most = min(each.address for each in self.regions), max(each.end for each in self.regions)
        for at in np.flatnonzero((words >= np.uint64(least)) & (words < np.uint64(most))):
            if (found := self.find(int(words[at]))) is not None:
                yield int(at) * _POINTER, found


def _joined(regions: Sequence[Region]) -> Iterator[Region]:
    """The regions in the order of their addresses. Regions that overlap become one region."""
    current: Region | None = None
    for region in sorted(regions, key=lambda each: (each.address, -each.size)):
        if current is None or region.address >= current.end:
            if current is not None:
                yield current.placeable()
            current = region
        elif replace(region, name=current.name) != current:
            current = current.joined(region)
    if current is not None:
        yield current.placeable()


def _named(regions: list[Region]) -> list[Region]:
    """The regions with unique names."""
    taken: set[str] = set()
    found = []
    for region in regions:
        name = next(
            each
            for number in range(1, 2 + len(taken))
            if (each := region.name if number == 1 else f"{region.name}.{number}") not in taken
        )
        taken.add(name)
        found.append(replace(region, name=name))
    return found


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """The strides, in elements, of a contiguous array (last dimension fastest)."""
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
