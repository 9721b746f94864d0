"""A saved kernel on disk: a directory with manifest.json, kernel.ptx and, if ptxas ran, kernel.cubin.

The manifest holds each file's size and sha256, and the sha256 of its own entries, so that a truncated or edited kernel
is refused before it runs.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lowtide.errors import LoadError
from lowtide.runtime.files import parse_json, read_file
from lowtide.runtime.folders import while_replaced, write_folder
from lowtide.runtime.manifest import FORMAT as MANIFEST_FORMAT
from lowtide.runtime.manifest import is_integer, shown, validate

__all__ = ["CUBIN", "DIGEST", "MANIFEST", "MANIFEST_FORMAT", "PTX", "as_path", "digest", "files_of", "read", "save"]

MANIFEST, PTX, CUBIN = "manifest.json", "kernel.ptx", "kernel.cubin"
DIGEST = "sha256"  # the manifest's entry over its other entries


def save(path: str | os.PathLike[str], manifest: Mapping[str, Any], ptx: str, cubin: bytes | None) -> Path:
    """Write a saved kernel to the directory `path`, completely or not at all; it replaces an older saved kernel.

    A symbolic link is followed. Several threads or processes may save to one path, and load from it meanwhile; the last
    one stays. Returns the path. Raises LoadError if the manifest is invalid, if `path` holds anything but a saved
    kernel, or if it cannot be written.
    """
    given = as_path(path, "save to")
    files, _ = files_of(manifest, ptx, cubin, f"saving {given}")
    try:
        target = Path(os.path.realpath(given))
        if target == Path.cwd() or target in Path.cwd().parents:
            raise LoadError(
                f"cannot save to {given}: it is the working directory, or holds it; name a folder in it [save-over-cwd]"
            )
        if not write_folder(target, files, _is_replaceable):
            raise LoadError(
                f"cannot save to {given}: it is not a saved kernel; choose another path, or remove it first"
                " [save-over-other]"
            )
    except OSError as error:
        raise LoadError(
            f"cannot save to {given}: {error.strerror or error}; choose a path that can be written [save-write]"
        ) from None
    return given


def files_of(manifest: Mapping[str, Any], ptx: str, cubin: bytes | None, what: str) -> tuple[dict[str, bytes], str]:
    """The files of a saved kernel by name, and the sha256 of its manifest. Raises LoadError, which begins with `what`,
    if the manifest is invalid."""
    files = {PTX: ptx.encode()} | ({} if cubin is None else {CUBIN: bytes(cubin)})
    complete: dict[str, Any] = {
        **{key: value for key, value in manifest.items() if key != DIGEST},
        "files": {
            name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()
        },
    }
    validate(complete, what)
    own = complete[DIGEST] = digest(complete)
    files[MANIFEST] = (json.dumps(complete, indent=1, ensure_ascii=False) + "\n").encode()
    return files, own


def _is_replaceable(target: Path) -> bool:
    try:
        names = set(os.listdir(target))
    except OSError:  # a file, or gone meanwhile
        return False
    return not names or (MANIFEST in names and names <= {MANIFEST, PTX, CUBIN})


def read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], str, bytes | None]:
    """Manifest, PTX and cubin of a saved kernel, all from one save. Raises LoadError if something is missing,
    truncated, edited, out of range or of another format."""
    source = as_path(path, "load")
    return while_replaced(source, lambda: _read(source), LoadError)


def _read(source: Path) -> tuple[dict[str, Any], str, bytes | None]:
    try:
        folder = os.open(source, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        known = {errno.ENOENT: "no such directory", errno.ENOTDIR: "not a directory"}
        what = known.get(error.errno or 0, error.strerror or str(error))
        raise LoadError(f"{source}: {what}; pass the directory that `kernel.save` wrote [load-read]") from None
    try:
        manifest = _read_manifest(source, folder)
        files, where = manifest.get("files"), source / MANIFEST
        if not isinstance(files, dict) or PTX not in files or not set(files) <= {PTX, CUBIN}:
            raise LoadError(
                f"{where}: entry 'files' must list {PTX}, and may list {CUBIN}; save the kernel again [manifest-files]"
            )
        data = _read_checked(source, folder, PTX, files[PTX])
        cubin = _read_checked(source, folder, CUBIN, files[CUBIN]) if CUBIN in files else None
    finally:
        os.close(folder)
    try:
        ptx = data.decode()
    except UnicodeDecodeError as error:
        raise LoadError(f"{source / PTX}: not UTF-8 ({error}); save the kernel again [ptx-utf8]") from None
    if manifest.pop(DIGEST, None) != digest(manifest):
        raise LoadError(
            f"{where}: entry {DIGEST!r} is missing or does not match the other entries: damaged or edited; save the"
            " kernel again [manifest-digest]"
        )
    return manifest, ptx, cubin


def _read_manifest(source: Path, folder: int) -> dict[str, Any]:
    where = source / MANIFEST
    try:
        manifest = parse_json(_read_bytes(source, folder, MANIFEST))
    except ValueError as error:  # neither UTF-8 nor JSON
        raise LoadError(
            f"{where}: not JSON ({error}), perhaps truncated; save the kernel again [manifest-json]"
        ) from None
    validate(manifest, str(where))
    return dict(manifest)


def digest(manifest: Mapping[str, Any]) -> str:
    """The sha256 of a manifest's entries in a canonical spelling."""
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _read_bytes(source: Path, folder: int, name: str) -> bytes:
    """A file of the folder opened as `folder`, wherever it is now."""
    try:
        return read_file(name, folder)
    except FileNotFoundError:
        raise LoadError(f"{source}: {name} is missing; save the kernel again [file-missing]") from None
    except OSError as error:
        raise LoadError(
            f"{source / name}: {error.strerror or error}; save the kernel again, or make it readable [file-readable]"
        ) from None


def _read_checked(source: Path, folder: int, name: str, entry: Any) -> bytes:
    data = _read_bytes(source, folder, name)
    if not isinstance(entry, dict) or not is_integer(entry.get("size")) or not isinstance(entry.get("sha256"), str):
        raise LoadError(
            f"{source / MANIFEST}: files[{name!r}] must have size and sha256; save the kernel again [file-entry]"
        )
    if len(data) != entry["size"]:
        raise LoadError(
            f"{source / name}: {len(data)} bytes, the manifest says {shown(entry['size'])}: truncated; save it again"
            " [file-size]"
        )
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise LoadError(
            f"{source / name}: its sha256 differs from the manifest's: damaged or edited; save it again [file-digest]"
        )
    return data


def as_path(path: str | os.PathLike[str], what: str) -> Path:
    """The path. Raises LoadError if it is not a valid path."""
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise LoadError(
            f"cannot {what} {path!r}: it is {type(path).__name__}; pass a str or a pathlib.Path [path-type]"
        )
    if not os.fspath(path) or "\0" in os.fspath(path):
        raise LoadError(
            f"cannot {what} {os.fspath(path)!r}: a path must not be empty or have a null character [path-empty]"
        )
    return Path(path)
