"""Results of tuning, stored beside the cached kernels: a schedule for a problem on a model of GPU.

A record is one file (`records.py`). Records do not depend on versions: a schedule that was fastest remains a good one.
`compile_gemm` checks and compiles it as it does any other schedule.
"""

import hashlib
import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lowtide.compiler.cache.keys import spec_text
from lowtide.compiler.cache.records import read_record, record_path, write_record
from lowtide.compiler.cache.settings import FOLDER_VARIABLE, OFF
from lowtide.compiler.cache.store import KernelStore
from lowtide.compiler.numerics_words import ANY, REPEATABLE
from lowtide.compiler.spec import GemmSpec
from lowtide.compiler.whole_files import check_writable
from lowtide.errors import CacheWarning, Error

TUNED_VARIABLE = "LOWTIDE_TUNED"
FOLDER = "tuned"
_ENTRIES = ("schedule", "own_choice", "microseconds", "own_microseconds", "confidence", "certain", "lowtide")


def key_of_record(spec: GemmSpec, target: str, device: str, numerics: str) -> str:
    """The key of a record, as 64 hexadecimal digits. `device`: the driver's name of the GPU."""
    parts = {"spec": spec_text(spec), "target": target, "device": device, "numerics": numerics}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def may_be_used() -> bool:
    """Whether the environment allows tuned schedules: LOWTIDE_TUNED is not `off`."""
    return os.environ.get(TUNED_VARIABLE, "") != OFF


def words_of_records(numerics: str) -> tuple[str, ...]:
    """The numerics whose records keep this promise, those without promises first."""
    return (ANY, REPEATABLE) if numerics == ANY else (numerics,)


def has_records(store: KernelStore) -> bool:
    """False if nothing was ever tuned here."""
    return os.path.isdir(store.folder / FOLDER)


def load_record(store: KernelStore, key: str) -> dict[str, Any] | None:
    """The record of this key; None if there is none. None with a CacheWarning if it cannot be used."""
    found = read_record(store, FOLDER, key, _ENTRIES)
    if found.why:
        _ignored(_path(store, key), found.why)
    return found.entries


def check_keepable(store: KernelStore) -> None:
    """Raise Error if no record could be written, before any tuning is done."""
    try:
        check_writable(_path(store, "record"))
    except Error as error:
        raise _not_kept(error) from None


def keep_record(store: KernelStore, key: str, entries: Mapping[str, Any]) -> Path:
    """Write a record, replacing an existing one. Raises Error if it cannot be written."""
    try:
        return write_record(store, FOLDER, key, {name: entries[name] for name in _ENTRIES})
    except Error as error:
        raise _not_kept(error) from None


def _not_kept(error: Error) -> Error:
    return Error(f"the result of tuning cannot be kept: {error} ({FOLDER_VARIABLE} names the cache) [tuned-not-kept]")


def count_records(store: KernelStore) -> int:
    """The number of records."""
    return len(_records(store))


def clear_records(store: KernelStore) -> int:
    """Remove all records. Returns their number. Raises OSError."""
    found = _records(store)
    for path in found:
        path.unlink(missing_ok=True)
    return len(found)


def ignore_record(store: KernelStore, key: str, why: str) -> None:
    """Warn that the record of this key was not used."""
    _ignored(_path(store, key), why)


def _records(store: KernelStore) -> list[Path]:
    return sorted((store.folder / FOLDER).glob("*.json"))


def _path(store: KernelStore, key: str) -> Path:
    return record_path(store, FOLDER, key)


def _ignored(path: Path, why: str) -> None:
    text = f"tuned schedule {path}: {why}; it is ignored, and a schedule is chosen; tune again"
    warnings.warn(text, CacheWarning, stacklevel=5)
