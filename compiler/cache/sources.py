"""The sha256 of Lowtide's own sources. It is kept on disk, because reading and hashing all of them takes 10 ms.

Sources are identified by contents, in a checkout as in an installation: an edited pass makes other kernels. A record in
the cache's folder maps a state of the files to their sha256. The state holds the path, size, inode and times of change
of each file. Equal states mean equal contents, because every change moves ctime, which no program can set. The
exception is changes within one tick of the clock: within two seconds of a change, no record is written and the files
are hashed again.
"""

import hashlib
import json
import os
import time
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path

from lowtide import elements
from lowtide.compiler.whole_files import write_whole
from lowtide.errors import Error
from lowtide.runtime.files import read_json

FOLDER = "sources"  # holds the records, within the cache's folder
_FOLDERS = ("compiler", "dialects", "passes", "runtime", "targets")
APART = ("fx",)
"""Folders of `compiler` that do not affect kernels."""
_SUFFIXES = (".py", ".so", ".pyd")
_STARTED = time.time()  # about when this process read its code
_SETTLED_NS = 2 * 10**9  # longer than a clock tick of any file system


@lru_cache(maxsize=8)
def own_digest(folder: Path | None = None) -> str:
    """The sha256 of the names and contents of Lowtide's sources and extension, as of the first call.

    `folder`: the cache's, in which the result is remembered. Raises OSError if the sources cannot be read.
    """
    if folder is None:
        return _hashed()
    state, is_settled = _state()
    path = folder / FOLDER / f"{_sha256(_root())}.json"
    found = _remembered(path, state)
    if found is None:
        found = _hashed()
        if is_settled:
            record = {"state": state, "digest": found, "sha256": _sha256(state + found)}
            with suppress(Error, OSError):  # the folder may not be writable
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                write_whole(path, json.dumps(record) + "\n")
    return found


def sources_changed() -> bool:
    """Whether a source has changed since this process started: its code may differ from the files."""
    return any(os.stat(path).st_mtime > _STARTED for path in sources())


@cache
def sources() -> tuple[str, ...]:
    """The paths of all files that count."""
    found: list[str] = []
    for name in _FOLDERS:
        for folder, inner, files in os.walk(os.path.join(_root(), name)):
            inner[:] = [each for each in inner if each != "__pycache__" and not (name == "compiler" and each in APART)]
            found += [os.path.join(folder, file) for file in files if file.endswith(_SUFFIXES)]
    return (*sorted(found), *sorted(map(str, Path(elements.__file__).parent.glob("*.py"))))


def _hashed() -> str:
    root, total = _root(), hashlib.sha256()
    for path in sources():
        name = os.path.relpath(path, root)
        total.update(f"{name}\0{hashlib.sha256(Path(path).read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def _state() -> tuple[str, bool]:
    """The sha256 of the file system's record of the sources, and whether the last change is older than a clock tick."""
    total, now, newest = hashlib.sha256(), time.time_ns(), 0
    for path in sources():
        status = os.stat(path)
        newest = max(newest, status.st_mtime_ns, status.st_ctime_ns)
        total.update(f"{path}\0{status.st_size} {status.st_ino} {status.st_mtime_ns} {status.st_ctime_ns}\n".encode())
    return total.hexdigest(), now - newest > _SETTLED_NS


def _remembered(path: Path, state: str) -> str | None:
    """The digest recorded for this state; None if the record is of another state, or damaged."""
    try:
        record = read_json(path)
        digest = record["digest"]
        is_whole = record["state"] == state and record["sha256"] == _sha256(state + digest)
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return digest if is_whole else None


def _sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _root() -> str:
    """The folder that holds the subpackages."""
    return str(Path(__file__).resolve().parents[2])
