"""ldmatrix as the copy that feeds a tiled MMA: the row address that each lane supplies.

ldmatrix loads 1, 2 or 4 matrices of 8x8 16-bit elements. Lane `l` supplies the address of row `l % 8` of matrix
`l // 8`. Register `i` of lane `l` then holds elements `2 * (l % 4)` and `2 * (l % 4) + 1` of row `l // 4` of matrix
`i`, or with `.trans` of its transpose (PTX ISA, "ldmatrix"). So the row addresses follow from the fragment's TV layout
alone. Elements of 8 bits are loaded as pairs: a row has 16 of them, a register four. They are not transposed.
"""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from tensor_layouts import Layout, coalesce, compose, mode

from lowtide.elements import element_type
from lowtide.errors import ScheduleError
from lowtide.targets.atoms import Operand
from lowtide.targets.tiled import TiledMma
from lowtide.targets.tv import Shape, coordinates, extents, indices

_BITS, _BITS_TRANSPOSED = (8, 16), 16  # of the elements that it loads
_REGISTER_BITS, _LANES_PER_ROW = 32, 4
_NUMBERS = {8: "eight"}


@dataclass(frozen=True)
class LdmatrixPlan:
    """The ldmatrix instructions that load one operand's fragment from shared memory.

    `source` maps (thread, instruction) to the column-major index, in the operand's tile `shape`, of the row that the
    thread addresses. The elements of the row follow along the columns, or with `trans` along the rows of the tile
    (shared memory then holds the tile as (columns, rows)). Lanes that an x1 or x2 does not read repeat the rows of
    other lanes. Instructions count rest rows first, then rest columns, as the fragment's values do. For the fragment of
    one k-slice, plan for the slice's shape.
    """

    operand: Operand
    shape: Shape
    trans: bool
    matrices: int
    source: Layout
    per_register: int = 2
    """Elements in a register."""

    @property
    def row_elements(self) -> int:
        """Elements in the row that a lane addresses."""
        return _LANES_PER_ROW * self.per_register

    @property
    def atom_name(self) -> str:
        return f"ldmatrix.x{self.matrices}" + (".trans" if self.trans else "")

    @property
    def instructions(self) -> int:
        """Instructions that each warp issues for the whole tile."""
        return extents(self.source)[1]

    @property
    def values(self) -> NDArray[np.int64]:
        """Array [instruction, 2 * matrices]: the indices into the fragment's value mode that each instruction fills,
        register by register."""
        per_instruction = self.per_register * self.matrices
        return np.arange(self.instructions * per_instruction, dtype=np.int64).reshape(-1, per_instruction)


@lru_cache(maxsize=512)
def ldmatrix_source(tiled_mma: TiledMma, operand: Operand, tile_shape: Shape, trans: bool) -> LdmatrixPlan:
    """The widest ldmatrix that loads the fragment `tiled_mma.tv(operand, tile_shape)`, in value order.

    An instruction loads consecutive registers: the widest of x4, x2, x1 that divides the registers of one atom column
    (rest rows times registers of an atom), or of the whole fragment if a column is narrower than x4. Raises
    ScheduleError if the elements do not have 8 or 16 bits, or if the elements of a row are not contiguous and 16-byte
    aligned in shared memory.
    """
    dtype = tiled_mma.atom.dtype(operand)
    bits = element_type(dtype).bits
    if operand == "c" or bits not in _BITS or (trans and bits != _BITS_TRANSPOSED):
        moved = "transposes 16-bit operands" if trans else "loads 8-bit and 16-bit operands"
        raise ScheduleError(f"ldmatrix {moved} a and b, not {operand} of {dtype}; use ld.shared [ldmatrix-operand]")
    fragment, per_register = tiled_mma.tv(operand, tile_shape), elements_per_register(bits)
    _, values = extents(fragment)
    matrices = _width(
        tiled_mma.atom.registers(operand) * tiled_mma.rest(operand, tile_shape)[0], values // per_register
    )
    source = row_addresses(fragment, matrices, trans, per_register)
    check_rows(fragment, source, tile_shape, matrices, trans, operand, per_register)
    return LdmatrixPlan(operand, tile_shape, trans, matrices, source, per_register)


def elements_per_register(bits: int) -> int:
    """The number of elements of this width in a register of ldmatrix."""
    return _REGISTER_BITS // bits


def _width(registers_per_column: int, registers: int) -> int:
    """Matrices per instruction. An instruction crosses atom columns only if a column is too narrow for x4."""
    if registers_per_column < 4 and registers % 4 == 0:
        return 4
    return next(width for width in (4, 2, 1) if registers_per_column % width == 0)


@lru_cache(maxsize=512)
def row_addresses(fragment: Layout, matrices: int, trans: bool, per_register: int = 2) -> Layout:
    """The fragment's TV layout, composed with the (thread, value) of the first element of each lane's row."""
    threads, values = extents(fragment)
    value = threads  # one step in the value mode, in the fragment's linear domain
    warps = threads // 32
    # Row r of a matrix starts at lane 4r, in one register; row r of a transposed one at value r%2 of lane r//2.
    row: tuple[tuple[int, ...], tuple[int, ...]] = ((2, 4), (value, 1)) if trans else ((8,), (4,))
    lane_shape = (*row[0], matrices, 4 // matrices, warps)
    lane_stride = (*row[1], per_register * value, 0, 32)
    each = per_register * matrices
    composed = compose(fragment, Layout((lane_shape, values // each), (lane_stride, each * value)))
    return Layout(coalesce(mode(composed, 0)), coalesce(mode(composed, 1)))


def check_rows(
    fragment: Layout, source: Layout, shape: Shape, matrices: int, trans: bool, operand: str, per_register: int = 2
) -> None:
    """Check that each matrix row that a lane addresses is 16 contiguous bytes, aligned to 16 bytes."""
    threads, values = extents(fragment)
    along = 0 if trans else 1  # the tile dimension that is contiguous in shared memory
    count, per = _LANES_PER_ROW * per_register, per_register
    # Element e of row r: lane 4r + e//per, value e%per; transposed, per = 2: lane 4e + r//2, value r%2.
    row, element = np.meshgrid(np.arange(8), np.arange(count), indexing="ij")
    lane, value = (4 * element + row // 2, row % 2) if trans else (4 * row + element // per, element % per)
    held = coordinates(fragment, shape).reshape(threads // 32, 32, values // per, per, 2)
    elements = held[:, lane, :, value, :]  # [row, element, warp, register, coordinate]
    start = elements[:, :1]
    expected = start + np.where(np.arange(2) == along, 1, 0) * np.arange(count).reshape(1, count, 1, 1, 1)
    if not np.array_equal(elements, expected) or np.any(start[..., along] % count):
        raise ScheduleError(
            f"operand {operand}: ldmatrix{'.trans' if trans else ''} needs {_NUMBERS.get(count, count)} elements side "
            f"by side along the {'rows' if trans else 'columns'} of the tile {shape[0]}x{shape[1]}, {count}-aligned; "
            "this tiled MMA's permutation scatters them; drop it or use ld.shared [ldmatrix-rows]"
        )
    # The composed layout and the enumeration must give the same addresses.
    given = indices(source).reshape(threads // 32, 32, -1)[:, : 8 * matrices]
    given = given.reshape(threads // 32, matrices, 8, -1).transpose(2, 0, 3, 1).reshape(8, threads // 32, values // per)
    starts = start[:, 0]
    if not np.array_equal(given, starts[..., 0] + shape[0] * starts[..., 1]):
        raise ScheduleError(
            f"operand {operand}: registers of {fragment} do not group into ldmatrix.x{matrices} [ldmatrix-registers]"
        )
