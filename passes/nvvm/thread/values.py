"""The lowered form of values of level `epilogue` in one thread's program."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from mlir import ir
from mlir.dialects import arith, llvm, vector
from numpy.typing import NDArray

from lowtide.dialects import sm
from lowtide.dialects.tile import OperandKind
from lowtide.elements import element_of_ir
from lowtide.passes.support.ir.builder import Builder
from lowtide.passes.support.problem.element_types import HELD_BYTE
from lowtide.targets.tv import Runs

# On a kernel: the positions of the arguments that are tensor maps.
TENSOR_MAPS_ATTRIBUTE = "tensor_maps"


@dataclass(frozen=True)
class GlobalExtents:
    """The extents of a matrix or vector in global memory, i32 if dynamic; None for those that no op asks for."""

    extents: tuple[int | ir.Value | None, ...]


@dataclass(frozen=True)
class GlobalMatrix:
    """A matrix, a vector, or a batch of such, in global memory: base pointer, strides of all dimensions but the last
    in elements (i64), extents (i32 if dynamic). The stride of a matrix `by_columns` is from column to column."""

    pointer: ir.Value
    strides: tuple[ir.Value, ...]
    extents: tuple[int | ir.Value, ...]
    element: ir.Type
    by_columns: bool = False
    index: "GlobalMatrix | None" = None
    """A vector, or None. With it, row i is row index[i] of a matrix that has `source_rows` rows, or zeros if there is
    no such row."""
    source_rows: int | ir.Value = 0
    is_list: bool = False
    """Whether it is a list of matrices: the pointer is to their table (`dialects/tile/lists.py`)."""

    @property
    def row_stride(self) -> ir.Value:
        """Elements from row to row of a matrix."""
        (stride,) = self.strides
        return stride


@dataclass(frozen=True)
class Offset:
    """Where a window starts along one dimension, and what is known about that offset.

    The value is a multiple of `multiple` plus `shift`; the `room` elements from it on are within the work tile (None:
    the window may start past the edge, as in copies that run ahead). Work tiles lie within the matrix if its extent is
    a multiple of `span`: of the tile's, or in clusters of the super-tile's.
    """

    value: ir.Value
    multiple: int
    shift: int
    room: int | None
    span: int = 1


@dataclass(frozen=True)
class Window:
    """A tile.view: kind, matrix, and one offset for each dimension of the matrix.

    A window of a matrix by columns is `turned`: it is that of the transpose, by rows, and its rows are columns of the
    fragments that are loaded and stored.
    """

    kind: OperandKind
    matrix: GlobalMatrix
    offsets: tuple[Offset, ...]
    shape: tuple[int, int]
    turned: bool = False
    second: GlobalMatrix | None = None
    """For a window of `halves`: the matrix of the second half of the rows, which begins at the same row."""

    @property
    def halves(self) -> tuple["Window", ...]:
        """The windows of one matrix each: this one, or its two halves."""
        if self.second is None:
            return (self,)
        one = replace(self, shape=(self.shape[0] // 2, self.shape[1]), second=None)
        return one, replace(one, matrix=self.second)


@dataclass(frozen=True)
class SharedBuffer:
    """A buffer in shared memory: pointer to its start (!llvm.ptr<3>) and its memref type."""

    pointer: ir.Value
    type: ir.MemRefType


@dataclass(frozen=True)
class Ring:
    """A ring: pointer to the first stage of each buffer (!llvm.ptr<3>), the bytes of one stage of each, and how many
    there are of each."""

    pointers: tuple[ir.Value, ...]
    stage_bytes: tuple[int, ...]
    copies: tuple[int, ...]
    type: sm.RingType


@dataclass(frozen=True)
class Fragment:
    """This thread's registers of a fragment, in value order.

    Each register is a vector of `width` elements or, where `packed`, an i32 that holds as many elements.
    """

    registers: tuple[ir.Value, ...]
    width: int
    type: sm.FragmentType
    packed: bool = False


@dataclass(frozen=True)
class Repeated:
    """This thread's registers of a fragment whose values repeat: value v is the element of `registers[places[v]]`."""

    registers: tuple[ir.Value, ...]
    places: tuple[int, ...]
    type: sm.FragmentType


@dataclass(frozen=True)
class Pending:
    """The accumulators of a wgmma in flight: a struct of registers for each block of 64 rows.

    `ready` are the vectors of the first blocks, which a wait has handed on; `registers` are those of the others.
    """

    registers: tuple[ir.Value, ...]
    type: sm.FragmentType
    ready: tuple[ir.Value, ...] = ()


Lowered: TypeAlias = (
    ir.Value | Window | SharedBuffer | Ring | Fragment | GlobalMatrix | GlobalExtents | Pending | Repeated
)


def held_type(element: ir.Type) -> ir.Type:
    """What one thread's program has in place of an element: integers without a sign, as arith and LLVM take them, and a
    byte for an 8-bit float, which LLVM lacks."""
    row = element_of_ir(element)
    if row is None or row.value_ir == str(element):
        return ir.Type.parse(HELD_BYTE) if row is not None and row.is_converted_to else element
    return ir.Type.parse(row.value_ir)


def vector_type(width: int, element: ir.Type) -> ir.VectorType:
    """A vector of elements of a matrix, as a value."""
    return ir.VectorType.get([width], held_type(element))


def in_value_order(loaded: Sequence[ir.Value], values: NDArray[np.int64], type_: sm.FragmentType) -> Fragment:
    """A fragment of vectors: vector i holds the values `values[i]`, in any order."""
    run = values.shape[1]
    place = np.empty(values.size, np.int64)
    place[values.reshape(-1)] = np.arange(values.size)
    # The most neighbouring values that are neighbours in each load too.
    width = run
    while np.any(place.reshape(-1, width) != place[::width, None] + np.arange(width)):
        width //= 2
    firsts = place[::width].tolist()
    if width == run:
        return Fragment(tuple(loaded[first // run] for first in firsts), run, type_)
    parts = (shuffle(x := loaded[first // run], x, range(first % run, first % run + width)) for first in firsts)
    return Fragment(tuple(parts), width, type_)


def regroup(fragment: Fragment, width: int) -> Fragment:
    """The same values in vectors of another width, by shuffles."""
    if fragment.width == width:
        return fragment
    registers: list[ir.Value] = []
    if width < fragment.width:
        for register in fragment.registers:
            for start in range(0, fragment.width, width):
                registers.append(shuffle(register, register, range(start, start + width)))
    else:
        registers = list(fragment.registers)
        current = fragment.width
        while current < width:
            pairs = zip(registers[::2], registers[1::2], strict=True)
            registers = [shuffle(x, y, range(2 * current)) for x, y in pairs]
            current *= 2
    return replace(fragment, registers=tuple(registers), width=width)


def unpacked(fragment: Fragment) -> Fragment:
    """The same values, in vectors also if ldmatrix has loaded them."""
    if not fragment.packed:
        return fragment
    type_ = vector_type(fragment.width, fragment.type.element_type)
    registers = tuple(llvm.BitcastOp(type_, register).result for register in fragment.registers)
    return replace(fragment, registers=registers, packed=False)


def gathered(fragment: Fragment, order: Runs, width: int) -> Sequence[ir.Value]:
    """The fragment's values, in the order of runs, as vectors of `width`."""
    if order.in_order:
        return regroup(fragment, width).registers
    element = fragment.type.element_type
    values = [element_of(fragment.registers[v // fragment.width], v % fragment.width) for v in order.values]
    return _vectors(values, width, element)


def element_of(register: ir.Value, index: int) -> ir.Value:
    """One element of a vector."""
    return vector.ExtractOp(register, [], [index]).result


def _vectors(values: Sequence[ir.Value], width: int, element: ir.Type) -> list[ir.Value]:
    type_ = vector_type(width, element)
    return [
        vector.FromElementsOp(type_, list(values[start : start + width])).result
        for start in range(0, len(values), width)
    ]


def shuffle(x: ir.Value, y: ir.Value, mask: Sequence[int] | range) -> ir.Value:
    element = ir.VectorType(x.type).element_type
    return vector.ShuffleOp(x, y, list(mask), results=[vector_type(len(mask), element)]).result


def elements_from(build: Builder, low: ir.Value, high: ir.Value, first: ir.Value) -> ir.Value:
    """As many elements as each of two vectors has, of both one behind the other, from element `first` on.

    `first` is known at run time, and less than that number, a power of two. It is halved in as many selections.
    """
    count = ir.VectorType(low.type).shape[0]
    held, step = shuffle(low, high, range(2 * count)), count // 2
    while step:
        kept = count + step if step > 1 else count
        near, far = (shuffle(held, held, range(at, at + kept)) for at in (0, step))
        held, step = arith.select(build.ne(build.and_(first, step), 0), far, near), step // 2
    return held


def flatten(value: Lowered) -> list[ir.Value]:
    """The SSA values that a loop carries for a lowered value."""
    if isinstance(value, (Fragment, Pending, Repeated)):
        return list(value.registers)
    if isinstance(value, SharedBuffer):
        return [value.pointer]
    assert isinstance(value, ir.Value), f"a loop cannot carry {type(value).__name__}"
    return [value]


def unflatten(like: Lowered, values: Sequence[ir.Value]) -> Lowered:
    """A lowered value of the same form from other SSA values."""
    if isinstance(like, (Fragment, Pending, Repeated)):
        return replace(like, registers=tuple(values))
    if isinstance(like, SharedBuffer):
        return replace(like, pointer=values[0])
    return values[0]
