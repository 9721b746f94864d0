"""The energy of a launch, by the counter of the GPU: joules since the driver was loaded, as NVML reports them.

The counter moves about every 100 ms. So a measurement goes from one of its ticks to another, at least two seconds
later, while the GPU runs the same launches without a gap. CUDA events give the launches per second in this time. The
energy is that of the whole card, with its idle power.

Source: NVML API reference, "nvmlDeviceGetTotalEnergyConsumption" (in mJ; Volta or later), "nvmlReturn_t".
"""

import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from lowtide.errors import DeviceError
from lowtide.measurement.bench.gpu_timing import estimate_ms, torch_with_gpu
from lowtide.runtime import driver

LEAST_SECONDS, WARM_SECONDS = 2.0, 0.6
_MOST_SECONDS = 10.0  # the longest wait for a tick
_CHUNK_MS, _IN_FLIGHT = 20.0, 3
_NVML = "libnvidia-ml.so.1"

Clock = Callable[[], float]


class Counter(Protocol):
    """A counter of energy."""

    def joules(self) -> float:
        """The energy so far, in joules, from any start."""


class Load(Protocol):
    """Launches that keep the GPU busy, in chunks."""

    launches: int
    """The number of launches in a chunk."""

    def feed(self) -> None:
        """Enqueue chunks if few are left. Does not wait."""

    def done(self) -> int:
        """The number of chunks that have ended."""

    def seconds(self, first: int, last: int) -> float:
        """The time from the end of a chunk to the end of another one; both have ended."""

    def finish(self) -> None:
        """Wait until all chunks have ended."""


@dataclass(frozen=True)
class Energy:
    """`joules` and `seconds` of a launch. `watts`: the mean power of the card."""

    joules: float
    seconds: float

    @property
    def watts(self) -> float:
        return self.joules / self.seconds


class NvmlCounter:
    """The counter of the current GPU. Raises DeviceError if NVML, or the counter, is missing.

    NVML is called by its C functions: cuda-python has them only from 13.2 on.
    """

    def __init__(self) -> None:
        bus, self._handle = _pci_bus_id(), ctypes.c_void_p()
        try:
            self._nvml = ctypes.CDLL(_NVML)
        except OSError as error:
            raise _missing(str(error)) from None
        self._call("nvmlInit_v2")
        self._call("nvmlDeviceGetHandleByPciBusId_v2", ctypes.c_char_p(bus), ctypes.byref(self._handle))
        self.joules()

    def joules(self) -> float:
        """The energy since the driver was loaded, in joules."""
        millijoules = ctypes.c_ulonglong()
        self._call("nvmlDeviceGetTotalEnergyConsumption", self._handle, ctypes.byref(millijoules))
        return millijoules.value / 1e3

    def _call(self, name: str, *arguments: Any) -> None:
        function = getattr(self._nvml, name, None)
        status = "NVML lacks it" if function is None else function(*arguments)
        if status:
            raise _missing(f"{name}: {status}")


def _missing(why: str) -> DeviceError:
    return DeviceError(
        f"the energy of this GPU cannot be read by NVML ({why}); it needs NVIDIA's driver and a GPU of the Volta "
        "generation or later; measure time instead [energy-counter]"
    )


def _pci_bus_id() -> bytes:
    """The PCI bus id of the current GPU. NVML numbers also GPUs that CUDA does not see, so their numbers may differ."""
    cuda, ordinal = driver.api(), driver.current_device().ordinal
    handle = driver.check(cuda.cuDeviceGet(ordinal), f"opening GPU {ordinal}")
    raw = driver.check(cuda.cuDeviceGetPCIBusId(32, handle), f"reading the bus of GPU {ordinal}")
    return bytes(raw.split(b"\0")[0])


class GraphLoad:
    """Replays of a CUDA graph that has `launches` launches."""

    def __init__(self, graph: Any, launches: int) -> None:
        self._torch, self._graph = torch_with_gpu(), graph
        self._replays = max(1, round(_CHUNK_MS / estimate_ms(graph)))
        self.launches = self._replays * launches
        self._events: list[Any] = []
        self._done = 0

    def feed(self) -> None:
        """See `Load`."""
        while len(self._events) - self.done() < _IN_FLIGHT:
            for _ in range(self._replays):
                self._graph.replay()
            event = self._torch.cuda.Event(enable_timing=True)
            event.record()
            self._events.append(event)

    def done(self) -> int:
        """See `Load`."""
        while self._done < len(self._events) and self._events[self._done].query():
            self._done += 1
        return self._done

    def seconds(self, first: int, last: int) -> float:
        """See `Load`."""
        return float(self._events[first - 1].elapsed_time(self._events[last - 1])) / 1e3

    def finish(self) -> None:
        """See `Load`."""
        self._torch.cuda.synchronize()


def measure(
    load: Load,
    counter: Counter,
    least_seconds: float = LEAST_SECONDS,
    warm_seconds: float = WARM_SECONDS,
    clock: Clock = time.monotonic,
) -> Energy:
    """The energy of a launch, from the first tick after `warm_seconds` to the first one at least `least_seconds` later.
    Raises DeviceError if the counter does not move, or if no chunk ends between the ticks."""
    try:
        begun = clock()
        while clock() - begun < warm_seconds or load.done() < 1:
            load.feed()
        first = _tick(load, counter, clock, clock())
        last = _tick(load, counter, clock, first.at + least_seconds)
        launches = (last.done - first.done) * load.launches
        if not launches:
            raise DeviceError(f"a chunk of launches ran longer than {least_seconds} s; measure longer [energy-chunk]")
        seconds = load.seconds(first.done, last.done) / launches
        return Energy((last.joules - first.joules) / (last.at - first.at) * seconds, seconds)
    finally:
        load.finish()


@dataclass(frozen=True)
class _Tick:
    at: float
    joules: float
    done: int


def _tick(load: Load, counter: Counter, clock: Clock, not_before: float) -> _Tick:
    """The first change of the counter that is seen at or after a time."""
    before = counter.joules()
    while clock() < not_before + _MOST_SECONDS:
        load.feed()
        found, at = counter.joules(), clock()
        if found != before and at >= not_before:
            return _Tick(at, found, load.done())
        before = found
    raise DeviceError(
        f"the GPU's counter of energy did not move in {_MOST_SECONDS:g} s of work; measure time instead [energy-tick]"
    )
