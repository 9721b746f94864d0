"""Launches of a kernel with stamps and of the same kernel without them, and the buffer that the stamps fill. This needs
no MLIR."""

import importlib
import statistics
from collections.abc import Callable, Sequence
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
    seconds = _rounds([kernel.bind(a, b, out=d) for kernel in (plain, stamped)])
    ratio = statistics.median(other / one for one, other in zip(*seconds, strict=True))
    of_plain, of_stamped = (statistics.median(each) for each in seconds)
    return Ran(of_plain, of_stamped, ratio, stamp_words(plain, stamped, a, b, d))


def time_alone(kernel: Any, a: Any, b: Any, d: Any) -> float:
    """Seconds of a launch of a kernel on torch tensors, as the median over rounds."""
    (seconds,) = _rounds([kernel.bind(a, b, out=d)])
    return statistics.median(seconds)


def _rounds(launches: Sequence[Callable[[], object]]) -> list[list[float]]:
    """Seconds of each launch in each round."""
    torch = importlib.import_module("torch")
    for launch in [*launches] * _WARM:
        launch()
    seconds: list[list[float]] = [[] for _ in launches]
    order = list(range(len(launches)))
    for _ in range(_ROUNDS):
        order.reverse()
        for which in order:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            for _ in range(_LAUNCHES):
                launches[which]()
            end.record()
            torch.cuda.synchronize()
            seconds[which].append(begin.elapsed_time(end) / 1000 / _LAUNCHES)
    return seconds


def stamp_words(plain: Any, stamped: Any, a: Any, b: Any, d: Any) -> NDArray[np.int32]:
    """Launch the kernel with stamps once on torch tensors, and copy its stamps to the host: [CTA, agent, tile, 9], as
    `inspection.timeline.measured.stamps_of` takes them.

    Both kernels are compiled or loaded. The workspace of the stamps is the last one, and `plain` has the others. Raises
    LaunchError if they differ otherwise.
    """
    of_plain, of_stamped = (
        sum(entry["op"] == "tile.workspace" for entry in kernel.manifest["host"]) for kernel in (plain, stamped)
    )
    if of_stamped != of_plain + 1:
        raise LaunchError(
            f"the kernels have {of_plain} and {of_stamped} workspaces, but stamps are one more; compile the same spec"
            " and schedule with and without stamps=True [stamps-workspace]"
        )
    torch = importlib.import_module("torch")
    buffer = torch.zeros(stamped.workspace_bytes(a, b), dtype=torch.uint8, device=a.device)
    stamped(a, b, out=d, workspace=buffer)
    torch.cuda.synchronize()
    words: NDArray[np.int32] = buffer.cpu().numpy()[plain.workspace_bytes(a, b) :].view(np.int32)
    return words
