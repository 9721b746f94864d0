"""Writes a launch as files: launch.json with the arrays before and after it, which `launch_files.py` reads."""

from __future__ import annotations

import contextlib
import json
import math
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import LaunchError
from lowtide.interpreter.ptx.syntax import Variable
from lowtide.interpreter.ptx.table import bits_of
from lowtide.launches import Array, Launch, LaunchRecord, Parameter, Pointer, Struct, TensorMap
from lowtide.ptx.dtypes import dtype_of
from lowtide.ptx.judging import Expected
from lowtide.ptx.launch_files import AFTER, BEFORE, LAUNCH

_FLOATS = {"f16": "<e", "f32": "<f", "f64": "<d"}
PTX = "kernel.ptx"


def write_launch(
    folder: Path, text: str, variables: tuple[Variable, ...], record: LaunchRecord, expected: Expected
) -> None:
    """Write the text of a kernel with the parameters `variables`, the only launch of a record, its arrays, and what is
    expected after it. An older after.npz is replaced or deleted."""
    (launch,) = record.launches
    write_description(folder, text, _described(launch, variables, record.arrays, expected))
    write_arrays(
        folder / BEFORE, {name: each.values for name, each in record.arrays.items() if each.values is not None}
    )
    if expected.arrays:
        write_arrays(folder / AFTER, expected.arrays)
    else:
        (folder / AFTER).unlink(missing_ok=True)


def write_description(folder: Path, text: str, launch: Mapping[str, Any]) -> None:
    """Write the text of a kernel, and the description of its launch. Raises LaunchError if they cannot be written."""
    with _writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / PTX).write_text(text, encoding="utf-8")
        (folder / LAUNCH).write_text(json.dumps(launch, indent=1) + "\n", encoding="utf-8")


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays to a file of numpy (.npz). Raises LaunchError if it cannot be written."""
    written: dict[str, Any] = {name: _plain(array) for name, array in arrays.items()}
    with _writing(path), path.open("wb") as file:
        np.savez_compressed(file, **written)


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise LaunchError(f"{path} cannot be written: {error.strerror}; name another [ptx-write]") from None


def _plain(array: NDArray[Any]) -> NDArray[Any]:
    """An array of a type that numpy has; others as unsigned integers of their bits."""
    dense = np.ascontiguousarray(array).reshape(array.shape)
    return dense if dense.dtype.kind in "fiub" else dense.view(f"u{dense.dtype.itemsize}")


def _described(
    launch: Launch, variables: tuple[Variable, ...], arrays: Mapping[str, Array], expected: Expected
) -> dict[str, Any]:
    tolerance = {"rtol": expected.rtol, "atol": expected.atol}
    return {
        "name": launch.kernel,
        "grid": list(launch.grid),
        "block": list(launch.block),
        "cluster": list(launch.cluster),
        "shared_bytes": launch.shared_bytes,
        "cooperative": launch.cooperative,
        "params": [
            _scratch(each, arrays) or _parameter(each, variable)
            for each, variable in zip(launch.parameters, variables, strict=True)
        ],
        "arrays": {name: _array(array) for name, array in arrays.items() if not array.per_cta},
        "tolerance": tolerance if any(tolerance.values()) else "exact",
    }


def _scratch(parameter: Parameter, arrays: Mapping[str, Array]) -> dict[str, Any] | None:
    """A pointer to scratch memory, which has so many bytes for each CTA; None for another parameter."""
    per_cta = arrays[parameter.array].per_cta if isinstance(parameter, Pointer) else 0
    return {"kind": "scratch", "bytes": per_cta} if per_cta else None


def _array(array: Array) -> dict[str, Any]:
    found: dict[str, Any] = {"dtype": array.dtype, "shape": list(array.shape), "strides": list(array.strides)}
    if array.misaligned:
        found["address_mod_256"] = array.misaligned
    if array.relocations:
        found["relocations"] = [
            {"at": at, "target": each.array, "target_offset_bytes": each.offset} for at, each in array.relocations
        ]
    return found


def _parameter(parameter: Parameter, variable: Variable) -> dict[str, Any]:
    if isinstance(parameter, Pointer):
        return {"kind": "pointer", "array": parameter.array, "offset_bytes": parameter.offset}
    if isinstance(parameter, Struct):
        pointers = [{"at": at, "array": each.array, "offset_bytes": each.offset} for at, each in parameter.pointers]
        found: dict[str, Any] = {"kind": "bytes", "hex": parameter.data.hex(), "pointers": pointers}
        maps = [{"at": at} | _parameter(each, variable) for at, each in parameter.maps]
        return found | ({"tensor_maps": maps} if maps else {})
    if isinstance(parameter, TensorMap):
        width = dtype_of(parameter.dtype).itemsize
        return {
            "kind": "tensor_map",
            "array": parameter.at.array,
            "offset_bytes": parameter.at.offset,
            "element": parameter.dtype,
            "dims": list(parameter.shape[::-1]),
            "strides_bytes": [stride * width for stride in parameter.strides[::-1]],
            "box": list(parameter.box[::-1]),
            "swizzle": parameter.swizzle,
        }
    if variable.type in _FLOATS:
        (value,) = struct.unpack(_FLOATS[variable.type], parameter)
        return {"kind": "scalar", "type": variable.type, "value": value if math.isfinite(value) else str(value)}
    if bits_of(variable.type) == 8 * len(parameter):
        value = int.from_bytes(parameter, "little", signed=variable.type[0] == "s")
        return {"kind": "scalar", "type": variable.type, "value": value}
    return {"kind": "bytes", "hex": parameter.hex()}
