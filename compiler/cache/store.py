"""A folder of compiled kernels, shared by processes.

An entry is a saved kernel (`lowtide.runtime.storage`), named by its key.

An entry is written to a hidden folder and renamed into place. So readers see all of it or nothing, and a process that
dies leaves no lock, only a hidden folder that later processes remove. Every load compares the hashes and the key
recorded in the entry. A damaged entry is reported, removed, and compiled again. If the folder cannot be written, there
is one warning; compiling still works.
"""

import os
import re
import stat
import threading
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lowtide.compiler.cache import sources
from lowtide.errors import CacheWarning, LoadError
from lowtide.runtime import storage
from lowtide.runtime.files import read_json
from lowtide.runtime.folders import HIDDEN, remove_folder

PLANS, REFUSED = "plans", "refused"  # folders of records that follow from the versions, as the kernels do
_KEY = re.compile(r"[0-9a-f]{64}\Z")
_OWN_KEY = "cache_key"  # an entry of the manifest
_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_ABANDONED = 3600.0  # seconds after which no process writes a hidden folder any more
_LEFT = 0.9  # fraction of the bound that is kept when entries are removed


@dataclass(frozen=True)
class Stored:
    """A kernel from the cache, with the parts that `lowtide.runtime.Kernel` is made of."""

    manifest: dict[str, Any]
    ptx: str
    cubin: bytes | None


@dataclass(frozen=True)
class Entry:
    """An entry of the folder: its size in bytes on disk, and its last use in seconds since the epoch."""

    key: str
    folder: Path
    size: int
    used: float

    def described(self) -> dict[str, Any]:
        """Its manifest, unchecked; {} if it cannot be read."""
        try:
            manifest = read_json(self.folder / storage.MANIFEST)
        except (OSError, ValueError):
            return {}
        return manifest if isinstance(manifest, dict) else {}


class KernelStore:
    """The kernels in one folder, of at most `most_bytes` in total; the least recently used are removed first."""

    def __init__(self, folder: Path, most_bytes: int) -> None:
        self.folder = folder
        self.most_bytes = most_bytes
        self._lock = threading.Lock()
        self._bytes: int | None = None  # approximate, known from the first write on
        self._complained = False

    def load(self, key: str) -> Stored | None:
        """The kernel of this key; None if there is none. None with a CacheWarning if it cannot be used."""
        folder = self.folder / key
        if not os.path.isdir(folder):
            return None
        if (why := self.distrust()) is not None:
            self._complain(why)
            return None
        try:
            stored = self._read(key)
        except LoadError as error:
            if os.path.isdir(folder):  # otherwise another process removed it to make room
                _warn(f"cached kernel {_what(error)}; it is compiled again")
                with suppress(OSError):
                    remove_folder(folder)
            return None
        with suppress(OSError):
            os.utime(folder)
        return stored

    def has(self, key: str) -> bool:
        """Whether there is an entry for this key, valid or not."""
        return (self.folder / key).is_dir()

    def keep(self, key: str, manifest: Mapping[str, Any], ptx: str, cubin: bytes | None) -> None:
        """Write a kernel, replacing an existing entry. If it cannot be written, warn once with a CacheWarning."""
        try:
            if sources.sources_changed():
                return
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if (why := self.distrust()) is not None:
                self._complain(why)
                return
            storage.save(self.folder / key, {**manifest, _OWN_KEY: key}, ptx, cubin)
            self._make_room(key)
        except (LoadError, OSError) as error:
            self._complain(str(error))

    def distrust(self) -> str | None:
        """Why other users may have put kernels into the folder, and what to do. None if they cannot, or if there is no
        folder."""
        try:
            status = os.stat(self.folder)
        except OSError:
            return None
        if not _is_ours(status):
            return f"{self.folder} belongs to another user, whose kernels would be run"
        if status.st_mode & _BY_OTHERS:
            return f"others may write to {self.folder}; look at what it holds and `chmod go-w` it"
        return None

    def entries(self) -> list[Entry]:
        """All entries, most recently used first. Raises OSError if the folder exists and cannot be read."""
        found = []
        for name in self._names():
            entry = _entry(self.folder / name) if _KEY.match(name) else None
            if entry is not None:
                found.append(entry)
        return sorted(found, key=lambda entry: entry.used, reverse=True)

    def fault(self, entry: Entry) -> str | None:
        """What is wrong with an entry; None if it is valid."""
        try:
            self._read(entry.key)
        except LoadError as error:
            return _what(error)
        return None

    def clear(self) -> int:
        """Remove all entries, and folders left by writers. Returns the number of entries. Raises OSError."""
        entries = self.entries()
        for entry in entries:
            remove_folder(entry.folder)
        for name in (sources.FOLDER, PLANS, REFUSED):
            remove_folder(self.folder / name)
        self._remove_abandoned(0.0)
        return len(entries)

    def _read(self, key: str) -> Stored:
        """Raises LoadError."""
        with suppress(OSError):  # load_saved reports a missing folder
            if not _is_ours(os.stat(self.folder / key)):
                raise LoadError(f"{self.folder / key}: it belongs to another user [cache-owner]")
        manifest, ptx, cubin = storage.read(self.folder / key)
        if manifest.pop(_OWN_KEY, None) != key:
            raise LoadError(f"{self.folder / key}: it is the kernel of another key [other-key]")
        del manifest["files"]
        return Stored(manifest, ptx, cubin)

    def _names(self) -> Iterator[str]:
        try:
            with os.scandir(self.folder) as found:
                yield from (entry.name for entry in found)
        except FileNotFoundError:
            return

    def _make_room(self, kept: str) -> None:
        """If the folder is too large, remove the least recently used entries, except the one just written."""
        with self._lock:
            written = _entry(self.folder / kept)
            if self._bytes is not None and written is not None:
                self._bytes += written.size
            if self._bytes is not None and self._bytes <= self.most_bytes:
                return
            self._remove_abandoned(_ABANDONED)
            entries = self.entries()
            total = sum(entry.size for entry in entries)
            most = self.most_bytes if total <= self.most_bytes else int(self.most_bytes * _LEFT)
            while total > most and entries:
                entry = entries.pop()
                if entry.key != kept:
                    remove_folder(entry.folder)
                    total -= entry.size
            self._bytes = total

    def _remove_abandoned(self, age: float) -> None:
        for name in list(self._names()):
            folder = self.folder / name
            with suppress(OSError):
                if name.startswith(HIDDEN) and time.time() - folder.stat().st_mtime >= age:
                    remove_folder(folder)

    def _complain(self, what: str) -> None:
        with self._lock:
            if self._complained:
                return
            self._complained = True
        _warn(
            f"{what}: kernels compiled here are not kept in {self.folder}; set LOWTIDE_CACHE to another"
            " folder or to `off`"
        )


def _owners() -> tuple[int, ...]:
    """The users whose files are trusted: this user, and root."""
    return os.geteuid(), 0


def _is_ours(status: os.stat_result) -> bool:
    return status.st_uid in _owners()


def _entry(folder: Path) -> Entry | None:
    """The entry; None if the folder is missing, was replaced, or is no folder. Raises OSError."""
    try:
        used = folder.stat().st_mtime
        with os.scandir(folder) as files:
            size = sum(file.stat().st_size for file in files)
    except (FileNotFoundError, NotADirectoryError):
        return None
    return Entry(folder.name, folder, size, used)


def _what(error: LoadError) -> str:
    """The error without its advice, which addresses users who saved a kernel."""
    return str(error).rpartition(";")[0] or str(error)


def _warn(text: str) -> None:
    warnings.warn(text, CacheWarning, stacklevel=5)
