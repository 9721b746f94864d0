"""Launches as files: launch.json with the arrays before and after it in .npz. The format: docs/ptx.md."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import LaunchError
from lowtide.interpreter.ptx.syntax import Entry, Module
from lowtide.launches import Array, Launch, LaunchRecord, Parameter, Pointer, Struct, TensorMap
from lowtide.ptx.arguments import scalar
from lowtide.ptx.dtypes import as_element, dtype_of, element_of, swizzle_of
from lowtide.ptx.judging import Expected
from lowtide.ptx.launch_fields import Fields

BEFORE, AFTER, LAUNCH = "before.npz", "after.npz", "launch.json"
_ALIGNMENT = 256  # of arrays: of the drivers' allocations
_POINTER_BYTES = 8


@dataclass(frozen=True)
class Recorded:
    """A launch from files: what runs, and what is expected after it."""

    record: LaunchRecord
    expected: Expected


def read_launch(module: Module, path: Path, arrays: Path | None, expect: Path | None, kernel: str | None) -> Recorded:
    """The launch in a file for a module, with arrays and results from other files, or from none.

    `kernel` replaces the name in the file. Raises LaunchError for files that cannot be read, are malformed, or do not
    fit the kernel.
    """
    given = Fields(_json(path), str(path)).check("launch")
    entry = _entry(module, given, kernel)
    before, after = _npz(arrays), _npz(expect)
    placed = _arrays(given, before, arrays)
    parameters = _parameters(given, entry, placed)
    launch = Launch(
        entry.name,
        given.sides("grid"),
        given.sides("block"),
        parameters,
        given.sides("cluster", (1, 1, 1)),
        given.integer("shared_bytes", 0),
        cooperative=bool(given.get("cooperative", False)),
    )
    rtol, atol = _tolerance(given)
    plain = frozenset(name for name, array in placed.items() if not array.relocations)  # addresses differ in each run
    kept = frozenset(before) & plain - frozenset(after) if expect is not None else frozenset()
    after = {name: values for name, values in after.items() if name in plain or name not in placed}
    expected = Expected(after, rtol, atol, kept).checked(placed, f"{expect}: array")
    return Recorded(LaunchRecord(placed, (launch,)), expected)


# Parts of the file ----------------------------------------------------------------------------------------------------


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise LaunchError(
            f"there is no {path}; describe the launch there, or name its file with --launch [launch-file-missing]"
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise LaunchError(f"{path} cannot be read as JSON: {error} [launch-file-json]") from None


def _npz(path: Path | None) -> dict[str, NDArray[Any]]:
    """The arrays of a file of numpy, by name."""
    if path is None:
        return {}
    try:
        with np.load(path, allow_pickle=False) as found:
            return {name: found[name] for name in found.files}
    except Exception as error:  # numpy, zipfile, tokenize and zlib raise many kinds for damaged files
        if "pickle" in str(error):
            raise LaunchError(
                f"{path} is no .npz file, or has Python objects; write arrays of numbers by np.savez"
                " [launch-file-objects]"
            ) from None
        raise LaunchError(f"{path} cannot be read as arrays of numpy (.npz): {error} [launch-file-arrays]") from None


def _entry(module: Module, given: Fields, kernel: str | None) -> Entry:
    """The kernel that is launched: of that name, or the only one."""
    entries, found = module.entries, kernel or given.get("kernel") or given.get("name")
    name = None if found is None else str(found)
    if name is None and len(entries) == 1:
        return next(iter(entries.values()))
    if name not in entries:
        wanted = "no name of a kernel is given" if name is None else f"there is no kernel {name}"
        raise LaunchError(
            f"{wanted}; {module.file} has {', '.join(entries) or 'none'}: name one with --kernel, or with 'name' in "
            f"{given.place} [launch-file-kernel]"
        )
    return entries[name]


def _tolerance(given: Fields) -> tuple[float, float]:
    """The relative and the absolute tolerance."""
    value = given.get("tolerance", "exact")
    if value == "exact":
        return 0.0, 0.0
    if not isinstance(value, dict):
        raise LaunchError(
            f"{given.place}: 'tolerance' must be 'exact' or an object, not {value!r:.60} [launch-file-tolerance-kind]"
        )
    fields = given.part(value, "'tolerance'").check("tolerance")
    found = [fields.get(name, 0.0) for name in ("rtol", "atol")]
    if not all(isinstance(each, int | float) and not isinstance(each, bool) and 0 <= each < math.inf for each in found):
        raise LaunchError(f"{fields.place}: rtol and atol must be finite and at least 0 [launch-file-tolerance]")
    return float(found[0]), float(found[1])


# Arrays ---------------------------------------------------------------------------------------------------------------


def _arrays(given: Fields, before: Mapping[str, NDArray[Any]], path: Path | None) -> dict[str, Array]:
    described = given.part(given.get("arrays", {}), "'arrays'")
    unknown = sorted(set(before) - set(described.fields))
    if unknown:
        raise LaunchError(f"{path}: array {unknown[0]} is not among the arrays of {given.place} [launch-file-unknown]")
    found = {
        name: _array(described.part(value, repr(name)).check("array"), before.get(name), f"{path}: array {name}")
        for name, value in described.fields.items()
    }
    for name, pointers in _relocations(given, described, found).items():
        found[name] = replace(found[name], relocations=tuple(pointers))
    return found


def _array(fields: Fields, values: NDArray[Any] | None, what: str) -> Array:
    """An array that launch.json describes; `what` names it in the file of `values`."""
    element = element_of(str(fields.needed("dtype")), fields.place)
    shape = fields.integers("shape")
    dense = tuple(int(np.prod(shape[axis + 1 :], dtype=object)) for axis in range(len(shape)))
    strides = fields.integers("strides", dense)
    misaligned = fields.integer("address_mod_256", 0)
    if not 0 <= misaligned < _ALIGNMENT:
        raise LaunchError(
            f"{fields.place}: address_mod_256 is 0 to {_ALIGNMENT - 1}, not {misaligned} [launch-file-address]"
        )
    if values is not None and values.shape != shape:
        raise LaunchError(
            f"{what} has the shape {list(values.shape)}; {fields.place} says {list(shape)} [launch-file-shape]"
        )
    return Array(element, shape, strides, None if values is None else as_element(values, element, what), misaligned)


def _relocations(given: Fields, described: Fields, arrays: Mapping[str, Array]) -> dict[str, list[tuple[int, Pointer]]]:
    """Pointers inside arrays: `relocations` of an array, or of the launch with the name of the array that they are in.

    Each has its offset, and a target array with an offset into it. Without a target it is the recorded address there,
    in the array whose recorded `address` it belongs to.
    """
    found: dict[str, list[tuple[int, Pointer]]] = {}
    listed = [
        (name, each, fields)
        for name, value in described.fields.items()
        for fields in (described.part(value, repr(name)),)
        for each in fields.items("relocations")
    ]
    for each in given.items("relocations"):
        item = given.part(each, "'relocations'")
        listed.append((str(item.get("in", item.get("array"))), each, given))
    for name, each, fields in listed:
        item = fields.part({"at": each} if isinstance(each, int) else each, "'relocations'")
        if name not in arrays:
            raise LaunchError(f"{item.place}: there is no array {name} [launch-file-relocation]")
        at = item.integer("at", item.integer("offset_bytes", item.integer("offset", 0)))
        found.setdefault(name, []).append((at, _target(item, arrays[name], at, described, fields is not given)))
    return found


def _target(item: Fields, array: Array, at: int, described: Fields, names_target: bool) -> Pointer:
    """Where a pointer in an array points to. `names_target`: `array` is the target, not the array that it is in."""
    target = item.get("target", item.get("to", item.get("array") if names_target else None))
    if target is not None:
        return Pointer(str(target), item.integer("target_offset_bytes", item.integer("target_offset", 0)))
    held = b"" if array.values is None else np.ascontiguousarray(array.values).tobytes()[at : at + 8]
    address = int.from_bytes(held, "little")
    for name, value in described.fields.items():
        fields = described.part(value, repr(name))
        start = _address(fields)
        size = int(np.prod(fields.integers("shape"), dtype=object)) * dtype_of(array.dtype).itemsize
        if start is not None and len(held) == 8 and start <= address <= start + size:
            return Pointer(name, address - start)
    raise LaunchError(
        f"{item.place}: the pointer at byte {at} names no target, and the address {address:#x} that is there is in no "
        "array with an 'address' [launch-file-target]"
    )


def _address(fields: Fields) -> int | None:
    """The recorded address of an array, a number or hexadecimal digits."""
    value = fields.get("address")
    try:
        return int(value, 16) if isinstance(value, str) else value if isinstance(value, int) else None
    except ValueError:
        return None


# Parameters -----------------------------------------------------------------------------------------------------------


def _parameters(given: Fields, entry: Entry, arrays: dict[str, Array]) -> tuple[Parameter, ...]:
    """The parameters, in order; scratch memory that they need becomes further arrays."""
    listed = given.get("params", [])
    if not isinstance(listed, list) or len(listed) != len(entry.parameters):
        count = len(listed) if isinstance(listed, list) else "no list of"
        raise LaunchError(
            f"{given.place}: {count} params; {entry.name} takes {len(entry.parameters)} [launch-file-params]"
        )
    result: list[Parameter] = []
    ctas = int(np.prod(given.sides("grid"), dtype=object))
    for number, (value, variable) in enumerate(zip(listed, entry.parameters, strict=True)):
        fields = given.part(value, f"parameter {number} ({variable.name})").check("parameter")
        kind = fields.needed("kind")
        if kind in ("pointer", "scratch", "null") and variable.size != _POINTER_BYTES:
            raise LaunchError(
                f"{fields.place}: {kind} is an address of 64 bits; the parameter has {8 * variable.size}"
                " [launch-file-pointer]"
            )
        if kind == "pointer":
            result.append(_pointer(fields, arrays))
        elif kind == "tensor_map":
            result.append(_tensor_map(fields, arrays))
        elif kind == "scalar":
            result.append(_scalar(fields, variable.type, variable.size))
        elif kind == "null":
            result.append(bytes(variable.size))
        elif kind == "bytes":
            result.append(_struct(fields, variable.size, arrays))
        elif kind == "scratch":
            name = f"scratch {number}"
            each = fields.integer(next((name for name in ("bytes_per_cta", "size") if name in fields.fields), "bytes"))
            arrays[name] = Array("u8", (_not_negative(each, fields.place) * ctas,), (1,), None, per_cta=each)
            result.append(Pointer(name))
        else:
            raise LaunchError(
                f"{fields.place}: a parameter of kind {kind!r:.40}; known are pointer, scalar, tensor_map, null, "
                "scratch, bytes [launch-file-kind]"
            )
    return tuple(result)


def _not_negative(count: int, place: str) -> int:
    if count < 0:
        raise LaunchError(f"{place}: {count} bytes; it is 0 or more [launch-file-scratch]")
    return count


def _pointer(fields: Fields, arrays: Mapping[str, Array]) -> Pointer:
    name = str(fields.needed("array"))
    if name not in arrays:
        raise LaunchError(
            f"{fields.place}: there is no array {name}; there are {', '.join(arrays) or 'none'} [launch-file-array]"
        )
    return Pointer(name, fields.integer("offset_bytes", 0))


def _scalar(fields: Fields, type: str, size: int) -> bytes:
    """The bytes of a number. `type` of the file says what it is, the kernel how many bytes it has."""
    value, kind = fields.needed("value"), str(fields.get("type", type))
    if isinstance(value, str):
        special = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}
        value = special.get(value.lower(), value)
    if isinstance(value, bool | int | float):
        is_float = kind[:1] in ("f", "b") and kind not in _BITS
        if is_float and type[0] in "su":
            raise LaunchError(
                f"{fields.place}: type {kind}, but the parameter is .{type}; write the type that the kernel takes"
                " [launch-file-scalar-type]"
            )
        return scalar(float(value) if is_float else value, type, size, fields.place)
    raise LaunchError(f"{fields.place}: a number is expected, not {value!r:.60} [launch-file-scalar]")


_BITS = ("b8", "b16", "b32", "b64", "bool")


def _struct(fields: Fields, size: int, arrays: Mapping[str, Array]) -> Struct:
    """A struct by value, in hexadecimal digits, with pointers to arrays."""
    try:
        found = bytes.fromhex(str(fields.needed("hex")))
    except ValueError as error:
        raise LaunchError(f"{fields.place}: {error} [launch-file-hex]") from None
    if len(found) != size:
        raise LaunchError(f"{fields.place}: {len(found)} bytes; it has {size} [launch-file-bytes]")
    listed = [fields.part(each, "'pointers'") for each in fields.items("pointers")]
    maps = [fields.part(each, "'tensor_maps'") for each in fields.items("tensor_maps")]
    return Struct(
        found,
        tuple((each.integer("at"), _pointer(each, arrays)) for each in listed),
        tuple((each.integer("at"), _tensor_map(each, arrays)) for each in maps),
    )


def _tensor_map(fields: Fields, arrays: Mapping[str, Array]) -> TensorMap:
    """A tensor map; the file lists its dimensions innermost first, as CUDA does."""
    at = _pointer(fields, arrays)
    element = element_of(str(fields.get("element", arrays[at.array].dtype)), fields.place)
    width = dtype_of(element).itemsize
    for name, plain in (("interleave", "none"), ("fill", "zero")):
        if str(fields.get(name, plain)).lower() not in (plain, "0", f"{plain}s"):
            raise LaunchError(
                f"{fields.place}: {name} {fields.get(name)!r} is not interpreted; only {plain!r} [launch-file-map]"
            )
    if any(each != 1 for each in fields.integers("element_strides", ())):
        raise LaunchError(f"{fields.place}: element strides other than 1 are not interpreted [launch-file-map-strides]")
    strides = fields.integers("strides_bytes", ())
    if any(each % width for each in strides):
        raise LaunchError(
            f"{fields.place}: strides of {list(strides)} bytes are not whole elements [launch-file-apart]"
        )
    return TensorMap(
        at,
        element,
        fields.integers("dims")[::-1],
        tuple(each // width for each in strides)[::-1],
        fields.integers("box")[::-1],
        swizzle_of(fields.get("swizzle", 0), fields.place),
    )
