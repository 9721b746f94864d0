"""Workspaces: memory that the CTAs of a call's launches share, such as partial sums and counters.

Each kernel has a slot for each (context, stream). All its calls in that stream use the slot's buffers in turn; calls in
two streams never share one, because nothing orders them. Streams are identified by their id, which, unlike a handle, is
never reused. A `zeroed` workspace is zeroed when it is made; the launches leave it zero for the next call. A caller's
workspace is zeroed at each call, because it may have other uses.

A graph that is being captured owns its workspaces. Those that need not be zero come from the graph's own memory pool.
Zeroed ones are made once for all launches in one stream of the graph (`graph_memory`), so that replays need no memset.
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from lowtide.elements import element_type
from lowtide.errors import LaunchError
from lowtide.runtime import driver
from lowtide.runtime.graph_memory import GraphZeros, explained
from lowtide.runtime.operands import Operand

#: The alignment of workspaces in bytes.
ALIGNMENT = 256
#: The number of slots of a kernel that are kept, the most recently used ones.
_MOST_SLOTS = 64


@dataclass(frozen=True)
class WorkspaceShape:
    """A workspace of a host function: its element type, and whether it is zero when the first call begins."""

    dtype: str
    zeroed: bool


@dataclass(frozen=True)
class Need:
    """One workspace of a call."""

    size: int  # bytes
    zeroed: bool


@dataclass(frozen=True)
class Buffer:
    """Memory on the GPU; `owner` frees it with the last reference."""

    address: int
    size: int
    owner: Any


_EMPTY = Buffer(ALIGNMENT, 0, None)  # a workspace without elements: its address is never read


def needs_of(shapes: Sequence[WorkspaceShape], counts: Sequence[int]) -> tuple[Need, ...]:
    """The workspaces with their sizes; `counts` are their numbers of elements."""
    return tuple(
        Need(count * element_type(shape.dtype).bytes, shape.zeroed) for shape, count in zip(shapes, counts, strict=True)
    )


def offsets_of(needs: Sequence[Need]) -> tuple[list[int], int]:
    """The offset of each workspace in one block of memory, and the block's bytes."""
    offsets, end = [], 0
    for need in needs:
        offsets.append(end)
        end += -(-need.size // ALIGNMENT) * ALIGNMENT
    return offsets, end


def given_addresses(name: str, workspace: Operand, needs: Sequence[Need], device: int) -> list[int]:
    """The addresses of the workspaces in the caller's array. Raises LaunchError if it is too small, misaligned, on
    another GPU or not contiguous."""
    offsets, size = offsets_of(needs)
    width, count = element_type(workspace.dtype).bytes, 1
    for extent, stride in zip(reversed(workspace.shape), reversed(workspace.strides), strict=True):
        if extent > 1 and stride != count:
            raise LaunchError(
                f"kernel {name}: workspace= must be one piece of memory; pass a contiguous array [workspace-contiguous]"
            )
        count *= extent
    if count * width < size:
        raise LaunchError(
            f"kernel {name}: workspace= has {count * width} bytes, these operands need {size} (see workspace_bytes);"
            " pass as many, or none to have the runtime allocate them [workspace-bytes]"
        )
    if workspace.address % ALIGNMENT:
        raise LaunchError(
            f"kernel {name}: workspace= begins at {workspace.address:#x}, must begin at a multiple of {ALIGNMENT} bytes"
            f" and have {size} bytes from there [workspace-aligned]"
        )
    where = driver.pointer_device(workspace.address) if workspace.device is None else workspace.device
    if where != device:
        raise LaunchError(
            f"kernel {name}: workspace= is on GPU {where}, the operands are on GPU {device}; allocate it there"
            " [workspace-gpu]"
        )
    if workspace.read_only:
        raise LaunchError(f"kernel {name}: workspace= is read-only; pass a writable array [workspace-read-only]")
    return [workspace.address + offset for offset in offsets]


def zero(addresses: Sequence[int], needs: Sequence[Need], stream: int) -> None:
    """Zero the workspaces that must be zero, in order in `stream`. Raises LaunchError if the driver refuses."""
    cuda = driver.api()
    for address, need in zip(addresses, needs, strict=True):
        if need.zeroed and need.size:
            result = cuda.cuMemsetD8Async(address, 0, need.size, cuda.CUstream(stream))
            driver.check(result, f"zeroing a workspace of {need.size} bytes", LaunchError)


class Workspaces:
    """The workspaces of one kernel. Threads may share it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._slots: dict[tuple[int, int], dict[int, Buffer]] = {}  # the buffer for each workspace of a host function
        self._zeros = GraphZeros()

    def slot_of(self, stream: int) -> int | None:
        """The stream's id in the current context; None while it is captured. Raises LaunchError."""
        cuda = driver.api()
        handle = cuda.CUstream(stream)
        state = driver.check(cuda.cuStreamIsCapturing(handle), "asking whether the stream is captured", LaunchError)
        if int(state):
            return None
        return int(driver.check(cuda.cuStreamGetId(handle), "asking for the stream's id", LaunchError))

    def of_slot(self, needs: Sequence[Need], slot: int, stream: int, place: Place) -> list[Buffer]:
        """Buffers of at least these sizes; a slot that is too small gets larger ones. Raises LaunchError."""
        key = (place.context, slot)
        with self._lock:
            held = dict(self._slots.pop(key, {}))
            for number, need in enumerate(needs):
                if not need.size:
                    continue
                if number not in held or held[number].size < need.size:
                    held[number] = place.allocate(self._name, need.size, stream)
                    if need.zeroed:
                        zero([held[number].address], [Need(held[number].size, True)], stream)
            while len(self._slots) >= _MOST_SLOTS:
                del self._slots[next(iter(self._slots))]
            self._slots[key] = held
            return [held.get(number, _EMPTY) if need.size else _EMPTY for number, need in enumerate(needs)]

    def of_graph(self, needs: Sequence[Need], stream: int, place: Place) -> list[Buffer]:
        """Buffers of the graph that is being captured; release them with the launches. Raises LaunchError."""
        buffers = []
        for number, need in enumerate(needs):
            if not need.size:
                buffers.append(_EMPTY)
            elif need.zeroed:
                with explained(self._name, need.size):
                    address = self._zeros.address(number, need.size, stream)
                buffers.append(Buffer(address, need.size, None))
            else:
                buffers.append(place.allocate_in_graph(self._name, need.size, stream))
        return buffers


@dataclass(frozen=True)
class Place:
    """The source of workspaces: a context, its GPU, and the allocator of the operands' library."""

    context: int
    ordinal: int
    library: str  # "torch", "cupy" or ""

    def allocate(self, name: str, size: int, stream: int) -> Buffer:
        """At least `size` bytes, freed with the buffer. Raises LaunchError if there is not enough memory."""
        if self.library == "torch":
            return self._of_torch(name, size, stream)
        cuda = driver.api()
        with explained(name, size):
            address = int(driver.check(cuda.cuMemAlloc(max(size, 1)), "cuMemAlloc"))
        owner = _Owned()
        weakref.finalize(owner, _free, address, self.context).atexit = False
        return Buffer(address, size, owner)

    def allocate_in_graph(self, name: str, size: int, stream: int) -> Buffer:
        """As `allocate`, from memory that belongs to the graph that captures `stream`."""
        if self.library == "torch":
            return self._of_torch(name, size, stream)
        cuda = driver.api()
        with explained(name, size):
            address = int(driver.check(cuda.cuMemAllocAsync(max(size, 1), cuda.CUstream(stream)), "cuMemAllocAsync"))
        owner = _Owned()
        weakref.finalize(owner, cuda.cuMemFreeAsync, cuda.CUdeviceptr(address), cuda.CUstream(stream)).atexit = False
        return Buffer(address, size, owner)

    def _of_torch(self, name: str, size: int, stream: int) -> Buffer:
        """From torch's caching allocator, which uses the graph's pool while `stream` is captured."""
        torch = sys.modules["torch"]
        with explained(name, size), torch.cuda.stream(torch.cuda.ExternalStream(stream, device=self.ordinal)):
            held = torch.empty((max(size, 1),), dtype=torch.uint8, device=f"cuda:{self.ordinal}")
        return Buffer(held.data_ptr(), size, held)


class _Owned:
    """Memory that is freed with the last buffer that refers to it."""

    __slots__ = ("__weakref__",)


def _free(address: int, context: int) -> None:
    with driver.active(context):
        driver.api().cuMemFree(address)  # waits for the launches that use it
