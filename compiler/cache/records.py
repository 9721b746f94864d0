"""Small files of JSON beside the cached kernels. Each holds its key and the sha256 of its entries, and is replaced
atomically: if two processes write the same record, the last one stays."""

import hashlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lowtide.compiler.cache.store import KernelStore
from lowtide.compiler.whole_files import write_whole
from lowtide.runtime.files import read_json

_FORMAT = 1
_DIGEST = "sha256"


class Read(NamedTuple):
    """The entries of a record; None if there is no record, or if it cannot be used. `why`: why it cannot be used."""

    entries: dict[str, Any] | None
    why: str = ""


def record_path(store: KernelStore, folder: str, key: str) -> Path:
    return store.folder / folder / f"{key}.json"


def read_record(store: KernelStore, folder: str, key: str, names: Collection[str]) -> Read:
    """The record of a key, with entries of at least these names."""
    path = record_path(store, folder, key)
    if path.exists() and (why := store.distrust()) is not None:
        return Read(None, why)
    try:
        held = read_json(path)
    except FileNotFoundError:
        return Read(None)
    except (OSError, ValueError) as error:
        return Read(None, str(error))
    if not isinstance(held, dict) or held.pop(_DIGEST, None) != _digest(held):
        return Read(None, "its sha256 does not match its entries; it is damaged or was edited")
    if held.get("format") != _FORMAT or held.get("key") != key or not {*names} <= held.keys():
        return Read(None, "it belongs to another version or another problem")
    return Read(held)


def write_record(store: KernelStore, folder: str, key: str, entries: Mapping[str, Any]) -> Path:
    """Replaces an existing record. Raises Error if it cannot be written."""
    held: dict[str, Any] = {"format": _FORMAT, "key": key, **entries}
    path = record_path(store, folder, key)
    write_whole(path, json.dumps({**held, _DIGEST: _digest(held)}, indent=1) + "\n")
    return path


def _digest(entries: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(entries, sort_keys=True).encode()).hexdigest()
