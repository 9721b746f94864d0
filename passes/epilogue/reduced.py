"""A reduction of a tile.store: threads reduce their elements of each part, and warps store partial results.

A partial result of a row covers all parts with this row. A partial result of a column covers all parts with this
column: a thread keeps it in registers of accumulators that are already stored. In grids with tiles of two heights, a
partial result of a column covers one part.
"""

from dataclasses import dataclass, field

from mlir import ir
from tensor_layouts import Layout

from lowtide.dialects import sm, tile
from lowtide.dialects.tile import OperandKind, ResultKind
from lowtide.dialects.tile.layouts import tv_of
from lowtide.passes.support.agents.atoms import fragment_type
from lowtide.passes.support.agents.reductions import lines_of, reduction_of
from lowtide.passes.support.ir.builder import Builder
from lowtide.reductions import Reduction
from lowtide.targets.tv import extents

Origin = tuple[ir.Value, ir.Value]


@dataclass
class Reducing:
    """The partial results of a reduction so far. `slots`: the number of partial results of a tile for each of its
    lines. `target`: the wanted column of each row, or the wanted row of each column. `joins`: whether partial results
    of columns cover all parts with the same columns."""

    kind: ResultKind
    partials: ir.Value
    store: tile.StoreOp
    slots: int
    target: ir.Value | None
    joins: bool
    so_far: dict[int, ir.Value] = field(default_factory=dict, init=False)

    def add(
        self, values: ir.Value, window: ir.Value, origin: Origin, place: tuple[int, int], ends: tuple[bool, bool]
    ) -> None:
        """Reduces the elements of a part that lie in the matrix of its window. `place`: the first row and column of the
        part in the tile. `ends`: whether it is the last part of its rows, and of its columns."""
        reduction, tv, shape = self._reduction, tv_of(values.type.tv), tuple(values.type.shape)
        threads, _ = extents(tv)
        lines = lines_of(tv, shape, reduction.axis)
        held = len(lines.values) * (2 if reduction.is_pair else 1)
        own = fragment_type(Layout((threads, held), (1, threads)), (threads, held), values.type.element_type)
        target, line = self._targets(values.type, origin), 0 if reduction.axis == "row" else 1
        partial = self.so_far.pop(place[line], None)
        found = sm.ReduceOp(own, self.kind, values, window, target=target, partial=partial).result
        if not (ends[line] or (reduction.axis == "column" and not self.joins)):
            self.so_far[place[line]] = found
            return
        build, across = Builder.index(), (self.store.column, self.store.row)[line]
        if self.joins or reduction.axis == "row":
            slot = build.mul(build.udiv(across, self.store.value.type.shape[1 - line]), self.slots)
        else:
            slot = build.mul(build.udiv(build.add(across, place[0]), shape[0]), lines.warps)
        sm.StoreReducedOp(
            self.kind, found, ir.TypeAttr.get(values.type), self.partials, slot, origin[line], batch=self.store.batch
        )

    @property
    def _reduction(self) -> Reduction:
        found = reduction_of(self.kind)
        assert found is not None
        return found

    def _targets(self, like: sm.FragmentType, origin: Origin) -> ir.Value | None:
        """The window of the targets for a part."""
        if self.target is None:
            return None
        by_row = self._reduction.axis == "row"
        type_ = ir.MemRefType(self.target.type)
        window = tile.ViewType.get(like.shape, type_.element_type)
        matrix = [self.store.batch] if self.store.batch is not None and type_.rank > 1 else []
        kind = OperandKind.per_row if by_row else OperandKind.per_column
        return tile.ViewOp(window, self.target, [*matrix, origin[0 if by_row else 1]], kind=kind).result
