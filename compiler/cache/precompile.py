"""`lt.precompile`: compiles and assembles kernels into the cache, on all cores."""

import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from lowtide.compiler import attempts
from lowtide.compiler.cache.settings import FOLDER_VARIABLE, OFF, open_store
from lowtide.compiler.cache.store import KernelStore
from lowtide.compiler.compile import Request
from lowtide.compiler.kernel import CompiledKernel
from lowtide.compiler.native import resolve
from lowtide.compiler.spec import GemmSpec
from lowtide.dialects.tile.schedule import Schedule
from lowtide.errors import CompileError, Error
from lowtide.keywords import check_keywords


@dataclass(frozen=True)
class Job:
    """A kernel to compile. The problem is IR text, because an epilogue function cannot be sent to another process."""

    key: str
    problem: str
    target: str
    folder: Path
    most_bytes: int


@check_keywords
def precompile(
    specs: Iterable[GemmSpec],
    target: str | None = None,
    schedule: Schedule | str | None = None,
    *,
    jobs: int | None = None,
    progress: bool = True,
) -> int:
    """Compile and assemble the kernels that the cache lacks, in `jobs` processes (None: one per core).

    Returns the number of kernels compiled. `compile_gemm` with the same arguments then finds them in any process.
    `progress`: show a bar if standard error is a terminal. The processes are spawned: in a script, call this under
    `if __name__ == "__main__":`. Raises Error if the cache is off. If a spec is refused, the others are still compiled;
    then the error of the first refused spec is raised, as by `compile_gemm`.
    """
    store = open_store()
    if store is None:
        raise Error(
            f"{FOLDER_VARIABLE}={OFF}: there is no cache to compile into; unset it, or name a folder [precompile-cache]"
        )
    wanted = _wanted(specs, target, schedule, store)
    if not wanted:
        return 0
    columns = (TextColumn("compiling"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    console = Console(stderr=True)
    shown = progress and console.is_terminal
    with Progress(*columns, console=console, disable=not shown) as bar:
        task = bar.add_task("", total=len(wanted))
        errors = compile_all(wanted, jobs, lambda: bar.advance(task))
    for error in errors:
        if error is not None:
            raise error
    return len(wanted)


def compile_all(
    jobs: Sequence[Job],
    processes: int | None,
    on_done: Callable[[], None] = lambda: None,
    until: float = float("inf"),
) -> list[BaseException | None]:
    """Compile each job into its place in the cache. Returns the error of each job, or None, in order.

    Jobs that have not started at the time `until` (of `time.monotonic`) are skipped with a CompileError.
    """
    count = min(len(jobs), processes or os.cpu_count() or 1)
    context = multiprocessing.get_context("spawn")  # a fork would inherit this process's CUDA state
    with ProcessPoolExecutor(count, context) as pool:
        running = [pool.submit(compile_job, job) for job in jobs]
        for future in running:
            future.add_done_callback(lambda _: on_done())
        wait(running, None if until == float("inf") else max(0.0, until - time.monotonic()))
        for future in running:
            future.cancel()
    return [_error(future) for future in running]


def _wanted(
    specs: Iterable[GemmSpec], target: str | None, schedule: Schedule | str | None, store: KernelStore
) -> list[Job]:
    """The kernels that are missing or not assembled, without duplicates."""
    settled = resolve(target)
    found: dict[str, Job] = {}
    for spec in specs:
        request = Request(spec, settled, schedule)
        stored = store.load(request.key)
        if request.key not in found and (stored is None or stored.cubin is None):
            found[request.key] = Job(request.key, request.problem(), settled.name, store.folder, store.most_bytes)
    return list(found.values())


def _error(future: Future[None]) -> BaseException | None:
    if future.cancelled():
        return CompileError("the budget ran out before it was compiled: give a larger one [precompile-budget]")
    error = future.exception()
    if isinstance(error, BrokenProcessPool):
        return CompileError(
            "a process died while it compiled: ask for fewer jobs; in a script, call this under `if __name__ == "
            '"__main__":` [precompile-process-died]'
        )
    return error


def compile_job(job: Job) -> None:
    """Compile, assemble and store a kernel, usually in a process of its own."""
    store = KernelStore(job.folder, job.most_bytes)
    kernel = CompiledKernel(attempts.compile_ir(job.problem, target=job.target))
    store.keep(job.key, kernel.manifest, kernel.ptx, kernel.cubin)
