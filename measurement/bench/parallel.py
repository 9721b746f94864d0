"""Kernels compiled by several processes at once, for measuring many kernels on a machine with many cores."""

import multiprocessing
import os
import tempfile
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

from lowtide import runtime
from lowtide.compiler.compile import compile_gemm
from lowtide.compiler.spec import GemmSpec
from lowtide.errors import CompileError, Error

Request = tuple[GemmSpec, str, str | None]
"""A spec, a target, and a schedule as text: a preset's name or fields; None for the chosen one."""

_SPARE_CORES = 2  # for the timing process


class Compilers:
    """Processes that compile the requested kernels, each once; a context manager.

    They are spawned, because a forked process would inherit the CUDA state. If ptxas is available, kernels are
    assembled too, so that code that spills is refused.
    """

    def __init__(self, processes: int | None = None) -> None:
        count = processes or max(1, (os.cpu_count() or 1) - _SPARE_CORES)
        self._folder = tempfile.TemporaryDirectory(prefix="lowtide-kernels-")
        self._pool = ProcessPoolExecutor(count, mp_context=multiprocessing.get_context("spawn"))
        self._requests: dict[Request, tuple[Path, Future[str]]] = {}

    def request(self, spec: GemmSpec, target: str, schedule: str | None) -> None:
        """Request a kernel, unless it was requested before."""
        asked = (spec, target, schedule)
        if asked not in self._requests:
            path = Path(self._folder.name, str(len(self._requests)))
            self._requests[asked] = path, self._pool.submit(_compile, spec, target, schedule, path)

    def kernel(self, spec: GemmSpec, target: str, schedule: str | None) -> runtime.Kernel:
        """Wait for a kernel. Raises Error if it was refused, CompileError if the process died."""
        self.request(spec, target, schedule)
        path, compilation = self._requests[spec, target, schedule]
        try:
            refusal = compilation.result()
        except BrokenProcessPool:
            raise CompileError(
                "a process died while it compiled: ask for fewer at once; in a script, call this under `if __name__ == "
                '"__main__":` [bench-process-died]'
            ) from None
        if refusal:
            raise Error(refusal)
        return runtime.load(path)

    def __enter__(self) -> "Compilers":
        return self

    def __exit__(self, *error: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._folder.cleanup()


def _compile(spec: GemmSpec, target: str, schedule: str | None, path: Path) -> str:
    """In a process of its own: save the kernel at the path. Returns the refusal, or ""."""
    try:
        compile_gemm(spec, target, schedule).save(path)
    except Error as error:
        return str(error)
    return ""
