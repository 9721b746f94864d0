"""Grids of wgmma tiles, as arrays, and their products: the input of the estimate in `wgmma.py`. It needs no MLIR."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, TypeAlias

import numpy as np

Numbers: TypeAlias = "float | np.ndarray"

LINE_BYTES, SECTOR_BYTES = 128, 32  # of L2


@dataclass(frozen=True)
class Product:
    """The product D = A · B as the kernel computes it: `batch` times `m` × `n` sums of `k` products.

    Each number may also be an array, with a value for each grid.
    """

    m: Numbers
    n: Numbers
    k: Numbers
    batch: Numbers
    operand_bytes: Numbers
    """Bytes of an element of A and of B."""
    result_bytes: Numbers
    row_bytes: tuple[Numbers, Numbers]
    """The bytes of a row of A, and of B, along its contiguous dimension."""
    stores_columns: "bool | np.ndarray"
    """Whether D lies by columns and threads store single elements of it."""
    stores_transposed: "bool | np.ndarray" = False
    """Whether D lies by columns and TMA stores it, also in shares."""
    stores_early: "bool | np.ndarray" = False
    """Whether the first of two blocks of rows may be stored while the last K step multiplies the second."""
    a_is_k_major: "bool | np.ndarray" = True
    """Whether K is the contiguous dimension of A. The next: of B."""
    b_is_k_major: "bool | np.ndarray" = True
    clips: "bool | np.ndarray" = True
    """Whether TMA loads only the rows that exist of operands that are K-major. In clusters and for halves
    of tiles, it always loads whole boxes."""
    overlaps: "bool | np.ndarray" = False
    """Whether each launch begins before the one before it has ended, as in the calibration and in kernels that serve
    several extents, except those of plans, which say for each M whether a launch waits."""
    rings_are_deep: "bool | np.ndarray" = True
    """Whether rings may have more than 8 stages. No kernel of the calibration has so many."""
    ends_anywhere: "bool | np.ndarray" = False
    """Whether `m` is the mean number of rows of the products, which may end anywhere in a tile."""
    in_turn: "bool | np.ndarray" = False
    """Whether the products are groups of rows or of K, which CTAs take one after the other."""
    read_bytes: Numbers = 0
    """Bytes that the epilogue reads for each element of D."""
    computed: Numbers = 0
    """The cycles of an SM for the functions that the epilogue computes of each sum."""
    moved: Numbers = 0
    """The cycles of an SM in which threads load operands of the epilogue for each sum, and store its results."""
    awaited: Numbers = 0
    """The cycles of an SM for each sum in which threads wait for operands of the epilogue that TMA loads."""


def stacked(products: Sequence[Product]) -> Product:
    """Products as one, with arrays in place of numbers that are not the same for all."""
    columns = {each.name: _column([getattr(one, each.name) for one in products]) for each in fields(Product)}
    columns["row_bytes"] = tuple(map(_column, zip(*(one.row_bytes for one in products), strict=True)))
    return Product(**columns)


def _column(numbers: Sequence[Any]) -> Any:
    return numbers[0] if len(set(numbers)) == 1 else np.array(numbers)


def taken(product: Product, numbers: np.ndarray | slice) -> Product:
    """Some entries of a product of arrays. What is a number, not an array, stays: it is the same for all entries."""
    columns = {each.name: _entries(getattr(product, each.name), numbers) for each in fields(Product)}
    columns["row_bytes"] = tuple(_entries(size, numbers) for size in product.row_bytes)
    return Product(**columns)


def _entries(column: Any, numbers: np.ndarray | slice) -> Any:
    return column[numbers] if isinstance(column, np.ndarray) else column


class Grid(NamedTuple):
    """One candidate. Each field is an array in `Grids`."""

    rows: int
    """Of a CTA tile; so are the columns."""
    columns: int
    depth: int
    """K of a step."""
    warpgroups: int
    """The number of them that share a tile."""
    turns: int
    """Consumers that take tiles in turn; 1 if all share each tile."""
    cluster_rows: int
    cluster_columns: int
    parts: int
    """CTAs that share the K of a tile."""
    adds_shares: bool
    """Whether each of them adds and stores a share of the columns; if not, the first adds and stores all."""
    band: int
    """The rows of tiles in a band, which consecutive tiles cover column by column. It is 1 for the order `row`, and
    `WHOLE_COLUMN` for the order `column`."""
    halves: bool
    """Whether each tile of the last wave is computed as two halves."""


WHOLE_COLUMN = 1 << 30


@dataclass(frozen=True)
class Grids:
    """Candidates for one product: arrays of one length, with the fields of `Grid`."""

    rows: np.ndarray
    columns: np.ndarray
    depth: np.ndarray
    warpgroups: np.ndarray
    turns: np.ndarray
    cluster_rows: np.ndarray
    cluster_columns: np.ndarray
    parts: np.ndarray
    adds_shares: np.ndarray
    band: np.ndarray
    halves: np.ndarray

    @classmethod
    def of(cls, grids: Sequence[Grid]) -> "Grids":
        columns = zip(*grids, strict=True)
        return cls(*(np.array(column, dtype=np.float64) for column in columns))

    def at(self, chosen: np.ndarray | slice) -> "Grids":
        """Those that are chosen, by a mask, by their indices or by a slice."""
        return Grids(*(getattr(self, name)[chosen] for name in Grid._fields))

    def __len__(self) -> int:
        return len(self.rows)

    def __post_init__(self) -> None:
        assert {field.name for field in fields(self)} == {*Grid._fields}

    @property
    def cluster(self) -> np.ndarray:
        """CTAs of a cluster."""
        return self.cluster_rows * self.cluster_columns


def tiles_of(grids: Grids, product: Product) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of rows and columns of tiles in one product, in whole clusters. If products end anywhere in a tile,
    the last tile is half full on average."""
    rows, columns = product.m / (grids.rows * grids.cluster_rows), product.n / (grids.columns * grids.cluster_columns)
    rows = np.where(product.ends_anywhere, np.maximum(1, rows + 0.5), np.ceil(rows))
    return rows * grids.cluster_rows, np.ceil(columns) * grids.cluster_columns


def is_multiple(size: Numbers, unit: Numbers) -> np.ndarray:
    """Whether a size is a multiple of a unit. This is faster than numpy's remainder."""
    return np.asarray(np.floor(size / unit) * unit == size)


def rows_start_on(unit: int, product: Product) -> np.ndarray:
    """Whether the rows of A and of B start on multiples of `unit` bytes, such as lines or sectors of L2."""
    return np.asarray(is_multiple(product.row_bytes[0], unit) & is_multiple(product.row_bytes[1], unit))
