"""Replaces folders atomically, while others read and replace them.

A new folder is written beside its place under a hidden name, and renamed. A rename cannot replace a folder that has
files, so the old one is renamed to a hidden name first, and for a moment the folder is missing. A reader therefore
opens the folder once and reads its files relative to that handle. If something is missing, it tries again if the folder
has changed or a hidden one lies beside it (`while_replaced`). So it sees the old folder or the new one, never a mix.
There is no lock that a crash could leave behind.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

Result = TypeVar("Result")

HIDDEN = ".lowtide-"
"""The prefix of the names of folders that are being written or removed."""

_TAKEN = (errno.ENOTEMPTY, errno.EEXIST)
_MOST_TRIES = 100  # of a writer, against faster ones
_LEAST_LOOKS = 3  # of a reader: the signs of a replacement may vanish between two looks
_PATIENCE = 1.0  # seconds that a reader waits for a replacement
_PAUSE = 0.002


def write_folder(target: Path, files: Mapping[str, bytes], may_replace: Callable[[Path], bool]) -> bool:
    """Write a folder of these files, by relative path, at `target`, completely or not at all.

    False if `target` exists and `may_replace` is false for it. Raises OSError; an old folder is then in its place.
    """
    fresh = _beside(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh.mkdir()
        for name, data in files.items():
            path = fresh / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        for _ in range(_MOST_TRIES):
            before = _identity(target)
            if before is None or may_replace(target):
                if _exchange(fresh, target):
                    return True
            elif _identity(target) == before:  # otherwise it was removed meanwhile
                return False
        raise OSError(f"other writers keep replacing it ({_MOST_TRIES} tries)")
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _exchange(fresh: Path, target: Path) -> bool:
    """Whether `fresh` is now at `target`; false if another writer was faster."""
    old = _beside(target)
    try:
        with suppress(FileNotFoundError):
            os.replace(target, old)
        os.replace(fresh, target)
    except BaseException as error:
        with suppress(OSError):
            os.replace(old, target)  # fails if another writer's folder is there
        if isinstance(error, OSError) and error.errno in _TAKEN:
            return False
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)
    return True


def remove_folder(target: Path) -> None:
    """Remove a folder; readers see all of it or nothing. Raises OSError."""
    old = _beside(target)
    try:
        os.replace(target, old)
    except FileNotFoundError:  # another remover was faster
        return
    shutil.rmtree(old, ignore_errors=True)


def while_replaced(folder: Path, read: Callable[[], Result], failure: type[Exception]) -> Result:
    """The result of `read`, which is tried again if it raises `failure` because the folder is being replaced."""
    deadline = time.monotonic() + _PATIENCE
    looks = 0
    while True:
        before = _identity(folder)
        try:
            return read()
        except failure:
            looks += 1
            replaced = _in_progress(folder) or _identity(folder) != before
            if time.monotonic() > deadline or not (replaced or looks < _LEAST_LOOKS):
                raise
        time.sleep(_PAUSE)


def _beside(target: Path) -> Path:
    return target.parent / f"{_prefix(target)}{secrets.token_hex(4)}"


def _prefix(target: Path) -> str:
    """The prefix of the hidden names beside a folder, short even if the folder's name is long."""
    return f"{HIDDEN}{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:12]}-"


def _in_progress(folder: Path) -> bool:
    target = Path(os.path.realpath(folder))
    try:
        return any(name.startswith(_prefix(target)) for name in os.listdir(target.parent))
    except OSError:
        return False


def _identity(folder: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(folder)
    except OSError:
        return None
    return status.st_dev, status.st_ino
