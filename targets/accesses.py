"""The memory accesses of tiled copies, ldmatrix plans, fragments and wgmma: addresses, conflicts, sectors.

A shared-memory layout maps (row, column) of the tile *as stored*, last dimension contiguous, to an element offset. Its
swizzle is outermost (`compose(Swizzle(B, M, S), Layout(...))`) and counts elements, as in CuTe.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from tensor_layouts import Layout, Swizzle, compose, mode, size

from lowtide.errors import ScheduleError
from lowtide.targets.banks import AccessKind, Conflict, Sectors, sectors_per_request, worst_conflict, worst_request
from lowtide.targets.fragment_loads import FragmentLoads
from lowtide.targets.ldmatrix import LdmatrixPlan, row_addresses
from lowtide.targets.tiled import TiledCopy
from lowtide.targets.tv import LayoutExpr, Shape, coordinates, extents, offsets, runs

SwizzleBits = tuple[int, int, int]

_CORE_ROWS, _CORE_ROW_BYTES = 8, 16


@dataclass(frozen=True)
class WarpAccess:
    """A memory instruction that every warp of a CTA repeats until the tile is covered.

    `starts` maps (thread, instruction) to the column-major index, in the tile `shape`, of the first of `vector`
    elements. The elements follow along the columns, or with `transposed` along the rows of a tile stored as (columns,
    rows).
    """

    name: str
    starts: Layout
    shape: Shape
    vector: int
    kind: AccessKind = "shared"
    transposed: bool = False
    lanes: int = 32
    """Lanes of a warp that address memory."""

    @property
    def stored_shape(self) -> Shape:
        """(rows, columns) as stored."""
        return self.shape[::-1] if self.transposed else self.shape

    def stored_coordinates(self) -> NDArray[np.int64]:
        """(row, column) as stored of each first element: array [warp and instruction, lane, 2]."""
        threads, repeats = extents(self.starts)
        stored = coordinates(self.starts, self.shape)
        if self.transposed:
            stored = stored[..., ::-1]
        by_warp = stored.reshape(threads // 32, 32, repeats, 2).swapaxes(1, 2)
        return by_warp.reshape(-1, 32, 2)[:, : self.lanes]


def copy_access(copy: TiledCopy, name: str | None = None, transposed: bool = False) -> WarpAccess:
    """The tile side of a tiled copy: writes of cp.async, or loads and stores of vectors along the columns.

    `transposed`: for a stage that is contiguous along the rows.
    """
    access = fragment_access(name or copy.atom.name, copy.tv, copy.shape, copy.vector)
    return replace(access, transposed=transposed)


def ldmatrix_access(plan: LdmatrixPlan, name: str | None = None) -> WarpAccess:
    """The row addresses of a plan's ldmatrix instructions."""
    return WarpAccess(
        name or f"{plan.atom_name} {plan.operand}",
        plan.source,
        plan.shape,
        vector=plan.row_elements,
        kind="ldmatrix",
        transposed=plan.trans,
        lanes=8 * plan.matrices,
    )


def stmatrix_access(tv: Layout, shape: Shape, matrices: int, transposed: bool = False) -> WarpAccess:
    """The row addresses of the stmatrix that store a fragment. `transposed`: the tile is stored as (columns, rows)."""
    starts = row_addresses(tv, matrices, transposed)
    return WarpAccess(f"stmatrix.x{matrices}", starts, shape, 8, "ldmatrix", transposed, 8 * matrices)


def loads_access(loads: FragmentLoads, name: str) -> WarpAccess:
    """The loads of an mma operand's fragment."""
    return WarpAccess(name, loads.starts, loads.shape, loads.vector, transposed=loads.trans)


@lru_cache(maxsize=2048)
def fragment_access(name: str, tv: Layout, shape: Shape, vector: int, transposed: bool = False) -> WarpAccess:
    """A fragment's loads or stores of `vector` values each, contiguous along the columns or, `transposed`, the rows.

    Raises ScheduleError if a thread does not hold such values.
    """
    try:
        ordered = runs(tv, shape, vector, transposed).tv
    except ScheduleError as error:
        raise ScheduleError(f"{name}: {error}") from None
    threads, values = extents(ordered)
    # Composition reads the TV layout as one linear domain, with a distance of `threads` between values.
    starts = compose(ordered, Layout((threads, values // vector), (1, vector * threads)))
    return WarpAccess(name, starts, shape, vector, transposed=transposed)


def swizzled(stored_shape: Shape, swizzle: SwizzleBits) -> LayoutExpr:
    """The shared-memory layout of a row-major tile under swizzle<B, M, S>, in elements."""
    return compose(Swizzle(*swizzle), Layout(stored_shape, (stored_shape[1], 1)))


def shared_access_conflicts(smem: LayoutExpr, access: WarpAccess, element_bytes: int) -> Conflict:
    """The worst conflict of an access to a tile in shared memory, with wavefronts summed over all warps and
    instructions.

    The buffer starts at a multiple of 128 bytes. Raises ScheduleError if `smem` is not a layout of the tile or
    separates the elements of a vector.
    """
    rows = size(mode(smem.shape, 0))
    if (rows, size(smem) // rows) != access.stored_shape:
        raise ScheduleError(
            f"{access.name}: layout {smem} does not belong to the tile {access.stored_shape} [access-layout]"
        )
    starts = _vector_starts(access.name, smem, rows, access.stored_coordinates(), access.vector)
    return worst_conflict(starts * element_bytes, access.vector * element_bytes, access.kind)


def core_matrix_conflicts(name: str, smem: LayoutExpr, element_bytes: int, reads: int = 1) -> Conflict:
    """The worst conflict of wgmma's reads of an operand, each of its core matrices read `reads` times.

    A core matrix is 8 rows of 16 bytes of the operand as stored (PTX ISA, "Core matrix"). It takes one phase if its
    rows fall on different banks; the lanes of the witness are its rows. The buffer starts at a multiple of 1024 bytes.
    Raises ScheduleError if the operand does not divide into core matrices, or `smem` separates the elements of a
    row.
    """
    rows, vector = size(mode(smem.shape, 0)), _CORE_ROW_BYTES // element_bytes
    stored = core_matrix_rows(name, (rows, size(smem) // rows), element_bytes)
    starts = _vector_starts(name, smem, rows, stored, vector)
    once = worst_conflict(starts * element_bytes, _CORE_ROW_BYTES, "ldmatrix")
    return replace(once, wavefronts=reads * once.wavefronts, ideal=reads * once.ideal)


def core_matrix_rows(name: str, stored_shape: Shape, element_bytes: int) -> NDArray[np.int64]:
    """(row, column) as stored of the first element of each row of each core matrix: array [matrix, row, 2].

    Raises ScheduleError if the operand does not divide into core matrices.
    """
    (rows, columns), vector = stored_shape, _CORE_ROW_BYTES // element_bytes
    if rows % _CORE_ROWS or columns % vector:
        raise ScheduleError(
            f"{name}: a {rows}x{columns} operand does not divide into core matrices of {_CORE_ROWS}x{vector}; take "
            "a tile that does [core-matrices]"
        )
    row = np.arange(rows).reshape(-1, 1, _CORE_ROWS)
    column = np.arange(0, columns, vector).reshape(1, -1, 1)
    return np.stack(np.broadcast_arrays(row, column), axis=-1).reshape(-1, _CORE_ROWS, 2)


def _vector_starts(name: str, smem: LayoutExpr, rows: int, stored: NDArray[np.int64], vector: int) -> NDArray[np.int64]:
    """The offset of the first of `vector` elements along a stored row: array [access, lane] from [access, lane, 2]."""
    element = stored[..., 0] + rows * (stored[..., 1] + np.arange(vector)[:, None, None])
    place = offsets(smem, element)
    if np.any(place != place[0] + np.arange(vector)[:, None, None]):
        raise ScheduleError(
            f"{name}: layout {smem} separates the {vector} elements of a vector; "
            f"take a swizzle with M >= {(vector - 1).bit_length()}, or narrower vectors [vector-parted]"
        )
    first: NDArray[np.int64] = place[0]
    return first


def global_access_requests(
    access: WarpAccess, row_stride_bytes: int, element_bytes: int, base: int = 0
) -> list[Sectors]:
    """Each request of a warp for an access to a row-major matrix in global memory, with rows `row_stride_bytes` apart.

    `base` is the byte address of the tile's first element, modulo 32.
    """
    stored = access.stored_coordinates()
    addresses = base + stored[..., 0] * row_stride_bytes + stored[..., 1] * element_bytes
    return [sectors_per_request(request, access.vector * element_bytes) for request in addresses]


def global_access_sectors(access: WarpAccess, row_stride_bytes: int, element_bytes: int, base: int = 0) -> Sectors:
    """The worst of `global_access_requests`."""
    return worst_request(global_access_requests(access, row_stride_bytes, element_bytes, base))
