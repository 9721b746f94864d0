"""Times the picked schedules of drawn shapes beside torch, and writes a line of a journal for each shape.

The result of each kernel is checked first. All schedules of a shape run in the same shuffled rounds.
"""

import time
from dataclasses import dataclass
from typing import Any

from lowtide.errors import Error
from lowtide.measurement.bench.any_shape.draws import Drawn
from lowtide.measurement.bench.any_shape.journal import Journal
from lowtide.measurement.bench.any_shape.kernels import Say
from lowtide.measurement.bench.any_shape.races import DONE, GPU_LOST, OUT_OF_TIME, end_process_after
from lowtide.measurement.bench.any_shape.racing import (
    Settings,
    device_and_software,
    gpu_is_usable,
    race_shape,
    summary_of,
)
from lowtide.measurement.calibration.kernels import FormFolder
from lowtide.measurement.calibration.picking import Picks
from lowtide.measurement.calibration.rows import Form, Rows, Shape
from lowtide.passes.schedules.cost.constants import Constants
from lowtide.targets import Target

_TRIES = 2  # of a shape whose race ended the process
_MOST_SECONDS = 300.0  # for a shape; then the process ends
_DIGITS = 5


@dataclass(frozen=True)
class Timing:
    """What is timed, and where its lines go."""

    folder: FormFolder
    journal: Journal
    constants: Constants
    target: Target
    picks: Picks
    settings: Settings
    seed: int

    def run(self, shapes: list[Drawn], until: float, say: Say) -> int:
        """Time the shapes without a line until `until` of `time.monotonic`. Returns the exit status. Raises Error."""
        device, software = device_and_software()
        for number, shape in enumerate(shapes):
            if shape.name in self.journal.lines:
                continue
            if time.monotonic() > until:
                return OUT_OF_TIME
            line = self._line(shape, self.seed + number)
            self.journal.add({**line, "device": device, "software": software})
            failed = [f"{name or 'all'}: {why}" for name, why in line["failed"].items()]
            say(f"{number + 1} of {len(shapes)} {shape.name}: {summary_of(line['seconds'])} {'; '.join(failed)}")
            if not gpu_is_usable():
                return GPU_LOST
        return DONE

    def _line(self, drawn: Drawn, seed: int) -> dict[str, Any]:
        if self.journal.begin(drawn.name) > _TRIES:
            return {"name": drawn.name, "seconds": {}, "failed": {"": "it ended the process that timed it"}}
        shape = Shape(drawn.m, drawn.n, drawn.k, drawn.layout, drawn.dtype, drawn.source, (), {})
        numbers = self.picks.picked(shape, self.folder.forms, self.constants, self.target, seed)
        kernels, refused = {}, {}
        for number in numbers:
            try:
                kernels[str(number)] = self.folder.kernel(number)
            except Error as error:
                refused[str(number)] = str(error)
        timer = end_process_after(_MOST_SECONDS, GPU_LOST)
        try:
            found = race_shape(drawn, kernels, self.settings, seed, with_matmul=False)
        finally:
            timer.cancel()
        return {"name": drawn.name, "seconds": found.seconds, "failed": refused | found.failed}


def rows_of(
    journal: Journal, shapes: list[Drawn], forms: dict[int, Form], *, date: str, command: str, commit: str, seed: str
) -> Rows:
    """The journal's lines as a file of rows, with a table of the schedules that were timed. Raises Error if there are
    none."""
    timed = {shape: line for shape in shapes if (line := journal.lines.get(shape.name)) and len(line["seconds"]) > 2}
    if not timed:
        raise Error(f"{journal.path} has no times yet; run `calibrate.py time` first [calibration-empty]")
    used = sorted({int(name) for line in timed.values() for name in line["seconds"] if name.isdecimal()})
    place = {number: i for i, number in enumerate(used)}
    return Rows(
        device=", ".join(sorted({line["device"] for line in timed.values()})),
        date=date,
        command=command,
        software=", ".join(sorted({line["software"] for line in timed.values()})),
        commit=commit,
        seed=seed,
        forms=tuple(forms[number] for number in used),
        shapes=tuple(_row(shape, line["seconds"], place) for shape, line in timed.items()),
        clipped=True,
    )


def _row(shape: Drawn, seconds: dict[str, list[float]], place: dict[int, int]) -> Shape:
    times = {name: tuple(float(f"{1e6 * one:.{_DIGITS}g}") for one in rounds) for name, rounds in seconds.items()}
    torch = times.pop("torch")
    of_forms = {place[int(name)]: rounds for name, rounds in times.items() if name.isdecimal()}
    source = "log-uniform" if shape.source == "log-uniform" else "model layer"
    return Shape(shape.m, shape.n, shape.k, shape.layout, shape.dtype, source, torch, of_forms)
