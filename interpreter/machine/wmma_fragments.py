"""Fragments of wmma: which elements of a matrix each lane holds, in how many registers.

PTX ISA, "Matrix Fragments for WMMA". The places are not specified, so that no program may depend on them. Here each
lane holds consecutive elements: of A and B as they lie in memory, of C and D by rows. No lane holds those with its own
number, so that a program that lacks a synchronization of the warp is found. Fragments of A and B of f16 hold each
element several times.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from lowtide.errors import InterpreterError
from lowtide.interpreter.machine.hardware import Ints, MmaFragments

Shape = tuple[int, int, int]

_LANES = 32
_PARTS = (5 * np.arange(_LANES) + 7) % _LANES  # of a matrix, by lane
_F16_REGISTERS = 8  # of A and B
_WIDE = 64  # bits
_LARGE = ((16, 16, 16), (8, 32, 16), (32, 8, 16))
# By the type of A, by PTX name: its bits, and the shapes.
_TYPES: Mapping[str, tuple[int, tuple[Shape, ...]]] = MappingProxyType(
    {
        **{name: (16, _LARGE) for name in ("f16", "bf16")},
        **{name: (8, _LARGE) for name in ("s8", "u8")},
        **{name: (4, ((8, 8, 32),)) for name in ("s4", "u4")},
        "tf32": (32, ((16, 16, 8),)),
        "f64": (64, ((8, 8, 4),)),
        "b1": (1, ((8, 8, 128),)),
    }
)
_SUMS: Mapping[str, tuple[int, frozenset[Shape]]] = MappingProxyType(
    {
        "f16": (16, frozenset(_LARGE)),
        "f32": (32, frozenset((*_LARGE, (16, 16, 8)))),
        "s32": (32, frozenset((*_LARGE, (8, 8, 32), (8, 8, 128)))),
        "f64": (64, frozenset(((8, 8, 4),))),
    }
)


@dataclass(frozen=True)
class Fragment:
    """A matrix "a", "b" or "c" (also D) of `rows` × `columns` elements of `bits`. `is_by_rows`: rows are contiguous in
    memory."""

    role: str
    rows: int
    columns: int
    bits: int
    type: str
    is_by_rows: bool

    @classmethod
    def of(cls, role: str, shape: Shape, type: str, is_by_rows: bool) -> "Fragment":
        """Raises InterpreterError for a shape or a layout that the type lacks."""
        m, n, k = shape
        bits, shapes = (_SUMS if role == "c" else _TYPES).get(type, (0, ()))
        if shape not in shapes:
            raise InterpreterError(f"wmma has no m{m}n{n}k{k} with {type} as {role.upper()} [wmma-shape]")
        if bits < 8 and is_by_rows != (role == "a"):
            raise InterpreterError(f"A of {type} is by rows (.row), and B by columns (.col) [wmma-layout]")
        rows, columns = {"a": (m, k), "b": (k, n), "c": (m, n)}[role]
        return cls(role, rows, columns, bits, type, is_by_rows)

    @property
    def elements(self) -> int:
        """Of each lane, each once."""
        return self.rows * self.columns // _LANES

    @property
    def width(self) -> int:
        """Bits of a register."""
        return max(32, self.bits)

    @property
    def distinct(self) -> int:
        """Registers that hold each element once."""
        return self.elements * self.bits // self.width

    @property
    def registers(self) -> int:
        return _F16_REGISTERS if self.type == "f16" and self.role != "c" else self.distinct

    @property
    def line(self) -> int:
        """Elements that are contiguous in memory: a row or a column. This is the least stride between two."""
        return self.columns if self.is_by_rows else self.rows

    def places(self) -> tuple[Ints, Ints]:
        """Row and column of each element of each lane: (32, elements)."""
        at = _PARTS[:, None] * self.elements + np.arange(self.elements)
        if self.is_by_rows or self.role == "c":
            return at // self.columns, at % self.columns
        return at % self.rows, at // self.rows

    def offsets(self, stride: int) -> Ints:
        """Where each element of each lane is in memory, in elements after the first: (32, elements)."""
        row, column = self.places()
        return row * stride + column if self.is_by_rows else column * stride + row

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements of a lane are contiguous in memory."""
        return self.is_by_rows or self.role != "c"


def product_places(shape: Shape, a: Fragment, b: Fragment, c: Fragment) -> MmaFragments:
    """The places of a product's operands."""
    return MmaFragments(shape, a.places(), b.places(), c.places())
