"""Zeros in GPU memory that belong to a graph while it is captured, and live as long as the graph.

They are zeroed during the capture, but not as a part of it. When the last graph made from the capture is destroyed, the
driver calls a destructor: sem_post of the C library, because the driver's thread must not run Python, which may be
exiting. Memory whose semaphore was posted is reused.

Sources: CUDA driver API reference 13, "Graph Management" (user objects), cuThreadExchangeStreamCaptureMode.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from lowtide.errors import DeviceError, LaunchError
from lowtide.runtime import driver

_SEMAPHORE_BYTES = 64  # sem_t has 32 at most
_LEAST_BYTES = 256


@dataclass(frozen=True)
class _Block:
    """Memory of one graph. `key`: context, capture, stream, number of the workspace."""

    address: int
    size: int
    semaphore: int
    key: tuple[int, int, int, int]


class GraphZeros:
    """The zeroed workspaces of one kernel in captured graphs. Threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._blocks: list[_Block] = []
        self._free: list[_Block] = []

    def address(self, number: int, size: int, stream: int) -> int:
        """Zeros of at least `size` bytes for workspace `number` of the launches that `stream` captures.

        Launches in one stream of a capture share them, as launches in one stream do. Raises LaunchError and
        DeviceError.
        """
        cuda = driver.api()
        handle = cuda.CUstream(stream)
        _, capture, graph, *_ = driver.check(
            cuda.cuStreamGetCaptureInfo(handle), "asking which graph is captured", LaunchError
        )
        key = (driver.current_context(), int(capture), stream, number)
        with self._lock, _beside_the_capture():
            self._collect()
            for block in self._blocks:
                if block.key == key and block.size >= size:
                    return block.address
            block = self._take(key, max(size, _LEAST_BYTES))
            _zero(block)
            _give_to(graph, block)
            self._blocks.append(block)
            return block.address

    def _collect(self) -> None:
        """Move the blocks of destroyed graphs to the free blocks."""
        ended = [block for block in self._blocks if _is_posted(block.semaphore)]
        self._blocks = [block for block in self._blocks if block not in ended]
        self._free += ended

    def _take(self, key: tuple[int, int, int, int], size: int) -> _Block:
        """A free block of the context that is large enough, or a new one."""
        for block in self._free:
            if block.key[0] == key[0] and block.size >= size:
                self._free.remove(block)
                return replace(block, key=key, semaphore=_new_semaphore())
        address = driver.check(driver.api().cuMemAlloc(size), f"getting {size} bytes for a graph")
        return _Block(int(address), size, _new_semaphore(), key)


def _give_to(graph: Any, block: _Block) -> None:
    """Let the graph, and its instances, hold the block."""
    cuda = driver.api()
    destructor = cuda.CUhostFn(_pointer_to("sem_post"))
    holder = driver.check(
        cuda.cuUserObjectCreate(
            block.semaphore, destructor, 1, cuda.CUuserObject_flags.CU_USER_OBJECT_NO_DESTRUCTOR_SYNC.value
        ),
        "making an object of a graph",
    )
    move = cuda.CUuserObjectRetain_flags.CU_GRAPH_USER_OBJECT_MOVE.value
    driver.check(cuda.cuGraphRetainUserObject(graph, holder, 1, move), "giving memory to a graph")


def _zero(block: _Block) -> None:
    """Zero the block at once, in a separate stream: the captured one only records, and the default one may be
    forbidden."""
    cuda = driver.api()
    what = f"zeroing {block.size} bytes for a graph"
    stream = driver.check(cuda.cuStreamCreate(cuda.CUstream_flags.CU_STREAM_NON_BLOCKING.value), what)
    try:
        driver.check(cuda.cuMemsetD8Async(block.address, 0, block.size, stream), what)
        driver.check(cuda.cuStreamSynchronize(stream), what)
    finally:
        driver.check(cuda.cuStreamDestroy(stream), what)


@contextmanager
def _beside_the_capture() -> Iterator[None]:
    """Allow this thread to allocate while it captures."""
    cuda = driver.api()
    relaxed = cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    before = driver.check(cuda.cuThreadExchangeStreamCaptureMode(relaxed), "leaving the capture's mode")
    try:
        yield
    finally:
        driver.check(cuda.cuThreadExchangeStreamCaptureMode(before), "entering the capture's mode")


@contextmanager
def explained(name: str, size: int) -> Iterator[None]:
    """Turn a refused allocation into a LaunchError that says what the memory was for."""
    try:
        yield
    except (DeviceError, RuntimeError) as error:
        raise LaunchError(
            f"kernel {name}: a workspace of {size} bytes cannot be allocated ({error}); free memory, pass workspace=,"
            " or compile without division of K (grid.k_division = none) [workspace-memory]"
        ) from None


def _library() -> ctypes.CDLL:
    return ctypes.CDLL(None)


def _pointer_to(function: str) -> int:
    return ctypes.cast(getattr(_library(), function), ctypes.c_void_p).value or 0


def _new_semaphore() -> int:
    """The address of a semaphore of value 0, which is never freed, because a graph may outlive the interpreter."""
    library = _library()
    library.malloc.restype = ctypes.c_void_p
    address = int(library.malloc(ctypes.c_size_t(_SEMAPHORE_BYTES)))
    library.sem_init(ctypes.c_void_p(address), 0, 0)
    return address


def _is_posted(semaphore: int) -> bool:
    value = ctypes.c_int()
    _library().sem_getvalue(ctypes.c_void_p(semaphore), ctypes.byref(value))
    return value.value > 0
