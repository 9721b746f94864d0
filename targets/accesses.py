"""What the warps of a tiled copy, an ldmatrix plan or a fragment do to memory: addresses, conflicts, sectors.

A shared-memory layout here maps (row, column) of the tile *as it is stored*, last dimension contiguous, to an element
offset; a swizzle stands outermost (`compose(Swizzle(B, M, S), Layout(...))`) and counts elements, as in CuTe.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from tensor_layouts import Layout, Swizzle, compose, mode, size

from lowtide.errors import ScheduleError
from lowtide.targets.banks import AccessKind, Conflict, Sectors, sectors_per_request, worst_conflict
from lowtide.targets.ldmatrix import LdmatrixPlan
from lowtide.targets.tiled import TiledCopy
from lowtide.targets.tv import LayoutExpr, Shape, coordinates, extents, offsets

SwizzleBits = tuple[int, int, int]


@dataclass(frozen=True)
class WarpAccess:
    """A memory instruction of every warp of a CTA, as often as the tile needs it.

    `starts` maps (thread, instruction) to the column-major index, in the tile `shape`, of the first of `vector`
    elements; they lie along the columns, or, with `transposed`, along the rows of a tile stored as (columns, rows).
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


def copy_access(copy: TiledCopy, name: str | None = None) -> WarpAccess:
    """A tiled copy's side of the tile: cp.async writes, or loads and stores of vectors along the columns."""
    return fragment_access(name or copy.atom.name, copy.tv, copy.shape, copy.vector)


def ldmatrix_access(plan: LdmatrixPlan, name: str | None = None) -> WarpAccess:
    """The row addresses of a plan's ldmatrix instructions."""
    return WarpAccess(
        name or f"{plan.atom_name} {plan.operand}",
        plan.source,
        plan.shape,
        vector=8,
        kind="ldmatrix",
        transposed=plan.trans,
        lanes=8 * plan.matrices,
    )


def fragment_access(name: str, tv: Layout, shape: Shape, vector: int) -> WarpAccess:
    """A fragment's loads or stores, `vector` consecutive values each.

    Raises ScheduleError where such values are not side by side along the columns.
    """
    threads, values = extents(tv)
    if values % vector:
        raise ScheduleError(f"{name}: a thread's {values} values do not divide into vectors of {vector}")
    held = coordinates(tv, shape).reshape(threads, -1, vector, 2)
    if np.any(held != held[:, :, :1] + np.arange(vector)[:, None] * np.array([0, 1])):
        raise ScheduleError(
            f"{name}: {vector} consecutive values of {tv} are not side by side along the columns of the tile "
            f"{shape[0]}x{shape[1]}; take narrower vectors"
        )
    # Composition reads the TV layout as one linear domain, in which a value is `threads` apart from the next.
    starts = compose(tv, Layout((threads, values // vector), (1, vector * threads)))
    return WarpAccess(name, starts, shape, vector)


def swizzled(stored_shape: Shape, swizzle: SwizzleBits) -> LayoutExpr:
    """The shared-memory layout of a row-major tile under swizzle<B, M, S>, in elements."""
    return compose(Swizzle(*swizzle), Layout(stored_shape, (stored_shape[1], 1)))


def shared_access_conflicts(smem: LayoutExpr, access: WarpAccess, element_bytes: int) -> Conflict:
    """The worst conflict of an access to a tile in shared memory, wavefronts summed over all warps and instructions.

    The buffer is taken to start at a multiple of 128 bytes. Raises ScheduleError where `smem` is not a layout of the
    tile or puts the elements of a vector apart.
    """
    rows = size(mode(smem.shape, 0))
    if (rows, size(smem) // rows) != access.stored_shape:
        raise ScheduleError(f"{access.name}: layout {smem} is not one of the tile {access.stored_shape}")
    stored = access.stored_coordinates()
    element = stored[..., 0] + rows * (stored[..., 1] + np.arange(access.vector)[:, None, None])
    place = offsets(smem, element)
    if np.any(place != place[0] + np.arange(access.vector)[:, None, None]):
        raise ScheduleError(
            f"{access.name}: layout {smem} parts the {access.vector} elements of a vector; "
            f"take a swizzle with M >= {(access.vector - 1).bit_length()}, or narrower vectors"
        )
    return worst_conflict(place[0] * element_bytes, access.vector * element_bytes, access.kind)


def global_access_sectors(access: WarpAccess, row_stride_bytes: int, element_bytes: int, base: int = 0) -> Sectors:
    """The worst request of an access to a row-major matrix in global memory, `row_stride_bytes` from row to row.

    `base` is the byte address of the tile's first element, modulo 32.
    """
    stored = access.stored_coordinates()
    addresses = base + stored[..., 0] * row_stride_bytes + stored[..., 1] * element_bytes
    requests = [sectors_per_request(request, access.vector * element_bytes) for request in addresses]
    return max(requests, key=lambda request: (request.touched, -request.ideal))
