"""MLIR types as plain Python data, decoded once: asking the bindings at run time is too slow."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from mlir import ir
from mlir.dialects import llvm

from lowtide.dialects import sm, tile
from lowtide.elements import ELEMENTS
from lowtide.errors import InterpreterError
from lowtide.interpreter.program.ir_attributes import nested
from lowtide.interpreter.program.layouts import SharedLayout, ThreadValue

INTEGER_DTYPES: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.bool_),
    8: np.dtype(np.int8),
    16: np.dtype(np.int16),
    32: np.dtype(np.int32),
    64: np.dtype(np.int64),
}


@dataclass(frozen=True)
class Scalar:
    """`name` as MLIR prints it: f32, bf16, i1, i32, index, …"""

    name: str
    bits: int

    @property
    def is_float(self) -> bool:
        return self.name in _FLOATS

    @property
    def bytes(self) -> int:
        return max(1, self.bits // 8)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy type in which arrays of integers of this width live."""
        return INTEGER_DTYPES[self.bits]


@dataclass(frozen=True)
class Vector:
    shape: tuple[int, ...]
    element: Scalar


@dataclass(frozen=True)
class MemRef:
    """`shape` has None where an extent is dynamic; `layout` is that of shared memory, None for global memory.

    `is_column_major`: the columns of a matrix in global memory are contiguous, not its rows.
    """

    shape: tuple[int | None, ...]
    element: Scalar
    layout: SharedLayout | None
    is_column_major: bool = False

    @property
    def shape_as_it_lies(self) -> tuple[int | None, ...]:
        """The shape of the array that is passed: its last dimension is contiguous."""
        return self.turned(self.shape) if self.is_column_major else self.shape

    @staticmethod
    def turned(shape: tuple[Any, ...]) -> tuple[Any, ...]:
        """With rows and columns exchanged, the last two; the batch stays first."""
        *batch, rows, columns = shape
        return (*batch, columns, rows)

    @property
    def bytes(self) -> int:
        """What a buffer in shared memory occupies."""
        assert self.layout is not None
        return self.layout.cosize * self.element.bytes


@dataclass(frozen=True)
class Tile:
    shape: tuple[int, int]
    element: Scalar


@dataclass(frozen=True)
class View:
    shape: tuple[int, int]
    element: Scalar


@dataclass(frozen=True)
class Fragment:
    shape: tuple[int, int]
    element: Scalar
    tv: ThreadValue


@dataclass(frozen=True)
class Ring:
    stages: int
    buffers: tuple[MemRef, ...]


@dataclass(frozen=True)
class Slot:
    use: str


@dataclass(frozen=True)
class PendingType:
    """A fragment that an asynchronous product still writes."""

    fragment: Fragment


@dataclass(frozen=True)
class Mbarriers:
    count: int


@dataclass(frozen=True)
class TensorMapType:
    """`shape` of a box: panels where it has more than two sides, rows, columns; `swizzle` (B, M, S) or None.

    In elements.
    """

    shape: tuple[int, ...]
    element: Scalar
    swizzle: tuple[int, int, int] | None


@dataclass(frozen=True)
class Pointer:
    """An LLVM pointer: `space` 0 generic, 1 global, 3 shared. Its value is a byte address."""

    space: int


@dataclass(frozen=True)
class Struct:
    elements: tuple["Type", ...]


@dataclass(frozen=True)
class Array:
    length: int
    element: "Type"


@dataclass(frozen=True)
class Other:
    """A type that is not looked into (tokens, functions, …)."""

    text: str


Type: TypeAlias = (
    Scalar
    | Vector
    | MemRef
    | Tile
    | View
    | Fragment
    | Ring
    | Slot
    | PendingType
    | Mbarriers
    | TensorMapType
    | Pointer
    | Struct
    | Array
    | Other
)

_FLOATS = {row.ir: row.bits for row in ELEMENTS.values() if row.is_float}
_ARRAY = re.compile(r"!llvm\.array<(\d+) x (.*)>")


def decode_type(type: ir.Type) -> Type:
    """The plain form of an MLIR type; `Other` for one that is not looked into."""
    decoder = _DECODERS.get(type.__class__)
    if decoder is not None:
        return decoder(type)
    text = str(type)
    if text in _FLOATS:
        return Scalar(text, _FLOATS[text])
    if match := _ARRAY.fullmatch(text):
        return Array(int(match[1]), decode_type(ir.Type.parse(match[2], type.context)))
    return Other(text)


def _element(type: ir.Type) -> Scalar:
    decoded = decode_type(type)
    if not isinstance(decoded, Scalar):
        raise InterpreterError(f"elements of type {type} are not interpreted; use f16, bf16, f32 or integers")
    return decoded


def _memref(type: ir.MemRefType) -> MemRef:
    dynamic = ir.ShapedType.get_dynamic_size()
    shape = tuple(None if size == dynamic else size for size in type.shape)
    if "workgroup" not in str(type.memory_space or ""):
        is_strided = len(shape) > 1 and isinstance(type.layout, ir.StridedLayoutAttr)
        strides: list[int] = type.get_strides_and_offset()[0][-2:] if is_strided else []
        is_column_major = strides[:1] == [1] and strides[1:] != [1]
        return MemRef(shape, _element(type.element_type), None, is_column_major)
    if isinstance(type.layout, tile.LayoutAttr):
        layout = SharedLayout(nested(type.layout.shape), nested(type.layout.stride), _swizzle(type.layout.swizzle))
    else:
        layout = SharedLayout(tuple(type.shape), tuple(type.get_strides_and_offset()[0]))
    return MemRef(shape, _element(type.element_type), layout)


def decode_tv(tv: tile.ThreadValueAttr) -> ThreadValue:
    return ThreadValue(
        nested(tv.thread_shape), nested(tv.thread_stride), nested(tv.value_shape), nested(tv.value_stride)
    )


def _ring(type: sm.RingType) -> Ring:
    return Ring(type.stages, tuple(_memref(buffer) for buffer in type.buffers))


def _pending(type: sm.PendingType) -> PendingType:
    fragment = decode_type(type.fragment)
    assert isinstance(fragment, Fragment)
    return PendingType(fragment)


def _tensor_map(type: sm.TensorMapType) -> TensorMapType:
    return TensorMapType(tuple(type.shape), _element(type.element_type), _swizzle(type.swizzle))


def _swizzle(swizzle: tile.SwizzleAttr | None) -> tuple[int, int, int] | None:
    return None if swizzle is None else tuple(swizzle.bms)


_DECODERS: dict[Any, Callable[[Any], Type]] = {
    ir.IndexType: lambda t: Scalar("index", 64),
    ir.IntegerType: lambda t: Scalar(str(t), t.width),
    ir.VectorType: lambda t: Vector(tuple(t.shape), _element(t.element_type)),
    ir.MemRefType: _memref,
    tile.TileType: lambda t: Tile(tuple(t.shape), _element(t.element_type)),
    tile.ViewType: lambda t: View(tuple(t.shape), _element(t.element_type)),
    sm.FragmentType: lambda t: Fragment(tuple(t.shape), _element(t.element_type), decode_tv(t.tv)),
    sm.RingType: _ring,
    sm.SlotType: lambda t: Slot(t.use),
    sm.PendingType: _pending,
    sm.MbarriersType: lambda t: Mbarriers(t.count),
    sm.TensorMapType: _tensor_map,
    llvm.PointerType: lambda t: Pointer(t.address_space),
    llvm.StructType: lambda t: Struct(tuple(decode_type(element) for element in t.body)),
}


def integer_dtype(type: Type) -> np.dtype[Any] | None:
    """The numpy type in which integers of this type live; None of all else."""
    return type.dtype if isinstance(type, Scalar) and not type.is_float else None
