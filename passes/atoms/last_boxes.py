"""The boxes of the last tiles along M or N: TMA loads only the rows that exist.

TMA takes longer for rows outside of a matrix than for rows inside, although it reads nothing for them. On an H200,
133×8192×5376 bf16 with swapped tiles of 64×160 took 34.4 µs with boxes of 160 rows; 160×8192×5376 took 29.2 µs.

The other rows of a slot keep what they had. wgmma reads them, but they only count for rows or columns of D that do not
exist. Only if threads read the slots, the kernel stores zeros in these rows before the first load, which takes up to 8
% of the time of a short kernel (docs/cost-model.md).
"""

from dataclasses import dataclass, field

from mlir import ir
from mlir.dialects import arith

from lowtide.dialects import sm, tile
from lowtide.dialects.enums import work_part
from lowtide.dialects.tile import WorkPart
from lowtide.dialects.tile.work import Place
from lowtide.passes.support.agents.clusters import OPERANDS
from lowtide.passes.support.ir.builder import Builder, constant_of
from lowtide.passes.support.problem.kernels import bytes_of, cluster_shape, work_tiles_around
from lowtide.passes.support.streams.tensor_map_arguments import TensorMapArguments, rows_of_last_box


@dataclass(frozen=True)
class Boxes:
    """The boxes of a copy. `rows` and `bytes`: what the copy loads, if this may be fewer rows than the buffer has."""

    tensor_map: ir.Value
    rows: ir.Value | None = None
    bytes: ir.Value | None = None


@dataclass(frozen=True)
class LastBoxes:
    """The boxes of copies of a kernel that may load only some rows of a tile.

    `has_scales`: whether slots also have buffers for scales. `found`: boxes by their first row and matrix. `rows`: for
    the number of a buffer in a slot, the extent that is loaded into it and the rows of a full box.
    """

    maps: TensorMapArguments
    has_scales: bool
    found: dict[tuple[ir.Value, ir.Value], Boxes] = field(default_factory=dict)
    rows: dict[int, tuple[ir.Value, int]] = field(default_factory=dict)

    def of(self, copy: sm.CopyAsyncOp, buffer: int) -> Boxes | None:
        """The boxes of a copy into buffer number `buffer` of a slot. None if all boxes are full, if a tile may lie
        outside of the matrix, or if slots also have scales: then the thread that loads has no registers left for these
        values, which are computed once for each tile, before the loop over K."""
        view, type_ = copy.source.owner.opview, ir.MemRefType(copy.destination.type)
        row, matrix, most = view.offsets[-2], view.source, type_.shape[0]
        work = work_tiles_around(copy)
        along = None if work is None or self.has_scales else _extent_along(work, row, most)
        if work is None or along is None or _is_multiple(along, most):
            return None
        if (row, matrix) not in self.found:
            with ir.InsertionPoint.at_block_begin(work.body.blocks[0]), copy.operation.location:
                self.found[row, matrix] = self._boxes(copy, along, most)
            self.rows[buffer] = along, most
        return self.found[row, matrix]

    def _boxes(self, copy: sm.CopyAsyncOp, along: ir.Value, most: int) -> Boxes:
        """The boxes of a tile of at most `most` rows of the extent `along`."""
        build, view, type_ = Builder.index(), copy.source.owner.opview, copy.destination.type
        known = constant_of(along)
        rows = build.umin(build.sub(along, view.offsets[-2]), most)
        tensor_map = self.maps.map_for(copy, view.source, type_, is_last=True)
        if known is None or known > most:
            full = self.maps.map_for(copy, view.source, type_)
            tensor_map = arith.select(build.ult(rows, most), tensor_map, full)
        return Boxes(tensor_map, rows, build.mul(rows, bytes_of(copy, type_) // most))

    def zero_rows(self, ring: ir.Value) -> None:
        """Stores zeros in the rows of slots that the last boxes do not fill, for threads that read whole slots."""
        if not self.rows:
            return
        build = Builder.index()
        buffers = [ir.MemRefType(buffer) for buffer in sm.RingType(ring.type).buffers[: len(OPERANDS)]]
        ends = [build.constant(buffer.shape[0]) for buffer in buffers]
        for number, (along, most) in self.rows.items():
            ends[number] = rows_of_last_box(along, most)
        sm.ZeroRowsOp(ring, *ends)
        sm.BarrierOp()


def _is_multiple(extent: ir.Value, of: int) -> bool:
    known = constant_of(extent)
    return known is not None and known % of == 0


def _extent_along(work: tile.WorkTilesOp, row: ir.Value, rows: int) -> ir.Value | None:
    """The extent of D along the rows of a copy. None if these are not the rows or columns of a tile, if a tile may
    begin outside of D, or if rows of other groups follow."""
    is_inside = cluster_shape(work.cluster) == (1, 1) and work_part(work) is not WorkPart.tail_halves
    if not is_inside or (work.ends is not None and work.batches is None):
        return None
    place, extents = Place.of(work), (work.rows, work.columns)
    sides = zip((place.m, place.n), work.tile, extents, strict=True)
    return next((extent for first, side, extent in sides if (row, rows) == (first, side)), None)
