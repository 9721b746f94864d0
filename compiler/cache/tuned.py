"""What was found by tuning, kept beside the cached kernels: a schedule for a problem on a model of GPU.

A record is one file, replaced whole, so of two processes that tune the same the last one's stays. It says the sha256 of
its entries and its own key. It does not go by versions: a schedule that was fastest stays good. What it says is judged
anew by `compile_gemm`, which compiles it as any other schedule.
"""

import hashlib
import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lowtide.compiler.cache.keys import spec_text
from lowtide.compiler.cache.settings import FOLDER_VARIABLE, OFF
from lowtide.compiler.cache.store import KernelStore
from lowtide.compiler.numerics_words import ANY, REPEATABLE
from lowtide.compiler.spec import GemmSpec
from lowtide.compiler.whole_files import check_writable, write_whole
from lowtide.errors import CacheWarning, Error
from lowtide.runtime.files import read_json

TUNED_VARIABLE = "LOWTIDE_TUNED"
FOLDER = "tuned"
_FORMAT = 1
_DIGEST = "sha256"
_ENTRIES = ("schedule", "own_choice", "microseconds", "own_microseconds", "confidence", "certain", "lowtide")


def key_of_record(spec: GemmSpec, target: str, device: str, numerics: str) -> str:
    """The key of a record, as 64 hexadecimal digits; `device` is the name that the driver gives the GPU."""
    parts = {"spec": spec_text(spec), "target": target, "device": device, "numerics": numerics}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def may_be_used() -> bool:
    """Whether the environment lets tuned schedules be chosen: LOWTIDE_TUNED is not `off`."""
    return os.environ.get(TUNED_VARIABLE, "") != OFF


def words_of_records(numerics: str) -> tuple[str, ...]:
    """The numerics under which records were made that keep a promise, those without promises first."""
    return (ANY, REPEATABLE) if numerics == ANY else (numerics,)


def load_record(store: KernelStore, key: str) -> dict[str, Any] | None:
    """The record of this key; None if there is none, or none that can be used: then with a CacheWarning."""
    path = _path(store, key)
    if path.exists() and (why := store.distrust()) is not None:
        _ignored(path, why)
        return None
    try:
        held = read_json(path)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        _ignored(path, str(error))
        return None
    if not isinstance(held, dict) or held.pop(_DIGEST, None) != _digest(held):
        _ignored(path, "its sha256 is not that of its entries: damaged or edited")
        return None
    if held.get("format") != _FORMAT or held.get("key") != key or not set(_ENTRIES) <= held.keys():
        _ignored(path, "it is of another version, or of another problem")
        return None
    return held


def check_keepable(store: KernelStore) -> None:
    """Raise Error where no record could be written, before the work of making one."""
    try:
        check_writable(_path(store, "record"))
    except Error as error:
        raise _not_kept(error) from None


def keep_record(store: KernelStore, key: str, entries: Mapping[str, Any]) -> Path:
    """Write a record in the place of what is there. Raises Error where that cannot be done."""
    held: dict[str, Any] = {"format": _FORMAT, "key": key, **{name: entries[name] for name in _ENTRIES}}
    path = _path(store, key)
    try:
        write_whole(path, json.dumps({**held, _DIGEST: _digest(held)}, indent=1) + "\n")
    except Error as error:
        raise _not_kept(error) from None
    return path


def _not_kept(error: Error) -> Error:
    return Error(f"the result of tuning cannot be kept: {error} ({FOLDER_VARIABLE} names the cache) [tuned-not-kept]")


def count_records(store: KernelStore) -> int:
    """How many there are."""
    return len(_records(store))


def clear_records(store: KernelStore) -> int:
    """Remove all. How many there were. Raises OSError."""
    found = _records(store)
    for path in found:
        path.unlink(missing_ok=True)
    return len(found)


def ignore_record(store: KernelStore, key: str, why: str) -> None:
    """Say that the record of this key was not used."""
    _ignored(_path(store, key), why)


def _records(store: KernelStore) -> list[Path]:
    return sorted((store.folder / FOLDER).glob("*.json"))


def _path(store: KernelStore, key: str) -> Path:
    return store.folder / FOLDER / f"{key}.json"


def _digest(entries: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(entries, sort_keys=True).encode()).hexdigest()


def _ignored(path: Path, why: str) -> None:
    text = f"tuned schedule {path}: {why}; it is ignored, and the schedule is chosen: tune again"
    warnings.warn(text, CacheWarning, stacklevel=5)
