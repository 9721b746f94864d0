"""Tiled MMA and tiled copy: an atom repeated over threads and values until it covers a CTA tile.

Both return TV layouts (`tv.py`), from which passes compute all indices. The construction is CuTe's
(`TiledMMA::thrfrg_A/B/C`, `make_tiled_copy`): the permutation first reorders a mode, which is then divided into (atom,
threads, rest).
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import gcd, prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from tensor_layouts import Layout, coalesce, compose, logical_divide, mode, raked_product, right_inverse, size

from lowtide.errors import ScheduleError
from lowtide.targets.atoms import CopyAtom, MmaAtom, Operand
from lowtide.targets.tv import Shape, offsets

Permutation: TypeAlias = int | Layout | None

_MODES = "mnk"
# The problem modes of an operand's rows and columns.
_OPERAND_MODES: dict[str, tuple[int, int]] = {"a": (0, 2), "b": (1, 2), "c": (0, 1)}


@lru_cache(maxsize=512)
def _permutes(layout: Layout) -> bool:
    """Whether the layout is a permutation of 0…size - 1."""
    whole = np.arange(size(layout))
    return np.array_equal(np.sort(offsets(layout, whole)), whole)


@dataclass(frozen=True)
class TiledMma:
    """An mma atom, repeated over warps and values.

    `atom_layout` is the number of atoms side by side in M, N and K, each on its own warp (or warpgroup, or thread,
    whichever executes one atom), M fastest: warp `m + n * M + k * M * N`, or warp `order(m, n, k)` if `order` is given.
    Warps along a mode that an operand lacks hold the same elements of it. `permutation` gives, for each mode, the
    extent of the tiled MMA (values repeat if it is larger than atoms times warps), or a Layout that reorders the mode
    within that extent, or None. Raises ScheduleError if the extents do not divide, or if the permutation or the order
    is not a bijection.
    """

    atom: MmaAtom
    atom_layout: tuple[int, int, int] = (1, 1, 1)
    permutation: tuple[Permutation, Permutation, Permutation] = (None, None, None)
    order: Layout | None = None

    def __post_init__(self) -> None:
        for axis, (atom, count, permutation) in enumerate(
            zip(self.atom.shape_mnk, self.atom_layout, self.permutation, strict=True)
        ):
            if count < 1:
                raise ScheduleError(
                    f"atom layout {self.atom_layout}: the least count is 1; set {_MODES[axis]} to 1 [atom-layout-count]"
                )
            if permutation is None:
                continue
            extent = size(permutation)
            if extent < 1 or extent % (atom * count):
                raise ScheduleError(
                    f"permutation of {_MODES[axis]} has extent {extent}, which the {count} atoms of {atom} do not "
                    f"divide; nearest is {max(1, round(extent / (atom * count))) * atom * count} [permutation-divides]"
                )
            if isinstance(permutation, Layout) and not _permutes(permutation):
                raise ScheduleError(
                    f"permutation of {_MODES[axis]} {permutation} does not permute 0…{extent - 1}"
                    " [permutation-permutes]"
                )
        self._check_order()

    def _check_order(self) -> None:
        if self.order is None:
            return
        modes = () if isinstance(self.order.shape, int) else self.order.shape
        extents = tuple(size(mode(self.order, axis)) for axis in range(len(modes)))
        if extents != self.atom_layout:
            raise ScheduleError(
                f"atom_order {self.order} has extents {list(extents)} and atoms are {list(self.atom_layout)}; give it "
                "one mode of that extent each for M, N and K [atom-order-extents]"
            )
        if not _permutes(self.order):
            raise ScheduleError(
                f"atom_order {self.order} does not number {prod(extents)} atoms once each; give strides that reach "
                f"each of 0…{prod(extents) - 1} [atom-order-numbers]"
            )

    @property
    def warps(self) -> int:
        return prod(self.atom_layout)

    @property
    def threads(self) -> int:
        return self.warps * self.atom.threads

    @property
    def tile_mnk(self) -> tuple[int, int, int]:
        """The tile that the tiled MMA covers at once: the permutation's extent, or atoms times warps."""
        extents = zip(self.atom.shape_mnk, self.atom_layout, self.permutation, strict=True)
        m, n, k = (atom * count if perm is None else size(perm) for atom, count, perm in extents)
        return m, n, k

    def tv(self, operand: Operand, tile_shape: Shape) -> Layout:
        """The TV layout of `operand` on a CTA tile: a (M, K), b (N, K), c (M, N).

        The value mode is (atom values, rest rows, rest columns). Raises ScheduleError if the tile is not a multiple of
        `tile_mnk`.
        """
        return _tv(self, operand, tile_shape)

    def _divide(self, operand: Operand, axis: int, extent: int, stride: int) -> tuple[Layout, Layout, Layout]:
        """One mode of a tile of `extent` elements, `stride` apart, as (atom, warps, rest)."""
        atom, count, tile = self.atom.shape_mnk[axis], self.atom_layout[axis], self.tile_mnk[axis]
        if extent < 1 or extent % tile:
            raise ScheduleError(
                f"operand {operand}: the tile's {_MODES[axis]} = {extent} is not a multiple of the tiled MMA's {tile}; "
                f"nearest is {max(1, round(extent / tile)) * tile} [tiled-mma-divides]"
            )
        permutation = self.permutation[axis]
        whole = Layout(extent, stride)
        if isinstance(permutation, Layout):
            whole = logical_divide(whole, permutation)
        rest = extent // (atom * count)
        parts = compose(whole, Layout((atom, count, rest), (1, atom, atom * count)))
        return mode(parts, 0), mode(parts, 1), mode(parts, 2)

    def rest(self, operand: Operand, tile_shape: Shape) -> tuple[int, int]:
        """(rest rows, rest columns): the number of repeats of each warp's atom over the tile."""
        row_mode, column_mode = _OPERAND_MODES[operand]
        rows = self.atom.shape_mnk[row_mode] * self.atom_layout[row_mode]
        columns = self.atom.shape_mnk[column_mode] * self.atom_layout[column_mode]
        return tile_shape[0] // rows, tile_shape[1] // columns

    def atom_values(self, operand: Operand, tile_shape: Shape) -> NDArray[np.int64]:
        """The value indices of each atom, in the order of the instruction's registers.

        Array [rest rows, rest columns, atom values], indices into the value mode of `tv(operand, tile_shape)`.
        """
        self.tv(operand, tile_shape)  # refuses a tile that does not divide
        rest_rows, rest_columns = self.rest(operand, tile_shape)
        values = self.atom.values(operand)
        return np.arange(values * rest_rows * rest_columns).reshape(rest_columns, rest_rows, values).swapaxes(0, 1)


@dataclass(frozen=True)
class TiledCopy:
    """A copy atom, repeated over the threads of a CTA and over a tile.

    `tv` maps (thread, (vector, rest rows, rest columns)) to the tile `shape`; one instruction of one thread moves
    `vector` elements.
    """

    atom: CopyAtom
    tv: Layout
    shape: Shape

    @property
    def threads(self) -> int:
        return size(mode(self.tv, 0))

    @cached_property
    def vector(self) -> int:
        """Elements that one instruction of one thread moves."""
        return size(mode(mode(self.tv, 1), 0))

    @property
    def repeats(self) -> int:
        """The number of instructions of each thread."""
        return size(mode(self.tv, 1)) // self.vector

    @property
    def starts(self) -> Layout:
        """(thread, instruction) to the index of the first element that it moves."""
        values = mode(self.tv, 1)
        return Layout(mode(self.tv, 0), coalesce(Layout(mode(values, 1), mode(values, 2))))


@lru_cache(maxsize=1024)
def _tv(mma: TiledMma, operand: Operand, tile_shape: Shape) -> Layout:
    rows, columns = tile_shape
    row_mode, column_mode = _OPERAND_MODES[operand]
    row_parts = mma._divide(operand, row_mode, rows, 1)
    column_parts = mma._divide(operand, column_mode, columns, rows)
    fragment = compose(Layout(row_parts[0], column_parts[0]), mma.atom.layout(operand))
    warps = [Layout(count, 0) for count in mma.atom_layout]
    warps[row_mode], warps[column_mode] = row_parts[1], column_parts[1]
    if mma.order is not None:
        warps = [compose(Layout(*warps), right_inverse(mma.order))]
    thread = coalesce(Layout(mode(fragment, 0), *warps))
    return Layout(thread, Layout(mode(fragment, 1), row_parts[2], column_parts[2]))


@lru_cache(maxsize=512)
def make_tiled_copy(atom: CopyAtom, thread_layout: Layout, value_layout: Layout, tile_shape: Shape) -> TiledCopy:
    """A tiled copy from a thread layout (row, column) -> thread and a value layout (row, column) -> value.

    For example, threads (32, 4):(4, 1) with values (1, 8) cover 32x32 elements, eight in a row for each thread. The
    pattern repeats over `tile_shape`, rows first. Raises ScheduleError if it does not divide the tile, or if a layout
    is not one-to-one.
    """
    rows, columns = tile_shape
    threads, values = size(thread_layout), size(value_layout)
    for what, layout in (("thread", thread_layout), ("value", value_layout)):
        if not _permutes(layout):
            raise ScheduleError(
                f"{atom.name}: {what} layout {layout} does not number {size(layout)} {what}s once each; "
                f"give strides that reach each of 0…{size(layout) - 1} [copy-numbers]"
            )
    covered = raked_product(thread_layout, value_layout)
    block_rows, block_columns = size(mode(covered, 0)), size(mode(covered, 1))
    if rows % block_rows or columns % block_columns:
        raise ScheduleError(
            f"{atom.name}: threads {thread_layout} with values {value_layout} cover {block_rows}x{block_columns}, "
            f"which does not divide the tile {rows}x{columns}; take another thread layout or tile [copy-covers]"
        )
    block = compose(right_inverse(covered), Layout((threads, values)))
    placed = compose(Layout((block_rows, block_columns), (1, rows)), block)
    rest_rows = Layout(rows // block_rows, block_rows)
    rest_columns = Layout(columns // block_columns, block_columns * rows)
    tv = Layout(coalesce(mode(placed, 0)), Layout(coalesce(mode(placed, 1)), rest_rows, rest_columns))
    return TiledCopy(atom, tv, tile_shape)


@lru_cache(maxsize=2048)
def default_copy_threads(threads: int, rows: int, columns: int, vector: int, most: int = 1 << 30) -> Layout:
    """A thread layout for a row-major tile: one thread for each vector of a row, the other threads along the rows.

    `vector` is in elements; a row has at most `most` threads. Raises ScheduleError if the threads cannot share the
    tile evenly.
    """
    if columns % vector == 0:
        across = gcd(columns // vector, threads)
        across = min(across, most) if across % most == 0 else across
        down = threads // across
        if rows % down == 0:
            return Layout((down, across), (across, 1))
    raise ScheduleError(
        f"{threads} threads cannot share a tile {rows}x{columns} in vectors of {vector} elements; "
        "take a larger tile, fewer warps, or extents that are powers of two [copy-threads]"
    )
