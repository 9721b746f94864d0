"""The dump folder: one numbered file a step, each written whole or not at all.

    01-problem/00-input.mlir, 01-choose-schedule.mlir, 02-verify-schedule.mlir
    02-cta/01-tile-to-ctas.mlir
    …
    09-ptx/kernel.ptx

The first number is the level's, the second the step's place in the table of steps: the same each time, wherever a
compilation was entered. The last file of a level is the level.
"""

import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from lowtide.dialects.levels import Level
from lowtide.errors import Error

REPRODUCER = "reproducer.mlir"


def write_whole(path: Path, text: str) -> None:
    """Write a file by way of a temporary beside it, so that a reader or a crash never sees half of it.

    Raises Error where the folder or the file cannot be written.
    """
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
    except OSError as error:
        if temporary is not None:
            with suppress(OSError):
                os.unlink(temporary)
        raise Error(
            f"cannot write {path}: {error.strerror or error}; name a folder that exists or can be made, and is writable"
        ) from None


class DumpFolder:
    """Where a compilation writes its levels. Raises Error at once where the folder cannot be written."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        probe = self.path / ".writable"
        write_whole(probe, "")
        probe.unlink()

    def step(self, level: Level, number: int, name: str) -> Path:
        """The file of a step; `number` counts from 1 in the level's table, 0 is what came in."""
        return self.path / f"{level.value:02d}-{level}" / f"{number:02d}-{name}.mlir"

    def ptx(self) -> Path:
        """The file of the PTX text."""
        return self.path / f"{Level.PTX.value:02d}-{Level.PTX}" / "kernel.ptx"

    def clear(self, steps: Iterable[tuple[Level, int, str]]) -> None:
        """Remove what an earlier compilation left of these steps, its PTX and its reproducer: old and new must not mix.

        Other files are left alone: a user may keep edited levels beside the dumped ones.
        """
        for path in (*(self.step(*step) for step in steps), self.ptx(), self.path / REPRODUCER):
            path.unlink(missing_ok=True)
