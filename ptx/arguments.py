"""Arguments of a launch in Python as arrays and parameters of a record (`lowtide.launches`)."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lowtide.errors import LaunchError
from lowtide.interpreter.ptx.syntax import Entry, Variable
from lowtide.interpreter.ptx.table import bits_of
from lowtide.launches import Array, Parameter, Pointer, Struct
from lowtide.launches import TensorMap as RecordedMap
from lowtide.ptx.dtypes import element_of, in_record, swizzle_of

_MAP_BYTES = 128
_LARGEST = 8  # bytes of a scalar


@dataclass(frozen=True, eq=False)
class TensorMap:
    """A tensor map (CUtensorMap) of an array, by value: `box` has a side for each of the array's dimensions, in its
    order, in elements. `swizzle` is 0, 32, 64 or 128 bytes. `dtype` replaces the array's type, such as "tf32"."""

    array: Any
    box: Sequence[int]
    swizzle: int | str = 0
    dtype: str | None = None


@dataclass(frozen=True, eq=False)
class Unwritten:
    """An unwritten array. It is an error if the kernel reads an element before writing it.

    `shape`: one number or several; `dtype`: of numpy or ml_dtypes. Raises LaunchError for others."""

    shape: int | Sequence[int]
    dtype: Any

    def __post_init__(self) -> None:
        try:
            sides = (self.shape,) if isinstance(self.shape, int) else tuple(map(operator.index, self.shape))
            dtype = np.dtype(self.dtype)
        except TypeError as error:
            raise LaunchError(f"Unwritten({self.shape!r}, {self.dtype!r}): {error} [ptx-unwritten]") from None
        if any(side < 0 for side in sides):
            raise LaunchError(f"Unwritten({self.shape!r}, {self.dtype!r}): a side is negative [ptx-unwritten-side]")
        object.__setattr__(self, "shape", sides)
        object.__setattr__(self, "dtype", dtype)


@dataclass(frozen=True, eq=False)
class Scratch:
    """Scratch memory of `size` bytes, for all CTAs together, which nothing has written. It does not count as an array:
    it has no result, and no expected values. `per_cta`: the bytes of each CTA, so that the grid of a record may be
    changed."""

    size: int
    per_cta: int = 0


@dataclass(frozen=True, eq=False)
class Bytes:
    """A struct passed by value: its bytes `data`, and its `pointers` by offset in bytes. For an array, the 8 bytes at
    the offset become a pointer to it; for a `TensorMap`, the 128 bytes there become the tensor map."""

    data: bytes
    pointers: Mapping[int, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Given:
    """The arguments of a launch as a record has them. `dtypes` are those of the results, by array, in the order of the
    arguments that are arrays."""

    arrays: Mapping[str, Array]
    parameters: tuple[Parameter, ...]
    dtypes: Mapping[str, np.dtype[Any]]
    names: tuple[str, ...]


def given(entry: Entry, arguments: Sequence[Any], names: Sequence[str] | None = None) -> Given:
    """`names` are those of the arguments in messages and files, by default those of the parameters. Raises LaunchError
    for arguments that do not fit the kernel's parameters."""
    if len(arguments) != len(entry.parameters):
        raise LaunchError(
            f"{len(arguments)} arguments; {entry.name} takes {len(entry.parameters)}: {_listed(entry)} [ptx-arguments]"
        )
    named = [each.name for each in entry.parameters] if names is None else [*map(str, names)]
    if len(named) != len(arguments):
        raise LaunchError(f"{len(named)} names of {len(arguments)} arguments; give one for each [ptx-names]")
    placing = _Placing()
    parameters = [
        placing.parameter(argument, replace(variable, name=name), number)
        for number, (argument, variable, name) in enumerate(zip(arguments, entry.parameters, named, strict=True))
    ]
    return Given(placing.arrays, tuple(parameters), placing.dtypes, tuple(placing.names))


def _listed(entry: Entry) -> str:
    return ", ".join(f".{each.type} {each.name}" for each in entry.parameters) or "none"


class _Placing:
    """Collects the arrays of arguments; two that are the same array are placed once."""

    def __init__(self) -> None:
        self.arrays: dict[str, Array] = {}
        self.dtypes: dict[str, np.dtype[Any]] = {}
        self.names: list[str] = []
        self.seen: dict[tuple[Any, ...], str] = {}
        self.held: list[Any] = []  # so that no id is used twice

    def parameter(self, argument: Any, variable: Variable, number: int) -> Parameter:
        what = f"argument {number}, .{variable.type} {variable.name}"
        if isinstance(argument, TensorMap):
            if variable.size != _MAP_BYTES:
                raise LaunchError(
                    f"{what}: a tensor map has {_MAP_BYTES} bytes, this parameter {variable.size} [ptx-map-parameter]"
                )
            return self._tensor_map(argument, variable.name, what)
        if isinstance(argument, Bytes):
            if not isinstance(argument.data, bytes | bytearray):
                raise LaunchError(f"{what}: Bytes takes bytes, not {type(argument.data).__name__} [ptx-struct-bytes]")
            if len(argument.data) != variable.size:
                raise LaunchError(f"{what}: {len(argument.data)} bytes; it has {variable.size} [ptx-struct]")
            return self._struct(argument, variable.name, what)
        if argument is None:
            return bytes(_pointer_bytes(variable, what))
        if isinstance(argument, bool | int | float | np.generic):
            return scalar(argument, variable.type, variable.size, what)
        _pointer_bytes(variable, what)
        if isinstance(argument, Scratch):
            self._check_name(variable.name, what)
            self.arrays[variable.name] = Array("u8", (argument.size,), (1,), per_cta=argument.per_cta)
            return Pointer(variable.name)
        return Pointer(self.array(argument, variable.name, what))

    def array(self, argument: Any, name: str, what: str) -> str:
        """The name in the record of an array."""
        if isinstance(argument, Unwritten):
            dtype, values = argument.dtype, None
            shape: tuple[int, ...] = tuple(argument.shape)  # type: ignore[arg-type]  # __post_init__ made it a tuple
            strides = tuple(int(np.prod(shape[axis + 1 :])) for axis in range(len(shape)))
            key: tuple[Any, ...] = (id(argument),)
        else:
            values = _array(argument, what)
            dtype, shape = values.dtype, values.shape
            if any(stride % dtype.itemsize for stride in values.strides):
                raise LaunchError(f"{what}: its strides are not whole elements; copy it [ptx-array-strides]")
            strides = tuple(stride // dtype.itemsize for stride in values.strides)
            key = (values.__array_interface__["data"][0], shape, strides, str(dtype))
        if key not in self.seen:
            self.held.append(argument)
            self.seen[key] = name
            self._check_name(name, what)
            element, stored = in_record(values, dtype, what)
            self.arrays[name] = Array(element, shape, strides, stored)
            self.dtypes[name] = dtype
        self.names.append(self.seen[key])
        return self.seen[key]

    def _check_name(self, name: str, what: str) -> None:
        if name in self.arrays:
            raise LaunchError(f"{what}: another array has this name, too [ptx-name-twice]")

    def _struct(self, struct: Bytes, name: str, what: str) -> Struct:
        pointers, maps = [], []
        for offset, each in struct.pointers.items():
            if isinstance(each, TensorMap):
                maps.append((int(offset), self._tensor_map(each, f"{name} at {offset}", what)))
            else:
                pointers.append((int(offset), Pointer(self.array(each, f"{name} at {offset}", what))))
        return Struct(struct.data, tuple(pointers), tuple(maps))

    def _tensor_map(self, map: TensorMap, name: str, what: str) -> RecordedMap:
        name = self.array(map.array, name, what)
        array = self.arrays[name]
        if array.strides and array.strides[-1] != 1:
            raise LaunchError(f"{what}: the last dimension of a tensor map is contiguous; copy it [ptx-map-strides]")
        dtype = array.dtype if map.dtype is None else element_of(map.dtype, what)
        box = tuple(int(side) for side in map.box)
        return RecordedMap(Pointer(name), dtype, array.shape, array.strides[:-1], box, swizzle_of(map.swizzle, what))


def _array(argument: Any, what: str) -> NDArray[Any]:
    """An argument as a numpy array, without a copy of an array."""
    try:
        found = np.asarray(argument)
    except (TypeError, ValueError, RuntimeError) as error:
        raise LaunchError(f"{what}: {type(argument).__name__} is not an array: {error} [ptx-array]") from None
    if isinstance(argument, np.ndarray) and found.dtype == object:
        raise LaunchError(
            f"{what}: an array of Python objects; convert it by astype to a type of numbers [ptx-objects]"
        )
    if found.dtype == object or found.ndim == 0:
        raise LaunchError(
            f"{what}: {type(argument).__name__} is no argument; pass a numpy array, a number, a TensorMap, Unwritten, "
            "Bytes, or None for a null pointer [ptx-argument]"
        )
    return found


def _pointer_bytes(variable: Variable, what: str) -> int:
    """The bytes of a parameter that takes a pointer."""
    if variable.size != _LARGEST or variable.type[0] == "f":
        raise LaunchError(f"{what}: an array or None is a pointer, which needs 64 bits [ptx-pointer]")
    return _LARGEST


def scalar(value: Any, type: str, size: int, what: str) -> bytes:
    """The little-endian bytes of a number as a parameter of a PTX type."""
    if size > _LARGEST or bits_of(type) != 8 * size:
        raise LaunchError(f"{what}: it has {size} bytes and takes no number; pass Bytes [ptx-scalar-struct]")
    if isinstance(value, float | np.floating) or type[0] == "f":
        if size < 2 or type[0] in "su":
            raise LaunchError(f"{what}: the number {value} is a float, but the parameter is .{type} [ptx-scalar-float]")
        with np.errstate(over="ignore"):
            return np.asarray(value, f"<f{size}").tobytes()
    number, bits = int(value), 8 * size
    if not -(1 << bits - 1) <= number < 1 << bits:
        raise LaunchError(f"{what}: {number} does not fit into {bits} bits [ptx-scalar-range]")
    return (number % (1 << bits)).to_bytes(size, "little")
