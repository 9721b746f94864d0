"""The two GPUs of the litmus tests (run_peers.py): their memory and streams, and how the first one sends epochs."""

import ctypes
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from peer_kernels import STEP, THREADS, WORDS, pause, writes

os.environ["CUDA_MODULE_LOADING"] = "EAGER"  # a load may wait for the kernels that run
from cuda.bindings import driver

SMALL, LARGE = WORDS, 128 * WORDS  # words of an epoch: 8 KiB, 1 MiB
OF_KERNELS = 32 * WORDS
APART = 128  # bytes between the flags of CTAs
FLAGS = OF_KERNELS // WORDS * APART // 4  # words
SEEN = 8  # words


def done(result: tuple[Any, ...]) -> Any:
    """The values that a function of the driver returned after its status. Ends the program if that is an error."""
    if int(result[0]):
        raise SystemExit(f"the driver: {result[0]!s}")
    return result[1] if len(result) == 2 else result[1:]


class Kernel:
    """A kernel on a device. All launches use the same memory for parameters, which the driver copies at each launch."""

    def __init__(self, text: str, *types: type) -> None:
        self._module = done(driver.cuModuleLoadData(text.encode() + b"\0"))
        self._function = done(driver.cuModuleGetFunction(self._module, b"test"))
        self._values = [of() for of in types]
        self._pointers = (ctypes.c_void_p * len(types))(*(ctypes.addressof(each) for each in self._values))

    def __call__(self, stream: Any, grid: int, threads: int, *values: int) -> None:
        for held, value in zip(self._values, values, strict=True):
            held.value = value
        at = ctypes.addressof(self._pointers)
        done((*driver.cuLaunchKernel(self._function, grid, 1, 1, threads, 1, 1, 0, stream, at, 0), None))


class Device:
    """A GPU: its context, two streams, and memory."""

    def __init__(self, number: int) -> None:
        self.handle = done(driver.cuDeviceGet(number))
        self.context = done(driver.cuDevicePrimaryCtxRetain(self.handle))
        self.enter()
        self.stream, self.beside = (done(driver.cuStreamCreate(1)) for _ in range(2))
        self._event = done(driver.cuEventCreate(2))

    def enter(self) -> None:
        done((*driver.cuCtxSetCurrent(self.context), None))

    def memory(self, count: int, words: Any = None) -> int:
        """Allocates words: zeros, or copies of `words`. Returns the address."""
        pointer = done(driver.cuMemAlloc(4 * count))
        done((*driver.cuMemsetD8(pointer, 0, 4 * count), None))
        if words is not None:
            done((*driver.cuMemcpyHtoD(pointer, words, words.nbytes), None))
        return int(pointer)

    def order(self) -> None:
        """Later work in the second stream waits for earlier work in the first."""
        done((*driver.cuEventRecord(self._event, self.stream), None))
        done((*driver.cuStreamWaitEvent(self.beside, self._event, 0), None))

    def wait(self) -> None:
        self.enter()
        done((*driver.cuCtxSynchronize(), None))


class Pair:
    """Two GPUs. The second has the data, the flags and the counts `seen`. The first has the words of all epochs, and a
    flag that the second sets. Each has the numbers of the epochs, which are copied to flags."""

    def __init__(self, epochs: int) -> None:
        done((*driver.cuInit(0), None))
        self.epochs = epochs
        self.one, self.two = devices = Device(0), Device(1)
        self.name = _name(devices)
        for device, other in (devices, devices[::-1]):
            device.enter()
            done((*driver.cuCtxEnablePeerAccess(other.context, 0), None))
        numbers = np.arange(epochs + 1, dtype=np.uint32)
        self.two.enter()
        self.data, self.flags, self.seen = self.two.memory(LARGE), self.two.memory(FLAGS), self.two.memory(SEEN)
        self.numbers_two = self.two.memory(epochs + 1, numbers)
        self.one.enter()
        words = np.arange(STEP * epochs + LARGE, dtype=np.uint32)
        self.source = self.one.memory(len(words), words)
        self.numbers = self.one.memory(epochs + 1, numbers)
        self.made, self.back = self.one.memory(LARGE), self.one.memory(4)
        self._graphs: list[Any] = []  # a graph lives until it has run
        self.pause = Kernel(pause(), ctypes.c_uint)

    def clear(self) -> None:
        for device, places in ((self.one, [(self.back, 4), (self.made, LARGE)]), (self.two, self._places())):
            device.enter()
            for pointer, words in places:
                done((*driver.cuMemsetD8(pointer, 0, 4 * words), None))
            device.wait()

    def _places(self) -> list[tuple[int, int]]:
        return [(self.data, LARGE), (self.flags, FLAGS), (self.seen, SEEN)]

    def counts(self) -> list[int]:
        """The counts of `seen` (peer_kernels.py), once both GPUs have done all work."""
        self.one.wait()
        self.two.wait()
        held = np.zeros(4, np.uint64)
        done((*driver.cuMemcpyDtoH(held, self.seen, held.nbytes), None))
        return [int(each) for each in held]

    def flag(self, epoch: int, stream: Any) -> None:
        """The copy engine writes a flag, in the order of a stream."""
        done((*driver.cuMemcpyAsync(self.flags, self.numbers + 4 * epoch, 4, stream), None))

    def copy(self, epoch: int, words: int, stream: Any) -> None:
        done((*driver.cuMemcpyAsync(self.data, self.source + 4 * STEP * epoch, 4 * words, stream), None))

    @contextmanager
    def in_graph(self, used: bool) -> Iterator[None]:
        """If `used`, work that is enqueued in the first GPU's stream here becomes a CUDA graph, which runs once."""
        if not used:
            yield
            return
        relaxed = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        done((*driver.cuStreamBeginCapture(self.one.stream, relaxed), None))
        yield
        graph = done(driver.cuStreamEndCapture(self.one.stream))
        run = done(driver.cuGraphInstantiate(graph, 0))
        done((*driver.cuGraphLaunch(run, self.one.stream), None))
        self._graphs.append(run)


def _name(devices: Sequence[Device]) -> str:
    kind = driver.CUdevice_attribute
    for device, other in (devices, devices[::-1]):
        major = done(driver.cuDeviceGetAttribute(kind.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device.handle))
        if major != 9 or not done(driver.cuDeviceCanAccessPeer(device.handle, other.handle)):
            raise SystemExit("two GPUs of capability 9.0 that can access each other's memory are required")
    name: str = done(driver.cuDeviceGetName(100, devices[0].handle)).decode().strip("\0 ")
    return f"2 × {name}"


Send = Callable[[int], None]


def copies(pair: Pair, words: int, flag_first: bool = False) -> Send:
    """The copy engine copies the words of an epoch, and then its flag; `flag_first`: in the other order."""

    def send(epoch: int) -> None:
        if flag_first:
            pair.flag(epoch, pair.one.stream)
        pair.copy(epoch, words, pair.one.stream)
        if not flag_first:
            pair.flag(epoch, pair.one.stream)

    return send


def made(pair: Pair, words: int, ordered: bool = True) -> Send:
    """A kernel writes the words to the memory of its GPU. Another stream waits for it, if `ordered`, and copies words
    and flag to the peer."""
    kernel = Kernel(writes(), ctypes.c_uint64, ctypes.c_uint)

    def send(epoch: int) -> None:
        kernel(pair.one.stream, words // WORDS, THREADS, pair.made, epoch)
        if ordered:
            pair.one.order()
        done((*driver.cuMemcpyAsync(pair.data, pair.made, 4 * words, pair.one.beside), None))
        pair.flag(epoch, pair.one.beside)

    return send


def stores(pair: Pair, words: int, bulk: bool = False, flag_first: bool = False) -> Send:
    """A kernel stores the words in the memory of the peer, and then the copy engine writes the flag; `flag_first`: in
    the other order."""
    kernel = Kernel(writes(bulk), ctypes.c_uint64, ctypes.c_uint)

    def send(epoch: int) -> None:
        if flag_first:
            pair.flag(epoch, pair.one.stream)
        kernel(pair.one.stream, words // WORDS, THREADS, pair.data, epoch)
        if not flag_first:
            pair.flag(epoch, pair.one.stream)

    return send
