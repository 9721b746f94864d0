"""Compiles kernels before their first call, in processes beside this one.

The products of a compiled graph are known long before it runs. While torch compiles the rest of the graph, the
processes compile the kernels and keep them in the cache on disk. The first call of a kernel waits for its process, and
then finds the kernel there. If the job was not begun, failed, or takes too long, the call compiles the kernel itself.
So errors, kernels and bits are those of a process without `Ahead`.

The processes are new ones (`ahead_process.py`): a fork would inherit CUDA's state, and processes of `multiprocessing`
would run the user's script again. They end after a minute without work, or when this process ends. A later job starts
them again. `LOWTIDE_PROCESSES` is their number, at most 256, or `off`. The default is half of this process's cores, at
most eight; if torchrun starts several ranks on a host, each rank counts its share of the cores. There are no processes
before `start` is called, and none without a cache on disk.
"""

import os
import pickle
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as TooLong
from contextlib import suppress
from typing import Any

from lowtide.compiler.cache.settings import OFF, open_store
from lowtide.errors import Error
from lowtide.runtime.call_keys import Recent

VARIABLE = "LOWTIDE_PROCESSES"
_MOST_BY_DEFAULT, _MOST_ASKED = 8, 256
_MOST_JOBS = 4096
_IDLE, _LONGEST = 60.0, 120.0  # seconds: after which a process without work ends; that a call waits for a job
_PROGRAM = "lowtide.compiler.ahead_process"
#: What jobs that compile need. Processes import it before their first job.
_MODULES = ("lowtide.compiler.compile", "lowtide.compiler.matmul.compilation", "lowtide.compiler.matmul.planning")
_RANKS_OF_HOST = "LOCAL_WORLD_SIZE"  # set by torchrun

_Answer = Future[Any]


def processes_asked() -> int:
    """The number of processes that the environment asks for. Raises Error."""
    given = os.environ.get(VARIABLE, "")
    if given == OFF:
        return 0
    if given:
        if not re.fullmatch("[0-9]{1,9}", given) or int(given) > _MOST_ASKED:
            raise Error(f"{VARIABLE}={given:.40}: give 0 to {_MOST_ASKED} processes, or `{OFF}` [ahead-processes]")
        return int(given)
    ranks = os.environ.get(_RANKS_OF_HOST, "")
    cores = len(os.sched_getaffinity(0)) // (int(ranks) if ranks.isdecimal() and int(ranks) else 1)
    return min(_MOST_BY_DEFAULT, cores // 2)


class Ahead:
    """Jobs of other processes, by key. Threads may share it; a fork of this process has none of its jobs."""

    def __init__(self, idle: float = _IDLE, modules: Sequence[str] = _MODULES) -> None:
        """`idle`: seconds without work after which a process ends. `modules`: what processes import first."""
        self._idle, self._modules = idle, modules
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._owner = os.getpid()
        self._lock = threading.Lock()
        self._queue: queue.SimpleQueue[tuple[_Answer, bytes]] = queue.SimpleQueue()
        self._answers = Recent(_MOST_JOBS)
        self._most = 0  # processes; one that dies is not replaced
        self._is_started = False
        self._serving = 0

    def start(self) -> None:
        """Start the processes, which import the compiler at once. Raises Error for a wrong number in the
        environment."""
        most = processes_asked() if open_store() is not None and sys.executable else 0
        if self._owner != os.getpid():
            self._begin_anew()
        with self._lock:
            if not self._is_started:
                self._most, self._is_started = most, True
            self._serve_by_all()

    def begin(self, key: Hashable, function: Callable[..., Any], *arguments: Any) -> None:
        """Have a process call the function, unless a job with this key was begun before, or no process was asked for.
        Pickle must be able to take the function, its arguments and its answer."""
        if not self._is_started or self._owner != os.getpid():
            return
        with self._lock:
            if not self._most or self._answers[key] is not None:
                return
            answer: _Answer = Future()
            self._answers[key] = answer
            self._queue.put((answer, pickle.dumps((function, arguments))))
            self._serve_by_all()

    def result(self, key: Hashable) -> Any:
        """The answer of a job. If a process has begun it, waits until it ends. None if the job raised an error, takes
        longer than `_LONGEST`, was not begun, or does not exist."""
        answer: _Answer | None = self._answers[key] if self._owner == os.getpid() else None
        if answer is None or answer.cancel():
            return None
        with suppress(TooLong):
            return answer.result(_LONGEST)
        return None

    def _serve_by_all(self) -> None:
        """Start the threads that are missing, one for each process, or as many as the system allows. The caller holds
        the lock."""
        while self._serving < self._most:
            try:
                threading.Thread(target=self._serve, name="lowtide-ahead", daemon=True).start()
            except RuntimeError:  # this user's processes and threads are at their limit
                self._most = self._serving
                return
            self._serving += 1

    def _serve(self) -> None:
        """Start a process and pass jobs to it, until there are none for a while, or the process dies."""
        process = _started(self._modules)
        while process is not None:
            try:
                answer, job = self._queue.get(timeout=self._idle)
            except queue.Empty:
                with self._lock:
                    if not self._queue.empty():
                        continue
                    self._serving -= 1
                _end(process)
                return
            if not answer.set_running_or_notify_cancel():
                continue
            is_alive, found = _asked(process, job)
            answer.set_result(found)
            if not is_alive:
                _end(process)
                process = None
        with self._lock:
            self._serving -= 1
            self._most -= 1


def _started(modules: Sequence[str]) -> "subprocess.Popen[bytes] | None":
    """A new process that waits for jobs; None if it cannot be started."""
    paths = os.pathsep.join(path for path in sys.path if path)
    # It needs no GPU, and no modules of the folder in which the program runs.
    more = {"PYTHONPATH": paths, "PYTHONSAFEPATH": "1", "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", _PROGRAM, str(os.getpid()), *modules]
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **more},
        )
    except OSError:
        return None


def _asked(process: "subprocess.Popen[bytes]", job: bytes) -> tuple[bool, Any]:
    """Whether the process still lives, and its answer to a job; None if it gave no answer."""
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(job)
        process.stdin.flush()
        return True, pickle.load(process.stdout)
    except Exception:  # whatever it wrote, or did not write
        return False, None


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        with suppress(OSError):
            if pipe is not None:
                pipe.close()


AHEAD = Ahead()
