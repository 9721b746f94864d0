"""The search for the fastest of some kernels: each is admitted, then all are timed in rounds until one is known to be
the fastest, or time is up.

This module knows nothing of GPUs or compilation; times come from a `Bench`.
"""

import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lowtide.compiler.kernel import CompiledKernel
from lowtide.errors import CompileError
from lowtide.measurement.tuning.elimination import Race
from lowtide.measurement.tuning.gpu import Bench
from lowtide.measurement.tuning.journal import Journal

Clock = Callable[[], float]


@dataclass(frozen=True)
class Progress:
    """The progress of a search: `rounds` run, and `left` contenders that may still be the fastest."""

    rounds: int
    left: int


def admit(bench: Bench, kernels: Iterable[tuple[str, CompiledKernel]], journal: Journal) -> list[str]:
    """The names of the kernels that are right, in order; the faults of the others are written to the journal.

    The first kernel is the reference for the others; if it is wrong, raises CompileError.
    """
    found = []
    for position, (name, kernel) in enumerate(kernels):
        complaint = bench.admit(name, kernel)
        if complaint and not position:
            raise CompileError(
                f"the kernel of the chosen schedule is wrong on this GPU: {complaint}; please report it with `lowtide "
                f"check`, and meanwhile use another schedule than {name} [chosen-wrong]"
            )
        if complaint:
            journal.refused[name] = complaint
        else:
            found.append(name)
    return found


def duel(bench: Bench, own: str, other: str, rounds: int) -> tuple[list[float], list[float]]:
    """Seconds of two kernels in separate rounds, in changing order, each run until clocks and power have settled.

    The fastest of many similar kernels in a race was also the luckiest. Also, kernels that alternate in short runs all
    run at the same clocks, but a kernel that runs alone is slower the more power it takes.
    """
    found: dict[str, list[float]] = {own: [], other: []}
    for number in range(rounds):
        for name in (own, other) if number % 2 else (other, own):
            found[name].append(bench.settled_seconds(name))
    return found[own], found[other]


def run(
    measure: Callable[[str], float],
    names: list[str],
    race: Race,
    journal: Journal,
    *,
    until: float,
    seed: int,
    on_round: Callable[[Progress], None],
    clock: Clock = time.monotonic,
) -> bool:
    """Fill the race with rounds of `measure`, at least one. Returns whether it was decided before time was up.

    Rounds of the journal count if they are of the same contenders.
    """
    race.seconds = {name: list(journal.seconds.get(name, [])) for name in names}
    race.dropped = set(journal.dropped) & set(names)
    if set(journal.seconds) - set(journal.refused) != set(names):  # others were compiled in time: start again
        race.seconds, race.dropped = {name: [] for name in names}, set()
    shuffler = random.Random(seed + race.rounds)
    while not race.rounds or (len(race.left) > 1 and not race.is_decided()):
        if race.rounds and clock() >= until:
            return False
        order = race.left
        shuffler.shuffle(order)
        race.add_round({name: measure(name) for name in order})
        journal.seconds, journal.dropped = race.seconds, sorted(race.dropped)
        journal.write()
        on_round(Progress(race.rounds, len(race.left)))
    return True
