"""A process of `ahead.py`: `python -m lowtide.compiler.ahead_process PID MODULE…` imports the modules, reads jobs from
its standard input, and writes their answers to its standard output. A job that raises an error has the answer None. The
process ends when its input ends, or when the process PID, which started it, is gone.
"""

import importlib
import os
import pickle
import signal
import sys
import threading
import time
from collections.abc import Sequence

_CHECKED = 1.0  # seconds between looks at the parent


def serve(parent: int, modules: Sequence[str]) -> None:
    """Do jobs until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the parent
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # nothing else writes between the answers
    for module in modules:
        importlib.import_module(module)
    while True:
        try:
            function, arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer = pickle.dumps(function(*arguments))
        except Exception:  # the parent does the same work, and raises the error
            answer = pickle.dumps(None)
        answers.write(answer)
        answers.flush()


def _end_with(parent: int) -> None:
    """End this process when the parent has ended. The end of the input is not enough: a fork of the parent may keep the
    pipe open."""
    while os.getppid() == parent:
        time.sleep(_CHECKED)
    os._exit(0)


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2:])
