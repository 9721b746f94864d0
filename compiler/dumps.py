"""The dump folder: one numbered file per step, each written completely or not at all.

    01-problem/00-input.mlir, 01-choose-schedule.mlir, 02-verify-schedule.mlir
    02-cta/01-tile-to-ctas.mlir
    …
    09-ptx/kernel.ptx
    origins/02-cta/01-tile-to-ctas.json
    …

The first number is that of the level, the second the step's place in the table of steps. They do not depend on the
level at which compilation starts. The last file of a level holds the finished level. `origins` has the origins of the
ops of each text (`origins/files.py`).
"""

import fcntl
import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType

from lowtide.compiler.origins.files import origins_file, text_file
from lowtide.compiler.origins.origins import PTX_PLACE
from lowtide.compiler.whole_files import write_whole
from lowtide.dialects.levels import Level
from lowtide.errors import Error

REPRODUCER = "reproducer.mlir"


def place_of(level: Level, number: int, name: str) -> str:
    """The name of a step, which is that of its files. `number` counts from 1 in the level's table; 0 is the input."""
    return f"{level.value:02d}-{level}/{number:02d}-{name}"


class DumpFolder:
    """The folder that a compilation dumps into. Used in a `with` block, which locks the folder.

    The lock is the operating system's, on the folder itself: it is released however the process ends. Raises Error at
    once if the folder cannot be written, or another compilation is dumping into it.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
            raise Error(f"a dump folder is a str or a pathlib.Path, not {type(path).__name__} [dump-kind]")
        if not os.fspath(path):
            raise Error("the name of the dump folder is empty; name one, or '.' for the current folder [dump-name]")
        self.path = Path(path)
        self._handle: int | None = None

    def __enter__(self) -> "DumpFolder":
        probe = self.path / f".writable.{secrets.token_hex(4)}"
        write_whole(probe, "")
        probe.unlink()
        self._lock()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._handle is not None:
            # Closing alone would keep the lock if a process forked meanwhile is alive.
            fcntl.flock(self._handle, fcntl.LOCK_UN)
            os.close(self._handle)
            self._handle = None

    def _lock(self) -> None:
        handle = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(handle)
            raise Error(
                f"another compilation is dumping into {self.path}; name another folder, or wait until it is done"
                " [dump-locked]"
            ) from None
        except OSError:
            os.close(handle)  # the file system has no locks: files may mix, but the compilation never reads them
            return
        self._handle = handle

    def text(self, place: str) -> Path:
        """The file of a step's text."""
        return text_file(self.path, place)

    def origins(self, place: str) -> Path:
        """The file of the origins of a step's ops."""
        return origins_file(self.path, place)

    def clear(self, steps: Iterable[tuple[Level, int, str]]) -> None:
        """Remove the files of these steps, the PTX and the reproducer of an earlier compilation, so that none mix.

        Other files are kept: a user may store edited levels beside the dumps.
        """
        places = [*(place_of(*step) for step in steps), PTX_PLACE]
        files = [file(place) for place in places for file in (self.text, self.origins)]
        for path in (*files, self.path / REPRODUCER):
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise Error(
                    f"cannot replace {path}: {error.strerror}; remove it, or name another folder [dump-replaced]"
                ) from None
