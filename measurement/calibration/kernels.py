"""A folder with the kernels of the schedules that are timed. Processes on all cores compile them, without a GPU.

A kernel is saved as `NUMBER`, the number of its schedule in `forms.texts`. Beside it, `NUMBER.json` has the schedule as
a row of the table or, if the schedule was refused, the reason.
"""

import importlib
import json
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import cached_property
from multiprocessing import get_context
from pathlib import Path

from lowtide import runtime
from lowtide.compiler.whole_files import write_whole
from lowtide.errors import Error, LoadError
from lowtide.measurement.calibration.forms import texts
from lowtide.measurement.calibration.rows import Form
from lowtide.passes.schedules.cost.grids import Grid

_COMPILING = "lowtide.measurement.calibration.compiling"  # imports MLIR


@dataclass(frozen=True)
class Note:
    """A schedule as it was compiled, or its refusal. `grid`: the fields of a `Grid`."""

    text: str
    refusal: str = ""
    grid: tuple[int, ...] = ()

    @property
    def form(self) -> Form:
        return Form(self.text, "", Grid._make(self.grid))


class FormFolder:
    """Kernels of one type and layout, with run-time extents."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._loaded: dict[int, runtime.Kernel] = {}

    @cached_property
    def forms(self) -> dict[int, Form]:
        """Those with kernels, by number. Raises Error if there is none."""
        notes = {int(path.stem): self._read(path) for path in self.path.glob("*.json") if path.stem.isdecimal()}
        found = {number: note.form for number, note in sorted(notes.items()) if not note.refusal}
        if not found:
            raise Error(f"{self.path} has no kernels; write some by `calibrate.py compile` [calibration-kernels]")
        return found

    def kernel(self, number: int) -> runtime.Kernel:
        """Loaded once. Raises Error."""
        if number not in self._loaded:
            self._loaded[number] = runtime.load(self.path / str(number))
        return self._loaded[number]

    def compile_missing(self, dtype: str, layout: str, target: str, processes: int | None, until: float) -> int:
        """Compile the schedules that have no note. None is started after `until` of `time.monotonic`. Returns how many
        are left. Raises Error, and ImportError on a machine without the compiler."""
        asked = [(number, text) for number, text in enumerate(texts()) if not self._note(number).exists()]
        with ProcessPoolExecutor(processes, get_context("spawn")) as pool:
            running = [
                pool.submit(_compile, self.path / str(number), text, dtype, layout, target, until)
                for number, text in asked
            ]
            for future in running:
                future.result()
        return sum(not self._note(number).exists() for number, _ in asked)

    def _note(self, number: int) -> Path:
        return self.path / f"{number}.json"

    @staticmethod
    def _read(path: Path) -> Note:
        try:
            return Note(**json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError) as error:
            raise LoadError(f"{path}: {error}; compile the schedules again [calibration-note]") from None


def _compile(path: Path, text: str, dtype: str, layout: str, target: str, until: float) -> None:
    """In a process of its own: save the kernel, then its note."""
    if time.monotonic() > until:
        return
    compiling: Callable[..., Note] = importlib.import_module(_COMPILING).compile_form
    note = compiling(path, text, dtype, layout, target)
    write_whole(path.with_name(f"{path.name}.json"), json.dumps(asdict(note)) + "\n")
