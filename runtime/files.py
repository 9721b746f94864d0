"""Reads files: regular ones of bounded size, so that no pipe or device blocks or exhausts a reader."""

from __future__ import annotations

import errno
import json
import os
import stat
from typing import Any, BinaryIO

MOST_BYTES = 1 << 28  # the largest file; the code of a kernel, or a level of IR, has less than a MiB


def read_file(path: str | os.PathLike[str], folder: int | None = None, *, special: bool = False) -> bytes:
    """The bytes of a file; `path` is relative to an opened `folder` if one is given.

    Raises OSError for a file that cannot be read, that has more than MOST_BYTES, or that is not regular unless
    `special` allows it, such as a pipe; ValueError for a path with a null character.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | (0 if special else os.O_NONBLOCK)
    with open(os.open(path, flags, dir_fd=folder), "rb") as file:
        if not special and not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file", os.fspath(path))
        return bounded(file)


def bounded(file: BinaryIO) -> bytes:
    """The rest of an open file. Raises OSError for more than MOST_BYTES."""
    data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {MOST_BYTES} bytes", getattr(file, "name", ""))
    return data


def read_json(path: str | os.PathLike[str], folder: int | None = None) -> Any:
    """The contents of a JSON file. Raises OSError as `read_file`, ValueError for text that is not JSON."""
    return parse_json(read_file(path, folder))


def parse_json(text: bytes | str) -> Any:
    """The contents of a JSON text. Raises ValueError."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("brackets are nested too deep") from None
