"""What `lt.matmul` keeps on disk beside its kernels: plans of schedules, and why schedules were refused.

Making a plan takes a second. Without its refusal, a schedule would be compiled again by each process. The versions are
part of the keys of both. They are removed with the kernels.
"""

import os
import warnings
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import Any

from lowtide.compiler.cache import sources
from lowtide.compiler.cache.records import read_record, record_path, write_record
from lowtide.compiler.cache.store import PLANS, REFUSED, KernelStore
from lowtide.errors import CacheWarning, Error

_MOST = 4096  # records in a folder; with more, the older half is removed


def load_plan(store: KernelStore, key: str, names: Collection[str]) -> dict[str, Any] | None:
    """The entries of a plan, at least those with these names; None if there is none, or with a CacheWarning if it
    cannot be used."""
    return _load(store, PLANS, key, names)


def keep_plan(store: KernelStore, key: str, entries: Mapping[str, Any]) -> None:
    _keep(store, PLANS, key, entries)


def load_refusal(store: KernelStore, key: str) -> str | None:
    """Why the kernel of this key was refused; None if it was not."""
    found = _load(store, REFUSED, key, ("why",))
    return None if found is None else str(found["why"])


def keep_refusal(store: KernelStore, key: str, why: str) -> None:
    _keep(store, REFUSED, key, {"why": why})


def _load(store: KernelStore, folder: str, key: str, names: Collection[str]) -> dict[str, Any] | None:
    found = read_record(store, folder, key, names)
    if found.why:
        warnings.warn(f"{record_path(store, folder, key)}: {found.why}; it is made again", CacheWarning, stacklevel=5)
    return found.entries


def _keep(store: KernelStore, folder: str, key: str, entries: Mapping[str, Any]) -> None:
    """Keep entries, unless the folder cannot be written or the sources have changed since this process began."""
    with suppress(Error, OSError):
        if sources.sources_changed() or store.distrust() is not None:
            return
        store.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = write_record(store, folder, key, entries)
        with os.scandir(path.parent) as found:
            records = sorted(found, key=lambda entry: entry.stat().st_mtime)
        for old in records[: len(records) // 2 if len(records) > _MOST else 0]:
            os.unlink(old)
