"""`lt.precompile`: kernels compiled and assembled by all cores, into the cache."""

import multiprocessing
import os
from collections.abc import Iterable
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from lowtide.compiler import driver
from lowtide.compiler.cache.settings import FOLDER_VARIABLE, OFF, open_store
from lowtide.compiler.cache.store import KernelStore
from lowtide.compiler.compile import Request
from lowtide.compiler.kernel import CompiledKernel
from lowtide.compiler.native import resolve
from lowtide.compiler.spec import GemmSpec
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import CompileError, Error


@dataclass(frozen=True)
class _Job:
    """A kernel to be compiled. An epilogue may be a function that no other process can have; its IR is text."""

    key: str
    problem: str
    target: str
    folder: Path
    most_bytes: int


def precompile(
    specs: Iterable[GemmSpec],
    target: str = "sm_80",
    schedule: Schedule | str | None = None,
    *,
    jobs: int | None = None,
    progress: bool = True,
) -> int:
    """Compile and assemble what the cache does not have, in `jobs` processes (None: one for each core).

    How many kernels were compiled; `compile_gemm` with the same arguments then finds them, in any process. `progress`:
    show a bar where standard error is a terminal. The processes start afresh: in a script, call this under
    `if __name__ == "__main__":`. Raises Error where the cache is off, and what `compile_gemm` raises, for the first
    spec that is refused, when all others are done.
    """
    store = open_store()
    if store is None:
        raise Error(f"{FOLDER_VARIABLE}={OFF}: there is no cache to compile into; unset it, or name a folder")
    wanted = _wanted(specs, target, schedule, store)
    if not wanted:
        return 0
    processes = min(len(wanted), jobs or os.cpu_count() or 1)
    columns = (TextColumn("compiling"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    shown = progress and console.is_terminal
    context = multiprocessing.get_context("spawn")  # a fork would share what this process has told CUDA
    with Progress(*columns, console=console, disable=not shown) as bar, ProcessPoolExecutor(processes, context) as pool:
        task = bar.add_task("", total=len(wanted))
        running = [pool.submit(_compile, job) for job in wanted]
        for _ in as_completed(running):
            bar.advance(task)
    _raise_first(running)
    return len(wanted)


def _wanted(specs: Iterable[GemmSpec], target: str, schedule: Schedule | str | None, store: KernelStore) -> list[_Job]:
    """What is not there yet, or not assembled, each once."""
    settled = resolve(target)
    found: dict[str, _Job] = {}
    for spec in specs:
        request = Request(spec, settled, schedule)
        stored = store.load(request.key)
        if request.key not in found and (stored is None or stored.cubin is None):
            found[request.key] = _Job(request.key, request.problem(), settled.name, store.folder, store.most_bytes)
    return list(found.values())


def _raise_first(running: list[Future[None]]) -> None:
    for future in running:
        error = future.exception()
        if isinstance(error, BrokenProcessPool):
            raise CompileError(
                "a process that compiled has died: ask for fewer jobs; in a script, call this under `if __name__ == "
                '"__main__":`'
            )
        if error is not None:
            raise error


def _compile(job: _Job) -> None:
    """In a process of its own."""
    store = KernelStore(job.folder, job.most_bytes)
    kernel = CompiledKernel(driver.compile_ir(job.problem, target=job.target))
    store.keep(job.key, kernel.manifest, kernel.ptx, kernel.cubin)
