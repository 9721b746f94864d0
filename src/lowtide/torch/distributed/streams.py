"""The two streams of a rank on a GPU, torch's current one and a second one, with copies and waits between them.

These call the driver directly, because the same operations of torch take more time on the host. A stream is given by
its handle. A CUDA graph records copies and waits as it records launches.
"""

import torch

from lowtide.errors import LaunchError
from lowtide.runtime import driver
from lowtide.runtime.streams import current_stream


class Streams:
    """`beside`: the handle of the second stream. Before a call of `order` or `copy`, this thread must have run an
    operation of torch on the device, so that the device's context is current."""

    def __init__(self, device: torch.device) -> None:
        follow = current_stream("torch", torch.cuda.current_device() if device.index is None else device.index)
        assert follow is not None
        self.current = follow  # yields the handle of the current stream
        self._stream = torch.cuda.Stream(device)
        self.beside: int = self._stream.cuda_stream
        self._cuda = cuda = driver.api()
        flag = cuda.CUevent_flags.CU_EVENT_DISABLE_TIMING.value
        self._event = driver.check(cuda.cuEventCreate(flag), "creating an event")

    def join(self) -> None:
        """The current stream waits for all earlier work in the second one."""
        torch.cuda.current_stream(self._stream.device).wait_stream(self._stream)

    def order(self, first: int, then: int) -> None:
        """Later work in stream `then` waits for all earlier work in stream `first`. Raises LaunchError."""
        # A wait uses the latest record before it, so the event can be recorded again at once.
        recorded = self._cuda.cuEventRecord(self._event, first)
        driver.check(recorded, "recording an event", LaunchError)
        driver.check(self._cuda.cuStreamWaitEvent(then, self._event, 0), "waiting for an event", LaunchError)

    def copy(self, to: int, source: int, size: int, stream: int) -> None:
        """Copies `size` bytes from address `source` to address `to`, in stream order. Raises LaunchError."""
        if size:
            driver.check(self._cuda.cuMemcpyAsync(to, source, size, stream), "copying", LaunchError)
