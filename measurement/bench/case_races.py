"""Races of cases, one after the other: Lowtide's kernel of a case beside its peers, with a row of a table for each."""

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from lowtide.errors import Error
from lowtide.markdown import markdown
from lowtide.measurement.bench.any_shape.races import DONE, GPU_LOST, OUT_OF_TIME, end_process_after
from lowtide.measurement.bench.any_shape.racing import Settings
from lowtide.measurement.bench.contest import interval, rates
from lowtide.measurement.bench.gpu_timing import ChoosePace, Contender, race, spread

OWN = "lowtide"
Launch = Callable[[int], Any]  # of set i; returns its results
_FAILED = 1
_GRACE = 15.0  # seconds of a case that has begun, past the deadline


@dataclass
class CaseRace:
    """The times of a case, which has `flops` and a text. `seconds`: by contender, of a launch in each round. `failed`:
    why others have none. `schedule`: of Lowtide's kernel."""

    PEERS: ClassVar[tuple[str, ...]]

    case: Any
    seconds: dict[str, list[float]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    schedule: str = ""

    @classmethod
    def headings(cls, case: str) -> tuple[str, ...]:
        """`case`: the heading of the cases."""
        return (case, "µs", "TFLOP/s", *(f"to {name}" for name in cls.PEERS), "failed")

    def row(self) -> tuple[str, ...]:
        """The cells under the headings. Ratios are of speed in the same rounds; above 1 Lowtide is faster. Each is
        median (least … greatest)."""
        own, reasons = self.seconds.get(OWN), "; ".join(f"{name}: {why}" for name, why in self.failed.items())
        if own is None:
            return (str(self.case), *[""] * (2 + len(self.PEERS)), reasons)
        microseconds, rate = f"{statistics.median(own) * 1e6:.1f}", rates(spread(own, self.case.flops))
        return (str(self.case), microseconds, rate, *(self._ratio(own, peer) for peer in self.PEERS), reasons)

    def _ratio(self, own: Sequence[float], peer: str) -> str:
        ratios = [y / x for x, y in zip(own, self.seconds.get(peer, ()), strict=False)]
        return interval((statistics.median(ratios), min(ratios), max(ratios)), 3) if ratios else ""

    def run(
        self,
        contenders: Mapping[str, Callable[[], Launch]],
        complaint: Callable[[Contender], str],
        sets: int,
        pace: tuple[int, int, ChoosePace],
    ) -> None:
        """Race the contenders that can be made and have no complaint. `sets`: the number of sets of operands; `pace`:
        the rounds, the seed of their order, and the time of each."""
        right = []
        for name, make in contenders.items():
            try:
                contender = Contender(name, make())
                fault = complaint(contender)
            except (Error, RuntimeError, ImportError) as error:  # torch raises RuntimeErrors
                fault = f"{type(error).__name__}: {error}"
            if fault:
                self.failed[name] = fault
            else:
                right.append(contender)
        race(right, sets, *pace)
        self.seconds = {contender.name: contender.sustained for contender in right}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def run_cases(
    options: argparse.Namespace,
    cases: Sequence[Any],
    headings: Sequence[str],
    race_case: Callable[[Any, int, int, ChoosePace], CaseRace],
) -> int:
    """Race the cases and print a row for each. Returns the exit status: 0; 1 if Lowtide has no time in a case; 3 if
    `--seconds` were up before the last case. If a case hangs, the process ends with 4, 15 seconds later."""
    began = time.monotonic()
    end_process_after(options.seconds + _GRACE, GPU_LOST)
    print(markdown(headings, []), flush=True)
    failed = False
    for case in cases:
        if time.monotonic() > began + options.seconds:
            return OUT_OF_TIME
        found = race_case(case, options.rounds, options.seed, Settings().pace_for(case.flops))
        print(markdown(found.row(), []).splitlines()[0], flush=True)
        say(f"  {time.monotonic() - began:.0f} s; {found.schedule}")
        failed |= OWN in found.failed
    return _FAILED if failed else DONE


def parser(what: str, cases: Sequence[Any], seconds: float) -> argparse.ArgumentParser:
    """The options that all such scripts have. `what`: the docstring of the script; `seconds`: the default."""
    result = argparse.ArgumentParser(description=what.splitlines()[0])
    names = "; ".join(f"{number}: {case}" for number, case in enumerate(cases))
    result.add_argument("--case", type=int, action="append", choices=range(len(cases)), help=f"default all; {names}")
    result.add_argument("--rounds", type=int, default=5, help="counted rounds; default 5")
    result.add_argument("--seed", type=int, default=1, help="of drawn numbers and ends; default 1")
    help_ = f"the time after which no case begins; default {seconds:g}"
    result.add_argument("--seconds", type=float, default=seconds, help=help_)
    return result


def chosen(options: argparse.Namespace, cases: Sequence[Any]) -> list[Any]:
    """The cases that the options name, or all."""
    return [cases[number] for number in options.case or range(len(cases))]
