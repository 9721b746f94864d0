"""The races of a run, for each shape that has no line in the journal, until the time is up."""

import datetime
import multiprocessing
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from lowtide import runtime
from lowtide.errors import Error
from lowtide.measurement.bench.any_shape.draws import Drawn
from lowtide.measurement.bench.any_shape.journal import Journal
from lowtide.measurement.bench.any_shape.kernels import KernelFolder, Say
from lowtide.measurement.bench.any_shape.racing import (
    Raced,
    Settings,
    device_and_software,
    gpu_is_usable,
    race_shape,
    summary_of,
)
from lowtide.measurement.bench.any_shape.report import Run
from lowtide.measurement.bench.any_shape.rows import NEW, OLD, row_of

DONE, OUT_OF_TIME, GPU_LOST = 0, 3, 4  # exit statuses
_TRIES = 2  # of a shape whose race ended the process


@dataclass(frozen=True)
class Races:
    """`seed`: of the operands and of the order in a round. `commit`: of the kernels, for the record. `folders`: the
    kernels, by the name of the contender. `command`: the command line, for the record. `with_matmul`:
    whether `lt.matmul` takes part. `may_lack`: whether shapes without a kernel are left for a later run; if not, they
    fail. `most_seconds`: the most time for one shape; then the process ends."""

    seed: int
    commit: str
    journal: Journal
    settings: Settings
    folders: Mapping[str, KernelFolder]
    command: str
    with_matmul: bool = True
    may_lack: bool = False
    most_seconds: float = 300.0

    def run(self, shapes: list[Drawn], deadline: float, say: Say) -> int:
        """Race the remaining shapes until `deadline` of `time.monotonic`. Returns the exit status. Raises Error."""
        device, software = device_and_software()
        for number, shape in enumerate(shapes):
            if shape.name in self.journal.lines or (self.may_lack and not self._has_all(shape)):
                continue
            if time.monotonic() > deadline:
                break
            line = self._race(shape, number)
            self.journal.add({**line, "card": device, "software": software})
            failed = [f"{name or 'all'} failed: {why}" for name, why in line["failed"].items()]
            figures = summary_of(line["seconds"]) or ("equal code" if line["equal"] else "")
            say(f"{number + 1} of {len(shapes)} {shape.name}: {'; '.join(filter(None, [figures, *failed]))}")
            if not gpu_is_usable():
                say("the GPU accepts no more launches; start again to continue with the next shape")
                return GPU_LOST
        left = sum(shape.name not in self.journal.lines for shape in shapes)
        say(f"{left} of {len(shapes)} shapes are left for a later run" if left else "done")
        return OUT_OF_TIME if left else DONE

    def _race(self, shape: Drawn, number: int) -> dict[str, Any]:
        """The line of a shape. A shape whose race has ended the process `_TRIES` times fails without another race."""
        if self.journal.begin(shape.name) > _TRIES:
            return self._line(shape, Raced(failed={"": f"it ended the process that raced it, {_TRIES} times"}))
        timer = end_process_after(self.most_seconds, GPU_LOST)
        try:
            return self._line(shape, None, self.seed + number)
        finally:
            timer.cancel()

    def _has_all(self, shape: Drawn) -> bool:
        return all(folder.has(shape) for folder in self.folders.values())

    def _line(self, shape: Drawn, found: Raced | None, seed: int = 0) -> dict[str, Any]:
        """The line of a shape. If no result is given, the shape is raced."""
        begun = time.monotonic()
        kernels, refused, reason = self._kernels(shape)
        codes = [(kernel.ptx, kernel.manifest["host"]) for kernel in kernels.values()]
        is_equal = kernels.keys() == {OLD, NEW} and codes[0] == codes[1]
        if found is None:
            found = (
                Raced() if is_equal else race_shape(shape, kernels, self.settings, seed, with_matmul=self.with_matmul)
            )
        schedules = {name: " ".join(kernel.manifest["schedule"].split()) for name, kernel in kernels.items()}
        return {
            "name": shape.name,
            "shape": shape.shape,
            **asdict(shape),
            "seconds": found.seconds,
            "failed": refused | found.failed,
            "schedules": schedules | found.schedules,
            "reason": reason,
            "cublaslt": found.cublaslt,
            "equal": is_equal,
            "seed": self.seed,
            "commit": self.commit,
            "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
            "command": self.command,
            "took": round(time.monotonic() - begun, 2),
        }

    def _kernels(self, shape: Drawn) -> tuple[dict[str, runtime.Kernel], dict[str, str], str]:
        """The kernels that can be loaded, why the others cannot, and why the last one has its tile."""
        kernels, refused, reason = {}, {}, ""
        for name, folder in self.folders.items():
            try:
                kernels[name], choice = folder.kernel(shape)
                reason = choice.reason
            except Error as error:
                refused[name] = str(error)
        return kernels, refused, reason


def end_process_after(seconds: float, status: int) -> threading.Timer:
    """End this process and those that it started, even if one hangs, unless the timer is cancelled before."""

    def end() -> None:
        for child in multiprocessing.active_children():
            child.kill()
        os._exit(status)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    return timer


def run_of(journal: Journal) -> Run:
    """The journal as a run of the report. Raises Error if nothing was raced."""
    lines = list(journal.lines.values())
    if not lines:
        raise Error(f"{journal.path} has no races yet; race a draw with this journal first [journal-empty]")

    def every(key: str) -> str:
        return ", ".join(sorted({str(line[key]) for line in lines}))

    dates = sorted({line["date"] for line in lines})
    date = "/".join(dict.fromkeys((dates[0], dates[-1])))
    return Run(every("card"), every("commit"), every("seed"), date, tuple(map(row_of, lines)))
