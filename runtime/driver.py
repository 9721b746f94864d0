"""The CUDA driver calls of the runtime, through cuda-python, with errors as exceptions.

Nothing here runs before the first call of a kernel. The bindings are imported then, or with `lt.matmul`.
Source: CUDA driver API reference 13, sections "Context Management", "Primary Context Management", "Memory Management",
"Driver Entry Point Access".
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from lowtide.errors import DeviceError

_WAY_OUT = "run it on a machine with an NVIDIA GPU, or on the CPU by `kernel.interpret(...)` or `lowtide interpret`"


@functools.cache
def api() -> ModuleType:
    """`cuda.bindings.driver`. Raises DeviceError if cuda-python is not installed."""
    try:
        return importlib.import_module("cuda.bindings.driver")
    except ImportError as error:
        raise DeviceError(
            f"cuda-python cannot be imported ({error}); launching a kernel needs cuda-python 13:"
            f" `pip install 'cuda-python>=13,<14'`, or {_WAY_OUT} [cuda-python]"
        ) from None


def import_bindings() -> None:
    """Import the bindings now if they are installed, which takes 20 ms."""
    with suppress(DeviceError):
        api()


def initialize() -> None:
    """Start the driver; cheap if it runs already. Raises DeviceError without a driver or GPU."""
    cuda = api()
    try:
        result = cuda.cuInit(0)
        count = (0, 0) if result[0] else cuda.cuDeviceGetCount()
    except RuntimeError as error:  # the bindings found no libcuda
        raise DeviceError(f"no NVIDIA driver is installed here ({error}); {_WAY_OUT} [no-driver]") from None
    if result[0]:
        raise DeviceError(f"the NVIDIA driver did not start: {describe(result[0])}; {_WAY_OUT} [driver-start]")
    if count[0] or count[1] == 0:
        raise DeviceError(f"the NVIDIA driver sees no GPU; {_WAY_OUT} [no-gpu]")


def check(result: tuple[Any, ...], what: str, error: type[Exception] = DeviceError) -> Any:
    """The value of a driver call, or `error` that says `what` failed and why."""
    if result[0]:
        raise error(f"{what} failed: {describe(result[0])} [driver-failed]")
    return result[1] if len(result) == 2 else result[1:]


def describe(code: Any) -> str:
    """A driver error as text."""
    cuda = api()
    name, text = cuda.cuGetErrorName(code), cuda.cuGetErrorString(code)
    known = not name[0] and not text[0]
    return f"{name[1].decode()} ({text[1].decode()})" if known else f"CUDA error {int(code)}"


def function_address(name: str, version: int) -> int:
    """The address of driver function `name` as of CUDA `version` (12000 is 12.0). Raises DeviceError if the driver is
    older."""
    needed = f"{name} of the NVIDIA driver, new in CUDA {version // 1000}.{version % 1000 // 10} (update the driver)"
    address, _ = check(api().cuGetProcAddress(name.encode(), version, 0), f"finding {needed}")
    if not address:
        raise DeviceError(f"finding {needed} failed: this driver lacks it [driver-function]")
    return int(address)


@dataclass(frozen=True)
class Device:
    """One GPU. `ordinal` counts the visible ones, as in torch and CuPy; shared memory is in bytes."""

    ordinal: int
    name: str
    capability: tuple[int, int]
    shared_memory: int  # maximum per CTA, static and dynamic, by opt-in
    sm_count: int


@functools.cache
def device(ordinal: int) -> Device:
    """The properties of GPU `ordinal`. Raises DeviceError if there is no such GPU."""
    cuda = api()
    initialize()
    handle = check(cuda.cuDeviceGet(ordinal), f"opening GPU {ordinal}")
    attribute = cuda.CUdevice_attribute

    def read(key: Any) -> int:
        return int(check(cuda.cuDeviceGetAttribute(key, handle), f"reading {key.name} of GPU {ordinal}"))

    raw = check(cuda.cuDeviceGetName(128, handle), f"reading the name of GPU {ordinal}")
    return Device(
        ordinal=ordinal,
        name=raw.split(b"\0")[0].decode(),
        capability=(
            read(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
            read(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
        ),
        shared_memory=read(attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
        sm_count=read(attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
    )


def current_device() -> Device:
    """The GPU of this thread's current context, else the first one. Raises DeviceError without a GPU or driver."""
    initialize()
    return device(int(check(api().cuCtxGetDevice(), "reading the current GPU")) if current_context() else 0)


def current_context() -> int:
    """The handle of this thread's current context, 0 if there is none."""
    return int(check(api().cuCtxGetCurrent(), "reading the current context"))


@functools.cache
def primary_context(ordinal: int) -> int:
    """The primary context of GPU `ordinal`, which torch and CuPy use; retained until the process ends."""
    cuda = api()
    handle = check(cuda.cuDeviceGet(ordinal), f"opening GPU {ordinal}")
    return int(check(cuda.cuDevicePrimaryCtxRetain(handle), f"opening the primary context of GPU {ordinal}"))


def context_of(ordinal: int) -> int:
    """The current context if it is on GPU `ordinal`, else that GPU's primary context."""
    current = current_context()
    if current and int(check(api().cuCtxGetDevice(), "reading the current GPU")) == ordinal:
        return current
    return primary_context(ordinal)


@contextmanager
def active(context: int) -> Iterator[None]:
    """Make `context` current in this thread for the block."""
    cuda = api()
    check(cuda.cuCtxPushCurrent(cuda.CUcontext(context)), "entering the GPU's context")
    try:
        yield
    finally:
        check(cuda.cuCtxPopCurrent(), "leaving the GPU's context")


def pointer_device(address: int) -> int | None:
    """The ordinal of the GPU that holds `address`; None for memory unknown to the driver."""
    cuda = api()
    initialize()
    error, ordinal = cuda.cuPointerGetAttribute(
        cuda.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, cuda.CUdeviceptr(address)
    )
    return None if error or int(ordinal) < 0 else int(ordinal)


def order_streams(first: int, then: int) -> None:
    """Let later work in stream `then` wait for all earlier work in stream `first`."""
    cuda = api()
    event = check(cuda.cuEventCreate(cuda.CUevent_flags.CU_EVENT_DISABLE_TIMING.value), "creating an event")
    try:
        check(cuda.cuEventRecord(event, cuda.CUstream(first)), "recording an event")
        check(cuda.cuStreamWaitEvent(cuda.CUstream(then), event, 0), "waiting for an event")
    finally:
        check(cuda.cuEventDestroy(event), "freeing an event")
