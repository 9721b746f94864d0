"""A second process that analyses texts. Some texts crash MLIR: then only this process ends."""

import importlib
import multiprocessing
import os
import sys
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from lowtide.inspection.editor.analysis import Analysis, Problem

SECONDS = 30.0
"""The limit for one text. Loading takes about 1 s, and the longest dump of a kernel another."""


def serve(pipe: Connection) -> None:
    """Answer each text with its analysis, until the pipe is closed."""
    # Standard output is the protocol of the server that started this process.
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    # Only this process needs the passes, whose loading takes as long as that of everything else.
    analyze = importlib.import_module("lowtide.inspection.editor.analyze").analyze
    while True:
        try:
            text = pipe.recv()
        except (EOFError, KeyboardInterrupt):
            return
        pipe.send(answer(text, analyze))


def answer(text: str, analyze: Callable[[str], Analysis]) -> Analysis:
    """The analysis of a text. A Python exception in it is its only problem."""
    try:
        return analyze(text)
    except Exception as error:
        traceback.print_exc()  # editors show it as the output of the server
        why = f"Lowtide failed, by {type(error).__name__}: {error}; please report this with the file"
        return Analysis([Problem((0, 0), why)])


class Worker:
    """Analyses one text at a time, in a process that runs `serve` and is started when it is needed."""

    def __init__(self, seconds: float = SECONDS, serve: Callable[[Connection], None] = serve) -> None:
        self.seconds, self._serve = seconds, serve
        self._lock = threading.Lock()
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None

    def start(self) -> None:
        """Start the process, so that the first text need not wait for it."""
        with self._lock:
            self._started()

    def analyze(self, text: str) -> Analysis:
        """The analysis of a text. If the process ends or takes too long, its only problem says so."""
        with self._lock:
            pipe = self._started()
            try:
                pipe.send(text)
                if pipe.poll(self.seconds):
                    found: Analysis = pipe.recv()
                    return found
                why = f"checking the file took more than {self.seconds:g} s, and was given up"
            except (EOFError, OSError):
                why = "MLIR ended the process that checked the file; this is a fault of MLIR or of the dialects"
            self._end()
            return Analysis([Problem((0, 0), f"{why}; undo the last change")])

    def stop(self) -> None:
        """End the process, even within an analysis."""
        if self._process is not None:
            self._process.kill()
            self._process.join()

    def _started(self) -> Connection:
        if self._process is None or self._pipe is None or not self._process.is_alive():
            spawn = multiprocessing.get_context("spawn")
            self._pipe, theirs = spawn.Pipe()
            self._process = spawn.Process(target=self._serve, args=(theirs,), daemon=True)
            self._process.start()
            theirs.close()
        return self._pipe

    def _end(self) -> None:
        self.stop()
        self._process = self._pipe = None
