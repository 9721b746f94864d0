"""Files that are read whole: regular ones of bounded size, so that no pipe or device holds up or exhausts a reader."""

from __future__ import annotations

import errno
import json
import os
import stat
from typing import Any, BinaryIO

MOST_BYTES = 1 << 28  # of a file; the code of a kernel, or a level of IR, has less than a MiB


def read_file(path: str | os.PathLike[str], folder: int | None = None, *, special: bool = False) -> bytes:
    """The bytes of a file, with a `path` relative to an opened `folder` if there is one.

    Raises OSError for what cannot be read, is no regular file unless `special` ones, such as pipes, are asked for, or
    has more than MOST_BYTES; ValueError for a path with a null character.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | (0 if special else os.O_NONBLOCK)
    with open(os.open(path, flags, dir_fd=folder), "rb") as file:
        if not special and not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", os.fspath(path))
        return bounded(file)


def bounded(file: BinaryIO) -> bytes:
    """What is left of an open file. Raises OSError for more than MOST_BYTES."""
    data = file.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise OSError(errno.EFBIG, f"it has more than {MOST_BYTES} bytes", getattr(file, "name", ""))
    return data


def read_json(path: str | os.PathLike[str], folder: int | None = None) -> Any:
    """What a file of JSON holds. Raises OSError as `read_file`, ValueError for text that is no JSON."""
    return parse_json(read_file(path, folder))


def parse_json(text: bytes | str) -> Any:
    """What a text of JSON holds. Raises ValueError."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("brackets are nested too deep") from None
