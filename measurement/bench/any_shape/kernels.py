"""A folder with the kernels of drawn shapes. Processes on all cores compile them; the process that races loads them.

A kernel is saved as `NAME`, a folder that any machine can load. Beside it, `NAME.json` says why the kernel has its tile
or, if the shape was refused, why.
"""

import importlib
import json
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from lowtide import runtime
from lowtide.compiler.whole_files import write_whole
from lowtide.errors import Error, LoadError, with_code
from lowtide.measurement.bench.any_shape.draws import Drawn

_COMPILING = "lowtide.measurement.bench.any_shape.compiling"  # imports MLIR
Say = Callable[[str], None]


@dataclass(frozen=True)
class Choice:
    """`reason`: why a kernel has its tile, as text. `refusal`: why there is no kernel."""

    reason: str = ""
    refusal: str = ""


class KernelFolder:
    """The kernels of one commit."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def has(self, shape: Drawn) -> bool:
        """Whether the folder has the kernel, or its refusal."""
        return self._note(shape).exists()

    def kernel(self, shape: Drawn) -> tuple[runtime.Kernel, Choice]:
        """Raises Error if the kernel was refused or is missing."""
        choice = self.choice(shape)
        if choice.refusal:
            raise Error(with_code(choice.refusal, "shape-refused"))
        return runtime.load(self.path / shape.name), choice

    def choice(self, shape: Drawn) -> Choice:
        """Raises Error if there is none."""
        try:
            return Choice(**json.loads(self._note(shape).read_text(encoding="utf-8")))
        except FileNotFoundError:
            raise Error(
                f"{self.path} has no kernel of {shape.name}; compile the same draw into it [shape-kernel-missing]"
            ) from None
        except (OSError, ValueError, TypeError) as error:
            raise LoadError(f"{self._note(shape)}: {error}; compile the draw again [shape-kernel-note]") from None

    def keep(self, shape: Drawn, kernel: Any, choice: Choice) -> None:
        """Save a kernel, then its note. `kernel` is None for a refusal. Raises Error."""
        if kernel is not None:
            kernel.save(self.path / shape.name)
        write_whole(self._note(shape), json.dumps(asdict(choice), ensure_ascii=False) + "\n")

    def compile_missing(
        self, shapes: Sequence[Drawn], target: str, processes: int | None, until: float, say: Say
    ) -> None:
        """Compile the missing kernels. None is started after the time `until` of `time.monotonic`. Raises Error, and
        ImportError on a machine without the compiler."""
        missing = [shape for shape in shapes if not self.has(shape)]
        if missing and time.monotonic() < until:
            say(f"compiling {len(missing)} kernels")
            importlib.import_module(_COMPILING).compile_into(self, missing, target, processes, until)

    def _note(self, shape: Drawn) -> Path:
        return self.path / f"{shape.name}.json"


def warm_matmul(shapes: Sequence[Drawn], processes: int | None, until: float, say: Say) -> None:
    """Call `lt.matmul` on the shapes, in processes on all cores, so that it compiles its kernels into the cache. It
    needs a GPU. Errors are not reported here, because the races meet them again."""
    count = min(len(shapes), processes or os.cpu_count() or 1)
    if not count:
        return
    say(f"compiling the kernels of lt.matmul for {len(shapes)} shapes")
    racing = "lowtide.measurement.bench.any_shape.racing"
    with ProcessPoolExecutor(count, get_context("spawn")) as pool:  # a fork would inherit this process's CUDA state
        running = [pool.submit(_call, racing, shape) for shape in shapes]
        for future in running:
            if time.monotonic() > until:
                future.cancel()
                continue
            future.exception()


def _call(module: str, shape: Drawn) -> None:
    importlib.import_module(module).call_matmul(shape)
