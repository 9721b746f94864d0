"""Outputs allocated by the library of the inputs, from the pool of the launch's stream.

Libraries reuse freed memory in stream order, so memory taken for one stream must not be written from another.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from lowtide.elements import element_type
from lowtide.errors import LaunchError
from lowtide.runtime.checks import pad_row


def allocate(like: Any, library: str, shape: tuple[int, ...], dtype: str, alignment: int, stream: int | None) -> Any:
    """An uninitialised (rows, columns) array, or a batch of them, like `like`; its strides are multiples of
    `alignment`.

    `stream` is the launch's; None means the library's current one. Raises LaunchError for libraries other than torch
    and CuPy, and for dtypes that the library lacks.
    """
    *outer, columns = shape
    padded = pad_row(columns, dtype, alignment)
    makers: dict[str, Callable[..., Any]] = {"torch": _torch_empty, "cupy": _cupy_empty}
    if library not in makers:
        raise LaunchError(
            f"out: cannot allocate the output as {type(like).__name__}, only as a torch or CuPy array;"
            f" pass out= with shape {shape}, dtype {dtype} and rows of {padded} elements [output-library]"
        )
    whole = makers[library](like, (*outer, padded), dtype, stream)
    return whole if padded == columns else whole[..., :columns]


def torch_allocator(like: Any, shape: tuple[int, ...], dtype: str, alignment: int) -> Callable[[], Any]:
    """The function that allocates such torch tensors in the current stream; everything else is computed here."""
    torch = sys.modules["torch"]
    *outer, columns = shape
    padded = pad_row(columns, dtype, alignment)
    kind = getattr(torch, element_type(dtype).library)
    make = functools.partial(torch.empty, (*outer, padded), dtype=kind, device=like.device)
    return make if padded == columns else lambda: make()[..., :columns]


def _torch_empty(like: Any, shape: tuple[int, ...], dtype: str, stream: int | None) -> Any:
    torch = sys.modules["torch"]
    context: AbstractContextManager[Any] = nullcontext()
    if stream is not None:
        context = torch.cuda.stream(torch.cuda.ExternalStream(stream, device=like.device))
    with context:
        return torch.empty(shape, dtype=getattr(torch, element_type(dtype).library), device=like.device)


def _cupy_empty(like: Any, shape: tuple[int, ...], dtype: str, stream: int | None) -> Any:
    cupy = sys.modules["cupy"]
    kind = getattr(cupy, element_type(dtype).library, None)
    if kind is None:
        raise LaunchError(
            f"out: CuPy has no {dtype}; pass out= with such an array of another library, by DLPack [cupy-dtype]"
        )
    context: AbstractContextManager[Any] = nullcontext() if stream is None else cupy.cuda.ExternalStream(stream)
    with cupy.cuda.Device(like.device.id), context:
        return cupy.empty(shape, dtype=kind)
