"""The energy of a product of a cell: of Lowtide's kernel and torch's, or of schedules that take about the same time."""

import random
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from lowtide import runtime
from lowtide.measurement.bench.any_shape.rows import OWN, TORCH, short
from lowtide.measurement.bench.contest import Contest, interval
from lowtide.measurement.bench.corners.cells import Cell
from lowtide.measurement.bench.energy import Counter, Energy, GraphLoad, measure
from lowtide.measurement.bench.gpu_timing import Contender, Pace, capture, race

TWELVE = (
    "bf16-tn-4096x4096x4096",
    "bf16-tn-8192x8192x8192",
    "bf16-nn-8192x8192x8192",
    "bf16-tn-4096x24576x1536",
    "bf16-tn-128x28672x4096",
    "f16-tn-8192x8192x8192",
    "f16-sums-tn-8192x8192x8192",
    "tf32-tn-4096x4096x4096",
    "e4m3-fast-tn-8192x8192x8192",
    "e4m3-two-level-tn-8192x8192x8192",
    "s8-tn-8192x8192x8192",
    "f64-tn-4096x4096x4096",
)
LEVEL, MOST_LEVEL = 0.01, 4  # how much more time than the fastest; the most kernels to measure
_SCREEN = Pace(10.0, 40.0, burst=False)
_SCREEN_ROUNDS = 3
COLUMNS = ("cell", "contender", "mJ", "W", "µs", "energy to {}", "TFLOP/J", "GPU", "commit", "date", "schedule")

Say = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """`rounds`: measurements of each contender, in shuffled order; `seconds`: the least time of each."""

    rounds: int
    seconds: float
    seed: int


Measured = Mapping[str, Sequence[Energy]]


def beside_torch(cell: Cell, kernel: runtime.Kernel, counter: Counter, settings: Settings, say: Say) -> Measured:
    """The energies of torch and of Lowtide's kernel. Raises Error."""
    with Contest(cell.spec, settings.seed, say) as contest:
        contest.add_kernel(OWN, kernel)
        torch = contest.of_torch()
        torch.name = TORCH
        return _energies([torch, *contest.others], contest.timed, counter, settings)


def of_level_ones(
    cell: Cell, kernels: Mapping[str, runtime.Kernel], counter: Counter, settings: Settings, say: Say
) -> Measured:
    """The energies of the first kernel and of the fastest others, by name: those whose time in a short race is at most
    `LEVEL` above the least one, at most `MOST_LEVEL` kernels in all. Raises Error."""
    with Contest(cell.spec, settings.seed, say) as contest:
        for name, kernel in kernels.items():
            contest.add_kernel(name, kernel)
        race(contest.others, contest.timed, _SCREEN_ROUNDS, settings.seed, lambda seconds: _SCREEN)
        times = {one: statistics.median(one.sustained) for one in contest.others}
        fast = sorted(times, key=times.__getitem__)
        own = contest.others[0]
        level = [one for one in fast if one is not own and times[one] <= (1 + LEVEL) * times[fast[0]]]
        return _energies([own, *level[: MOST_LEVEL - 1]], contest.timed, counter, settings)


def _energies(contenders: Sequence[Contender], sets: int, counter: Counter, settings: Settings) -> Measured:
    loads = {one.name: GraphLoad(capture(one, sets), sets) for one in contenders}
    found: dict[str, list[Energy]] = {name: [] for name in loads}
    order, shuffler = list(loads), random.Random(settings.seed)
    for _ in range(settings.rounds):
        shuffler.shuffle(order)
        for name in order:
            found[name].append(measure(loads[name], counter, settings.seconds))
    return found


def rows(
    cell: Cell, found: Measured, to: str, about: tuple[str, str, str], schedules: Mapping[str, str]
) -> Iterator[tuple[str, ...]]:
    """Rows under COLUMNS. A figure is the median (least … greatest) of the rounds. `energy to {to}` is the energy of
    `to`, divided by that of the contender in the same round: above 1, the contender takes less. `about`: GPU, commit,
    date."""
    for name, energies in found.items():
        millijoules = [1e3 * one.joules for one in energies]
        ratios = [y.joules / x.joules for x, y in zip(energies, found[to], strict=True)]
        yield (
            cell.name,
            name,
            _text(millijoules, 3),
            _text([one.watts for one in energies], 0),
            _text([1e6 * one.seconds for one in energies], 1),
            _text(ratios, 3),
            _text([cell.flops / one.joules / 1e12 for one in energies], 2),
            *about,
            short(schedules.get(name, "")),
        )


def _text(values: Sequence[float], digits: int) -> str:
    return interval((statistics.median(values), min(values), max(values)), digits)
