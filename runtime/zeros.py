"""GEMMs without a sum: if K is 0, A and B are read as zeros with K = 1, so that D = epilogue(0), as in BLAS.

So TMA and mainloops need no case for empty matrices. (If M or N is 0, D is empty and nothing is launched.)
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from lowtide.elements import element_type
from lowtide.runtime import driver
from lowtide.runtime.checks import pad_row
from lowtide.runtime.operands import Operand

_LEAST_BYTES = 1 << 16
_ROW_BYTES = 16  # rows of zeros begin at multiples of it, which no kernel has to copy first


class Zeros:
    """Zeros in GPU memory, kept until the process ends, since graphs and bound launches may read them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[int, tuple[int, int]] = {}  # context: (address, bytes) of the largest

    def address(self, size: int, context: int) -> int:
        """The address of at least `size` bytes of zeros in `context`. Raises DeviceError if memory cannot be allocated,
        as during a capture."""
        with self._lock:
            address, held = self._held.get(context, (0, 0))
            if held < size:
                held = max(_LEAST_BYTES, 1 << (size - 1).bit_length())
                with driver.active(context):
                    address = _allocate(held)
                self._held[context] = address, held
            return address


def _allocate(size: int) -> int:
    cuda = driver.api()
    what = f"getting {size} bytes of zeros for K = 0 (before a stream is captured, make such a call outside of it)"
    address = driver.check(cuda.cuMemAlloc(size), what)
    driver.check(cuda.cuMemsetD8(address, 0, size), what)
    driver.check(cuda.cuCtxSynchronize(), what)  # the launch may go to a stream that does not wait for this one
    return int(address)


def _is_of_k(dim: str) -> bool:
    """Whether a dimension counts elements of K, or blocks of it."""
    return dim.partition("/")[0] == "k"


def entry_of_zeros(argument: Mapping[str, Any], dims: Sequence[str]) -> dict[str, Any]:
    """A manifest entry for the extents of a call with K = 0: any extents, and the row alignment of the zeros of
    `with_zeros`, also for a tensor map with one row."""
    entry = {**argument, "shape": [None] * len(argument["shape"])}
    if any(map(_is_of_k, dims)):
        entry["row_stride_alignment"] = _alignment(argument)
    return entry


def _alignment(argument: Mapping[str, Any]) -> int:
    return max(_ROW_BYTES, argument.get("row_stride_alignment", 1))


def with_zeros(
    operands: Mapping[str, Operand],
    arguments: Sequence[Mapping[str, Any]],
    dims: Mapping[str, Sequence[str]],
    zeros: Zeros,
    device: int,
    context: int,
) -> dict[str, Operand]:
    """The operands with K = 0, replaced by zeros with K = 1; rows are aligned for all kernels.

    A kernel compiled for K = 0 takes them too: its code knows K only at run time (`#tile.problem`).
    """
    replaced = dict(operands)
    for argument in arguments:
        name = argument["name"]
        if not any(_is_of_k(dim) for dim in dims[name]):
            continue
        given = operands[name].shape
        letters = dims[name][len(dims[name]) - len(given) :]
        *batch, rows, columns = (1 if _is_of_k(dim) else x for dim, x in zip(letters, given, strict=True))
        row = pad_row(columns, argument["dtype"], _alignment(argument))
        address = zeros.address(rows * row * element_type(argument["dtype"]).bytes, context)
        shape, strides = (*batch, rows, columns), (*(0 for _ in batch), row, 1)
        replaced[name] = replace(operands[name], address=address, shape=shape, strides=strides, device=device)
    return replaced
