"""The CUDA stream of a launch: the given one, or the current stream of the operands' library."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

from lowtide.errors import LaunchError
from lowtide.runtime import driver


def library_of(value: Any) -> str:
    """ "torch" or "cupy" if `value` is one of their arrays (or of a subclass), else ""."""
    for base in type(value).__mro__:
        library = base.__module__.partition(".")[0]
        if library in ("torch", "cupy"):
            return library
    return ""


def handle_of(stream: Any) -> int:
    """The CUstream handle of an int, a torch stream, a CuPy stream, or an object with `__cuda_stream__`.

    Raises LaunchError for anything else.
    """
    if isinstance(stream, int) and not isinstance(stream, bool):
        return stream
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        version, handle = protocol() if callable(protocol) else protocol
        if version != 0:
            raise LaunchError(
                f"stream: __cuda_stream__ version {version} is unknown, this is version 0; pass its handle"
                " [stream-version]"
            )
        return int(handle)
    for attribute in ("cuda_stream", "ptr"):
        handle = getattr(stream, attribute, None)
        if isinstance(handle, int):
            return handle
    raise LaunchError(
        f"stream: {type(stream).__name__} is not a CUDA stream; pass None, a handle (int), or an object with"
        f" .cuda_stream (torch), .ptr (CuPy) or __cuda_stream__ [stream-kind]"
    )


def stream_of(array: Any) -> int | None:
    """The current stream of the array's library on its GPU; None for arrays of other libraries."""
    library = library_of(array)
    if library == "torch" and array.device.type == "cuda":
        follow = current_stream(library, array.device.index)
    elif library == "cupy":
        follow = current_stream(library, array.device.id)
    else:
        return None
    return follow() if follow else None


def after_writers(context: int, writers: Sequence[int], stream: int | None) -> int:
    """The stream to launch in, after it waits for all writers: the given one, else the first in which an operand may
    still be written. Raises DeviceError."""
    handle = next(iter(writers), 0) if stream is None else stream
    for writer in writers:
        if _differ(writer, handle):
            with driver.active(context):
                driver.order_streams(writer, handle)
    return handle


def _differ(stream: int, other: int) -> bool:
    """Whether two handles are different streams; 0 and 1 are both the legacy default stream."""
    return (stream if stream > 1 else 0) != (other if other > 1 else 0)


def current_stream(library: str, device: int) -> Callable[[], int] | None:
    """A function that yields the library's current stream on GPU `device`; None for other libraries."""
    if library == "torch":
        torch = sys.modules["torch"]
        raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # takes a tenth of the time of current_stream()
        if raw is not None:
            return functools.partial(raw, device)
        return lambda: torch.cuda.current_stream(device).cuda_stream
    if library == "cupy":
        cupy = sys.modules["cupy"]
        return lambda: cupy.cuda.get_current_stream(device).ptr
    return None
