"""A saved kernel on disk: a directory with manifest.json, kernel.ptx and, where ptxas ran, kernel.cubin.

The manifest holds each file's size and sha256, and the sha256 of its own entries, so what was truncated or edited is
noticed before it is run.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lowtide.errors import LoadError
from lowtide.runtime.manifest import is_integer, shown, validate

MANIFEST, PTX, CUBIN = "manifest.json", "kernel.ptx", "kernel.cubin"
DIGEST = "sha256"  # the manifest's entry on its other entries


def save(path: str | os.PathLike[str], manifest: Mapping[str, Any], ptx: str, cubin: bytes | None) -> Path:
    """Write a saved kernel to the directory `path`, whole or not at all; an older saved kernel there is replaced.

    Returns the path. Raises LoadError when the manifest is invalid, when `path` holds something else than a saved
    kernel, or when it cannot be written.
    """
    target = _as_path(path, "save to")
    files = {PTX: ptx.encode()} | ({} if cubin is None else {CUBIN: bytes(cubin)})
    complete = {
        **{key: value for key, value in manifest.items() if key != DIGEST},
        "files": {
            name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()
        },
    }
    validate(complete, f"saving {target}")
    complete[DIGEST] = _digest(complete)
    files[MANIFEST] = (json.dumps(complete, indent=1, ensure_ascii=False) + "\n").encode()
    if target.exists() and not _is_replaceable(target):
        raise LoadError(f"cannot save to {target}: it is not a saved kernel; choose another path, or remove it first")
    token = secrets.token_hex(4)
    fresh, old = (target.parent / f".{target.name}.{token}.{suffix}" for suffix in ("new", "old"))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh.mkdir()
        for name, data in files.items():
            (fresh / name).write_bytes(data)
        _exchange(fresh, target, old)
    except OSError as error:
        raise LoadError(
            f"cannot save to {target}: {error.strerror or error}; choose a path that can be written"
        ) from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
        shutil.rmtree(old, ignore_errors=True)
    return target


def _is_replaceable(target: Path) -> bool:
    if not target.is_dir():
        return False
    names = {entry.name for entry in target.iterdir()}
    return not names or (MANIFEST in names and names <= {MANIFEST, PTX, CUBIN})


def _exchange(fresh: Path, target: Path, old: Path) -> None:
    """Put `fresh` in `target`'s place. A rename cannot replace a directory with files, so that steps aside first."""
    if target.exists():
        os.replace(target, old)
    try:
        os.replace(fresh, target)
    except OSError:
        if old.exists():
            os.replace(old, target)
        raise


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], str, bytes | None]:
    """Manifest, PTX and cubin of a saved kernel. Raises LoadError when something is missing, truncated, edited, out of
    range or of another format."""
    source = _as_path(path, "load")
    if not source.is_dir():
        what = "is no directory" if source.exists() else "no such directory"
        raise LoadError(f"{source}: {what}; pass the directory that `kernel.save` wrote")
    where = source / MANIFEST
    try:
        manifest = json.loads(_read_bytes(source, MANIFEST))
    except (ValueError, RecursionError) as error:  # neither UTF-8 nor JSON, or brackets without end
        raise LoadError(f"{where}: not JSON ({error}), perhaps truncated; save the kernel again") from None
    validate(manifest, str(where))
    files = manifest.get("files")
    if not isinstance(files, dict) or PTX not in files or not set(files) <= {PTX, CUBIN}:
        raise LoadError(f"{where}: entry 'files' must list {PTX}, and may list {CUBIN}; save the kernel again")
    data = _read_checked(source, PTX, files[PTX])
    try:
        ptx = data.decode()
    except UnicodeDecodeError as error:
        raise LoadError(f"{source / PTX}: not UTF-8 ({error}); save the kernel again") from None
    cubin = _read_checked(source, CUBIN, files[CUBIN]) if CUBIN in files else None
    if manifest.pop(DIGEST, None) != _digest(manifest):
        raise LoadError(f"{where}: entry {DIGEST!r} is not that of the other entries: damaged or edited; save it again")
    return manifest, ptx, cubin


def _digest(manifest: Mapping[str, Any]) -> str:
    """The sha256 of a manifest's entries, in one spelling."""
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _read_bytes(source: Path, name: str) -> bytes:
    try:
        return (source / name).read_bytes()
    except FileNotFoundError:
        raise LoadError(f"{source}: {name} is missing; save the kernel again") from None
    except OSError as error:
        raise LoadError(f"{source / name}: {error.strerror or error}; make it readable") from None


def _read_checked(source: Path, name: str, entry: Any) -> bytes:
    data = _read_bytes(source, name)
    if not isinstance(entry, dict) or not is_integer(entry.get("size")) or not isinstance(entry.get("sha256"), str):
        raise LoadError(f"{source / MANIFEST}: files[{name!r}] must have size and sha256; save the kernel again")
    if len(data) != entry["size"]:
        raise LoadError(
            f"{source / name}: {len(data)} bytes, the manifest says {shown(entry['size'])}: truncated; save it again"
        )
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise LoadError(f"{source / name}: its sha256 is not the manifest's: damaged or edited; save the kernel again")
    return data


def _as_path(path: str | os.PathLike[str], what: str) -> Path:
    """Raises LoadError for what names no place on disk."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise LoadError(f"cannot {what} {path!r}: it is {type(path).__name__}; pass a str or a pathlib.Path")
    if not os.fspath(path) or "\0" in os.fspath(path):
        raise LoadError(f"cannot {what} {os.fspath(path)!r}: a path is not empty and has no null character")
    return Path(path)
