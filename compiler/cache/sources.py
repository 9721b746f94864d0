"""Lowtide's own sources as one sha256, which is remembered on disk: to read and hash them all takes 10 ms.

Sources go by their contents, in a checkout as where it is installed: an edited pass makes other kernels. A record in
the cache's folder says the sha256 for a state of the files: the path, size, inode and times of change of each. A file
in the same state has the same contents, since ctime, which no program can set, moves with each change; but for changes
within one tick of the clock. So the state is not remembered within two seconds of a change, and the files are hashed
again.
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

FOLDER = "sources"  # of records, in the cache's
_FOLDERS = ("compiler", "dialects", "passes", "runtime", "targets")
APART = ("fx",)
"""Folders of `compiler` that make no kernel."""
_SUFFIXES = (".py", ".so", ".pyd")
_STARTED = time.time()  # the code that this process runs was read about then
_SETTLED_NS = 2 * 10**9  # longer than a tick of any file system's clock


@lru_cache(maxsize=8)
def own_digest(folder: Path | None = None) -> str:
    """The sha256 of Lowtide's sources and extension, each with its name, as they were when it was first asked for.

    `folder`: of the cache, where the result is remembered. Raises OSError where the sources cannot be read.
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
            with suppress(Error, OSError):  # a folder that cannot be written
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                write_whole(path, json.dumps(record) + "\n")
    return found


def sources_changed() -> bool:
    """Whether a source was written since this process began: it may run other code than lies there now."""
    return any(os.stat(path).st_mtime > _STARTED for path in sources())


@cache
def sources() -> tuple[str, ...]:
    """The paths of all that counts."""
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
    """The sha256 of what the file system says of the sources, and whether that is older than its clock's ticks."""
    total, now, newest = hashlib.sha256(), time.time_ns(), 0
    for path in sources():
        status = os.stat(path)
        newest = max(newest, status.st_mtime_ns, status.st_ctime_ns)
        total.update(f"{path}\0{status.st_size} {status.st_ino} {status.st_mtime_ns} {status.st_ctime_ns}\n".encode())
    return total.hexdigest(), now - newest > _SETTLED_NS


def _remembered(path: Path, state: str) -> str | None:
    """The digest of this state; None where the record is of another, or damaged."""
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
