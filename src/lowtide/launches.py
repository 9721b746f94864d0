"""Launches as data: with the text of PTX, all that a run needs. Knows no MLIR, no driver and no numpy of its own.

A record has the arrays in global memory before the first launch, and the launches in order. Addresses are not known
before arrays are placed, so that a parameter that points says where: into which array, and how far. The host function
of a dump (interpreter/host.py) and a saved kernel (runtime/records.py) make records; `lowtide.interpreter.run` runs
one. Units: bytes, where a name does not say elements.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

Extents: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True)
class Array:
    """An array of elements of a type (a row of `elements`, or i8 to i64) with up to three dimensions.

    `strides` are in elements, of all dimensions but the last, which is contiguous. `values` is what numpy reads, of
    that shape; None where nothing is written yet. The address is a multiple of 256 bytes, plus `misaligned`.
    """

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    values: Any = field(default=None, compare=False)
    misaligned: int = 0


@dataclass(frozen=True)
class Pointer:
    """The address `offset` bytes into an array."""

    array: str
    offset: int = 0


@dataclass(frozen=True)
class TensorMap:
    """A tensor at a pointer and the box of it that one TMA instruction copies, dimensions outermost first.

    `shape`, `strides` (of all dimensions but the last) and `box` are in elements; `swizzle` is the span of bytes that
    is permuted, 0 without. Elements outside of the tensor read as zero.
    """

    at: Pointer
    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int = 0


#: In the order of the kernel's `.param` list; bytes are those of a scalar, the lowest first.
Parameter: TypeAlias = bytes | Pointer | TensorMap


@dataclass(frozen=True)
class Launch:
    """One launch: `grid` in CTAs, `block` in threads, `cluster` in CTAs; `shared_bytes` of dynamic shared memory.

    `programmatic`: it may start before the kernels before it have ended. `cooperative`: all CTAs run at the same time.
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
