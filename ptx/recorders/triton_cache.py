"""Kernels in a folder of Triton's cache (TRITON_CACHE_DIR), and the values that a launch of them must add.

For each compiled kernel the cache has a folder with the PTX, the compiler's metadata and the IR. The IR has the names
of the parameters. The cache does not have the grid, the numbers and the arrays of a launch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lowtide.errors import LaunchError
from lowtide.interpreter.ptx.syntax import Variable
from lowtide.interpreter.ptx.table import bits_of
from lowtide.ptx.dtypes import element_of
from lowtide.ptx.recorders.launch import entry_of
from lowtide.ptx.recording import write_description

_ARGUMENT = re.compile(r"%([\w$.]+): (!?[\w.]+(?:<(?:[^<>]|<[^<>]*>)*>)?)")
_MISSING = {
    "pointer": "an array and its shape",
    "tensor_map": "an array, its shape, dims and strides_bytes",
    "scalar": "a value",
    "bytes": "its bytes in hexadecimal digits",
}
_SWIZZLES = {0: "none", 1: "32B", 2: "64B", 3: "128B"}
_SCRATCH = ("global_scratch", "profile_scratch")


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel: its name and type in Triton's IR, and its description in a launch.json, in which null
    stands for each value that the user must add."""

    name: str
    type: str
    described: Mapping[str, Any]

    @property
    def missing(self) -> str:
        """What the user must add for it; empty if nothing."""
        return _MISSING.get(self.described["kind"], "")


@dataclass(frozen=True)
class CachedKernel:
    """A kernel of the cache: the file of its PTX, its name and target, the known part of a launch, and parameters."""

    file: Path
    name: str
    target: str
    known: Mapping[str, Any]
    parameters: tuple[Parameter, ...]

    def write(self, folder: Path) -> None:
        """Write the kernel and a launch.json, in which null stands for each value that the user must add."""
        arrays = {
            each.name: {"dtype": each.described.get("element", each.type), "shape": None}
            for each in self.parameters
            if each.described["kind"] in ("pointer", "tensor_map")
        }
        params = [{"name": each.name, **each.described} for each in self.parameters]
        launch = {"name": self.name, "grid": None, **self.known, "params": params, "arrays": arrays}
        write_description(folder, self.file.read_text(encoding="utf-8"), launch)


def kernels_in(cache: Path) -> list[CachedKernel]:
    """The kernels in a folder of the cache, or in the whole cache, by name.

    Raises LaunchError if there is none, or if the files of one are not those of Triton 3.4 to 3.9.
    """
    files = sorted(cache.rglob("*.ptx"), key=lambda file: (file.stem, file.parent.name))
    found = [_kernel(file) for file in files if file.with_suffix(".json").exists()]
    if not found:
        raise LaunchError(
            f"{cache} has no Triton kernel (NAME.ptx beside NAME.json); name a folder of TRITON_CACHE_DIR, "
            "by default ~/.triton/cache [triton-cache]"
        )
    return found


def _kernel(file: Path) -> CachedKernel:
    try:
        metadata = json.loads(file.with_suffix(".json").read_text(encoding="utf-8"))
        text = file.read_text(encoding="utf-8")
        cluster = [*map(int, metadata.get("cluster_dims") or (metadata.get("num_ctas", 1), 1, 1))]
        block = [32 * int(metadata["num_warps"]), 1, 1]
        known = {"block": block, "cluster": cluster, "shared_bytes": int(metadata["shared"])}
        known["cooperative"] = bool(metadata.get("launch_cooperative_grid"))
        name, arch = metadata["name"], f"sm_{int(metadata['target']['arch'])}"
        variables = entry_of(text, name).parameters
        return CachedKernel(file, name, arch, known, tuple(_parameters(file, metadata, variables)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise LaunchError(
            f"{file.with_suffix('.json')} is not as Triton 3.4 to 3.9 writes it: {type(error).__name__}: {error} "
            "[triton-metadata]"
        ) from None


def _parameters(file: Path, metadata: Mapping[str, Any], variables: Sequence[Variable]) -> list[Parameter]:
    """The parameters. Their names and types are those of the IR if it exists, else those of the PTX."""
    ir = file.with_suffix(".ttir")
    head = re.search(rf"tt\.func public @{re.escape(metadata['name'])}\((.*?)\)\s*attributes", _read(ir), re.DOTALL)
    typed = _ARGUMENT.findall(head[1]) if head is not None else []
    rest = len(variables) - len(typed)
    if rest not in range(len(_SCRATCH) + 1):
        typed = [(each.name, f"{each.type}") for each in variables]
        rest = 0
    typed = _with_extents(typed)
    maps = iter(metadata.get("tensordesc_meta") or ())
    found = [
        _parameter(name, type, next(maps, {}) if "tensordesc" in type else {}, variable)
        for (name, type), variable in zip(typed, variables, strict=False)
    ]
    for name in _SCRATCH[:rest]:
        size = metadata.get(f"{name}_size") or 0
        found.append(Parameter(name, "scratch", {"kind": "scratch", "bytes": size} if size else {"kind": "null"}))
    return found


def _with_extents(typed: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The parameters, with names for the extents and strides that follow a tensor descriptor."""
    found: list[tuple[str, str]] = []
    names: list[str] = []
    for name, type in typed:
        found.append((names.pop(0) if names and type in ("i32", "i64") else name, type))
        if "tensordesc" in type and (shape := re.search(r"<([\dx]+)x\w", type)) is not None:
            axes = range(shape[1].count("x") + 1)
            names = [f"{name}.{what}{axis}" for what in ("shape", "stride") for axis in axes]
    return found


def _parameter(name: str, type: str, made: Mapping[str, Any], variable: Variable) -> Parameter:
    pointed = re.search(r"ptr<(\w+)", type)
    if pointed is not None:
        return Parameter(name, _element(pointed[1]), {"kind": "pointer", "array": name})
    tensor = re.search(r"tensordesc<(?:tensor<)?(?:[\dx ]*x)?(\w+)", type)
    if tensor is not None:
        described: dict[str, Any] = {"kind": "tensor_map", "array": name, "dims": None, "strides_bytes": None}
        box, swizzle = [*reversed(made.get("block_size", ()))], _SWIZZLES.get(made.get("swizzle", 0), "none")
        described |= {"box": box, "element": _element(tensor[1]), "swizzle": swizzle}
        return Parameter(name, "tensor map", described)
    if bits_of(variable.type) != 8 * variable.size:
        return Parameter(name, type, {"kind": "bytes", "hex": None})
    return Parameter(name, type, {"kind": "scalar", "type": type, "value": None})


def _element(name: str) -> str:
    """The record's element type for a type of MLIR; u8 if there is none."""
    try:
        return element_of(name.lower(), "")
    except LaunchError:
        return "u8"


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return ""
