"""Converts the arguments of a Triton launch to the parameters of the kernel's PTX (Triton 3.4 to 3.9).

Arguments that Triton compiled in (constexpr, and those that are 1 or None) have no parameter. A tuple has the
parameters of its members. If the kernel uses TMA, a tensor descriptor becomes a tensor map, its shape and its strides.
Otherwise it becomes its pointer, shape, strides and flags, then again its shape and strides. Scratch memory comes last.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, fields, replace
from types import SimpleNamespace
from typing import Any

import numpy as np

from lowtide.errors import LaunchError
from lowtide.interpreter.ptx.syntax import Entry
from lowtide.ptx.arguments import Scratch, Unwritten
from lowtide.ptx.dtypes import dtype_of, element_of
from lowtide.ptx.recorders.tensor_maps import TF32, Encoded
from lowtide.ptx.recorders.tensors import address_of

MAP, SCRATCH = "tensor map", "scratch"
"""Types of arguments that have no type in Triton. Their values are (descriptor, `Encoded`) for a tensor map, and the
bytes per CTA for scratch memory."""
_HOST_TYPES = {8: 10, 9: 8, 10: 9}  # CUtensorMapDataType of the PTX ISA's numbers of element types, where they differ
_SCRATCH = ("global_scratch", "profile_scratch")
_FLOATS = {"fp16": "<f2", "fp32": "<f4", "f32": "<f4", "fp64": "<f8"}


@dataclass(frozen=True)
class Argument:
    """A parameter of the PTX: its name, its type in Triton, such as `*fp32`, and its value."""

    name: str
    type: str
    value: Any

    @property
    def is_pointer(self) -> bool:
        return self.type.startswith("*")

    @property
    def tensor(self) -> Any:
        """The tensor that the argument points to, or None."""
        if self.type == MAP:
            return self.value[0].base
        return self.value if self.is_pointer and address_of(self.value) is not None else None

    def check_element(self) -> None:
        """Raises LaunchError if the argument is a pointer, and an array of numpy with elements of another type.
        Unsigned integers may hold the bits of any type."""
        if not self.is_pointer or not isinstance(self.value, np.ndarray):
            return
        try:
            wanted = element_of(self.type.lstrip("*").removeprefix("k"), self.name)  # *k: a pointer to constants
        except LaunchError:
            return
        dtype = self.value.dtype
        holds = dtype.kind == "u" and dtype.itemsize == dtype_of(wanted).itemsize
        if not holds and element_of(dtype.name, self.name) != wanted:
            raise LaunchError(
                f"{self.name}: an array of {dtype.name}; the kernel was compiled for {self.type} [triton-element]"
            )

    def check_value(self) -> None:
        """Raises LaunchError if the value does not fit the type for which the kernel was compiled."""
        self.check_element()
        if self.type in (MAP, SCRATCH):
            return
        if self.is_pointer:
            if self.value is not None and not isinstance(self.value, np.ndarray | Unwritten | Scratch):
                raise LaunchError(
                    f"{self.name}: {self.value!r:.60}; the kernel was compiled for {self.type}: pass an array of numpy"
                    " [triton-array]"
                )
            return
        is_number = isinstance(self.value, int | float | np.generic)
        if self.type in (*_FLOATS, "bf16"):
            fits = is_number
        else:
            bits = int(self.type[1:]) if self.type[1:].isdigit() else 64
            lowest = 0 if self.type[0] == "u" or bits == 1 else -(1 << bits - 1)
            end = 1 << bits - (lowest < 0)
            fits = isinstance(self.value, int | np.integer | np.bool_) and lowest <= int(self.value) < end
        if not fits:
            raise LaunchError(
                f"{self.name}: {self.value!r:.60}; the kernel was compiled for {self.type} [triton-value]"
            )

    def scalar(self, size: int) -> bytes:
        """The bytes of a number, as Triton's launcher converts it."""
        if self.type == "bf16":  # it cuts off the lower half of an f32
            data = np.float32(self.value).tobytes()[2:]
        elif self.type in _FLOATS:
            with np.errstate(over="ignore"):
                data = np.asarray(self.value, _FLOATS[self.type]).tobytes()
        else:
            data = (int(self.value) % (1 << 8 * size)).to_bytes(size, "little")
        if len(data) != size:
            raise LaunchError(f"{self.name}: a {self.type} has {len(data)} bytes, the parameter {size} [triton-scalar]")
        return data


def arguments_of(compiled: Any, given: Sequence[Any], entry: Entry) -> list[Argument]:
    """The parameters of the PTX for the arguments of a launch. Raises LaunchError if their numbers do not match."""
    source, metadata = compiled.src, compiled.metadata
    names = list(source.fn.arg_names) if hasattr(source, "fn") else list(source.signature)
    if len(given) != len(names):
        raise LaunchError(
            f"{compiled.name}: {len(given)} arguments; it takes {len(names)}: {', '.join(map(str, names))}"
            " [triton-arguments]"
        )
    values = dict(zip(names, given, strict=True))
    maps = iter(getattr(metadata, "tensordesc_meta", None) or ())
    found: list[Argument] = []
    for name, type in source.signature.items():
        found += _flat(str(name), type, values.get(name), maps)
    rest = len(entry.parameters) - len(found)
    if not 0 <= rest <= len(_SCRATCH):
        raise LaunchError(
            f"{compiled.name}: {len(found)} arguments are not constants, but its PTX has {len(entry.parameters)} "
            "parameters; use Triton 3.4 to 3.9, without a sanitizer [triton-parameters]"
        )
    return found + [Argument(name, SCRATCH, getattr(metadata, f"{name}_size", 0)) for name in _SCRATCH[:rest]]


def check_specialization(compiled: Any, given: Sequence[Any]) -> None:
    """Raises LaunchError if arguments are not what a kernel was compiled for: other constants, or integers that are not
    the multiples that `attrs` says. Arrays are placed at multiples of 256 bytes."""
    names = list(compiled.src.fn.arg_names)
    constants, attrs = (getattr(compiled.src, each, None) or {} for each in ("constants", "attrs"))
    for path, constant in constants.items():
        name, value = _at(names, given, path)
        if value is not None and value is not constant and value != constant:
            raise LaunchError(
                f"{name}: {value!r:.60}; {compiled.name} was compiled with {constant!r:.60}: compile it again, or pass "
                "None for constants [triton-constant]"
            )
    for path, entries in attrs.items():
        name, value = _at(names, given, path)
        for kind, multiple in entries:
            if kind == "tt.divisibility" and isinstance(value, int | np.integer) and value % multiple:
                raise LaunchError(
                    f"{name}: {value}; {compiled.name} was compiled for multiples of {multiple}: leave the argument out"
                    " of attrs, and compile it again [triton-multiple]"
                )


def _at(names: Sequence[str], given: Sequence[Any], path: Any) -> tuple[str, Any]:
    """The name and the value of an argument, or of a part of a tuple, by Triton's path; the value is None if it has
    none."""
    first, *rest = path if isinstance(path, tuple) else (names.index(path),)
    value = given[first]
    for number in rest:
        value = value[number] if isinstance(value, tuple | list) else None
    return ".".join(map(str, (names[first], *rest))), value


def _flat(name: str, type: Any, value: Any, maps: Iterator[Any]) -> Iterator[Argument]:
    """The parameters for an argument of a type."""
    if isinstance(type, tuple):
        for number, (inner, each) in enumerate(zip(type, value, strict=True)):
            yield from _flat(f"{name}.{number}", inner, each, maps)
    elif type.startswith("tensordesc"):
        yield from _descriptor(name, type, value, next(maps, None))
    elif type != "constexpr":
        yield Argument(name, type, value)


def _descriptor(name: str, type: str, value: Any, made: Any) -> Iterator[Argument]:
    """The parameters of a tensor descriptor. `made`: Triton's metadata of its tensor map; None if there is none."""
    value = _descriptor_of(value, name)
    extents = [
        *(Argument(f"{name}.shape{axis}", "i32", side) for axis, side in enumerate(value.shape)),
        *(Argument(f"{name}.stride{axis}", "i64", stride) for axis, stride in enumerate(value.strides)),
    ]
    if made is not None:
        encoded = _encoded(value, made)
        encoded.check(name)
        yield Argument(name, MAP, (value, encoded))
    else:
        yield Argument(name, f"*{type.removeprefix('tensordesc<').partition('[')[0]}", value.base)
        yield from (replace(each, type="i64") for each in extents)
        if hasattr(value, "padding"):
            yield Argument(f"{name}.padding", "i1", value.padding == "nan")
        if hasattr(value, "round_f32_to_tf32"):
            yield Argument(f"{name}.tf32", "i1", value.round_f32_to_tf32)
    yield from extents


def _descriptor_of(value: Any, name: str) -> Any:
    """A tensor descriptor. For a whole numpy array, or an unwritten one, it is an object like Triton's own class, which
    does not take such arrays."""
    if not isinstance(value, np.ndarray | Unwritten):
        if not all(hasattr(value, each) for each in ("base", "shape", "strides")):
            raise LaunchError(
                f"{name}: {type(value).__name__} is no tensor descriptor; pass one, or an array of numpy"
                " [triton-descriptor]"
            )
        return value
    own = importlib.import_module("triton.tools.tensor_descriptor").TensorDescriptor
    defaults = {each.name: each.default for each in fields(own) if each.default is not MISSING}
    shape = list(np.atleast_1d(value.shape).tolist())
    if isinstance(value, Unwritten):
        strides = [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]
    else:
        strides = [stride // value.itemsize for stride in value.strides]
    return SimpleNamespace(**defaults, base=value, shape=shape, strides=strides)


def _encoded(descriptor: Any, made: Any) -> Encoded:
    """The tensor map of a descriptor."""
    kind = TF32 if getattr(descriptor, "round_f32_to_tf32", False) else made["elem_type"]
    width = int(made["elem_size"])
    more = {
        "a fill of NaN": getattr(descriptor, "padding", "zero") == "nan",
        "packed 4-bit floats": made.get("fp4_padded", False),
        "im2col mode": made.get("is_im2col", False),
    }
    return Encoded(
        address_of(descriptor.base) or 0,
        _HOST_TYPES.get(kind, kind),
        tuple(map(int, descriptor.shape)),
        tuple(width * int(stride) for stride in descriptor.strides[:-1]),
        tuple(map(int, made["block_size"])),
        int(made["swizzle"]),
        tuple(name for name, there in more.items() if there),
    )
