"""The entry points of the console scripts: an interrupt or a failed write ends in a message, not in a traceback.

Commands are imported only after interrupts are handled, because importing MLIR takes half a second.

Exit status, as in shells: 3 if Lowtide itself failed, 130 after an interrupt, 141 if the reader of a pipe is gone.
"""

import errno
import gc
import importlib
import os
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress

INTERRUPTED = 130  # 128 + SIGINT
READER_GONE = 141  # 128 + SIGPIPE
FAILED = 3
"""Lowtide itself failed by an unforeseen exception, which says nothing about the input."""
# The new objects after which Python looks for cycles of objects. Most objects are in none, and are freed without this
# search. With Python's own number, it takes an eighth of the time of imports and 5 % of the rest.
_COLLECTED_AT = 100_000
_UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EBADF, errno.EFBIG)


def lowtide() -> int:
    """The command `lowtide`."""
    return guard("lowtide", lambda: importlib.import_module("lowtide.cli.main").main(), refused=2)


def lowtide_opt() -> int:
    """The command `lowtide-opt`."""
    return guard("lowtide-opt", lambda: importlib.import_module("lowtide.cli.opt_tool").main(), refused=1)


def guard(program: str, command: Callable[[], int | None], *, refused: int) -> int:
    """The exit status of a command after all of its output is written; `refused` if the output cannot be written."""
    _open_closed_streams()
    gc.set_threshold(_COLLECTED_AT)
    try:
        try:
            return command() or 0
        finally:
            sys.stdout.flush()
    except (KeyboardInterrupt, OSError) as error:
        status = status_of(error, program, refused)
        if status is None:
            return _failed(program, error)
        return status
    except Exception as error:
        return _failed(program, error)


def _failed(program: str, error: BaseException) -> int:
    """Report a fault of Lowtide, with the traceback."""
    _say("".join(traceback.format_exception(error)))
    _say(f"{program}: error: Lowtide failed, by {type(error).__name__}; please report this with the lines above")
    return FAILED


def status_of(error: BaseException, program: str, refused: int) -> int | None:
    """The exit status after an interrupt or a failed write to standard output, with a message on standard error. None
    for other errors."""
    if isinstance(error, KeyboardInterrupt):
        _say(f"\n{program}: interrupted")
        return INTERRUPTED
    if not isinstance(error, OSError) or error.filename is not None:
        return None
    if error.errno == errno.EPIPE:
        _drop_output()
        return READER_GONE
    if error.errno not in _UNWRITABLE:
        return None
    _drop_output()
    _say(f"{program}: error: cannot write the output: {error.strerror}; send it where there is room")
    return refused


def _open_closed_streams() -> None:
    """A shell may start a command with standard output or error closed (`>&-`); Python then has None for them.

    Writes to a closed standard output fail, as in other programs, so that the command does not end with success.
    """
    for name, mode in (("stdout", os.O_RDONLY), ("stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, mode), "w"))


def _say(text: str) -> None:
    with suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def _drop_output() -> None:
    """Drop buffered output, which would fail once more at Python's exit."""
    with suppress(OSError, AttributeError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
