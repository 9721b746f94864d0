"""Launches of a kernel with stamps and of the same kernel without them, and the buffer that the stamps fill. This needs
no MLIR."""

import importlib
import statistics
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import LaunchError

_ROUNDS, _LAUNCHES, _WARM = 40, 20, 200


@dataclass(frozen=True)
class Ran:
    """Seconds of a launch, as medians over rounds, without stamps and with them; the median over rounds of the ratio of
    the two; and the words of the stamps of one more launch, at the clock of a busy GPU."""

    plain: float
    stamped: float
    ratio: float
    words: NDArray[np.int32]


def race_stamped(plain: Any, stamped: Any, a: Any, b: Any, d: Any) -> Ran:
    """Launch both kernels on torch tensors, in rounds of several launches in changing order. Raises as `stamp_words`
    does."""
    torch = importlib.import_module("torch")
    launches = [kernel.bind(a, b, out=d) for kernel in (plain, stamped)]
    for launch in launches * _WARM:
        launch()
    seconds: list[list[float]] = [[], []]
    for number in range(_ROUNDS):
        for which in (0, 1) if number % 2 else (1, 0):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(_LAUNCHES):
                launches[which]()
            end.record()
            torch.cuda.synchronize()
            seconds[which].append(begin.elapsed_time(end) / 1000 / _LAUNCHES)
    ratio = statistics.median(other / one for one, other in zip(*seconds, strict=True))
    of_plain, of_stamped = (statistics.median(each) for each in seconds)
    return Ran(of_plain, of_stamped, ratio, stamp_words(stamped, a, b, d))


def stamp_words(kernel: Any, a: Any, b: Any, d: Any) -> NDArray[np.int32]:
    """Launch the kernel once on torch tensors, and copy its stamps to the host: [CTA, agent, tile, stamp, 2], as
    `inspection.timeline.measured.stamps_of` takes them.

    `kernel` is compiled or loaded. Raises LaunchError if the kernel has a workspace besides its stamps.
    """
    workspaces = [entry for entry in kernel.manifest["host"] if entry["op"] == "tile.workspace"]
    if len(workspaces) != 1:
        raise LaunchError(
            f"the kernel has {len(workspaces)} workspaces, not one with its stamps; compile it with stamps=True, and a"
            " schedule that packs nothing and does not keep waves in step [stamps-workspace]"
        )
    torch = importlib.import_module("torch")
    buffer = torch.zeros(kernel.workspace_bytes(a, b), dtype=torch.uint8, device=a.device)
    kernel(a, b, out=d, workspace=buffer)
    torch.cuda.synchronize()
    words: NDArray[np.int32] = buffer.cpu().numpy().view(np.int32)
    return words
