"""Launches as data: with the PTX text, everything that a run needs. Needs no MLIR, driver or numpy.

A record has the arrays in global memory before the first launch, and the launches in order. Addresses are unknown
until arrays are placed, so a pointer parameter names an array and an offset into it. The host function of a dump
(interpreter/host.py) and a saved kernel (runtime/records.py) make records; `lowtide.interpreter.run` runs one. Units
are bytes unless a name says elements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Extents: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True)
class Array:
    """An array with any number of dimensions, of an element type (a row of `elements`, or i8 to i64).

    `strides` are in elements, for all dimensions, or for all but the last, which is then contiguous; 0 if all indices
    share an element. `values` is an array of that shape for numpy, or None if nothing is written yet. The address is a
    multiple of 256 bytes, plus `misaligned`. `relocations` are pointers in the array, each at an offset in bytes.
    `per_cta`: it is scratch memory with so many bytes for each CTA; otherwise 0.
    """

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    values: Any = field(default=None, compare=False)
    misaligned: int = 0
    relocations: tuple[tuple[int, Pointer], ...] = ()
    per_cta: int = 0


@dataclass(frozen=True)
class Pointer:
    """The address `offset` bytes into an array."""

    array: str
    offset: int = 0


@dataclass(frozen=True)
class TensorMap:
    """A tensor at a pointer and the box of it that one TMA instruction copies, dimensions outermost first.

    `shape`, `strides` (of all dimensions but the last) and `box` are in elements; `swizzle` is the permuted span in
    bytes, 0 for none. Elements outside of the tensor read as zero.
    """

    at: Pointer
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0


@dataclass(frozen=True)
class Struct:
    """A struct by value: its bytes, in which `pointers` replace eight bytes at their offsets, and `maps` 128 bytes."""

    data: bytes
    pointers: tuple[tuple[int, Pointer], ...] = ()
    maps: tuple[tuple[int, TensorMap], ...] = ()


#: Parameters in the order of the kernel's `.param` list; the bytes of a scalar are little-endian, and those of a null
#: pointer are zero.
Parameter: TypeAlias = bytes | Pointer | Struct | TensorMap


@dataclass(frozen=True)
class Launch:
    """One launch: `grid` in CTAs, `block` in threads, `cluster` in CTAs; `shared_bytes` of dynamic shared memory.

    `programmatic`: it may start before the preceding kernels have ended. `cooperative`: all CTAs run at the same time.
    """

    kernel: str
    grid: Extents
    block: Extents
    parameters: tuple[Parameter, ...]
    cluster: Extents = (1, 1, 1)
    shared_bytes: int = 0
    programmatic: bool = False
    cooperative: bool = False


@dataclass(frozen=True)
class LaunchRecord:
    """Arrays by name, and the launches."""

    arrays: Mapping[str, Array]
    launches: tuple[Launch, ...]
