"""Types of values as plain data."""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from lowtide.elements import ELEMENTS
from lowtide.interpreter.numbers.registers import SIGNED
from lowtide.interpreter.program.layouts import SharedLayout, ThreadValue


@dataclass(frozen=True)
class Scalar:
    """`name` in MLIR's form: f32, bf16, i1, i32, index, …"""

    name: str
    bits: int

    @property
    def is_float(self) -> bool:
        return self.name in FLOATS

    @property
    def bytes(self) -> int:
        return max(1, self.bits // 8)

    @property
    def dtype(self) -> Any:
        """The numpy type of arrays of integers of this width."""
        return SIGNED[self.bits]


@dataclass(frozen=True)
class Vector:
    shape: tuple[int, ...]
    element: Scalar


@dataclass(frozen=True)
class MemRef:
    """`shape` has None for a dynamic extent; `layout` is that of shared memory, None for global memory.

    `is_column_major`: the columns of a matrix in global memory are contiguous, not its rows. `is_list`: it is a list of
    matrices, which lie anywhere (`dialects/tile/lists.py`).
    """

    shape: tuple[int | None, ...]
    element: Scalar
    layout: SharedLayout | None
    is_column_major: bool = False
    is_list: bool = False

    @property
    def shape_as_it_lies(self) -> tuple[int | None, ...]:
        """The shape of the passed array: its last dimension is contiguous."""
        return self.turned(self.shape) if self.is_column_major else self.shape

    @staticmethod
    def turned(shape: tuple[Any, ...]) -> tuple[Any, ...]:
        """The shape with its last two dimensions exchanged; the batch stays first."""
        *batch, rows, columns = shape
        return (*batch, columns, rows)

    @property
    def bytes(self) -> int:
        """The bytes of a buffer in shared memory."""
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
    """`shape` of a box: panels if it has more than two sides, rows, columns; `swizzle` (B, M, S) or None. In
    elements.
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
    """An opaque type (tokens, functions, …)."""

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

FLOATS = {row.ir: row.bits for row in ELEMENTS.values() if row.is_float}


def integer_dtype(type: Type) -> np.dtype[Any] | None:
    """The numpy type of integers of this type; None for others."""
    return type.dtype if isinstance(type, Scalar) and not type.is_float else None
