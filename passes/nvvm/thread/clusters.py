"""Clusters in one thread's program: where the CTA is in its cluster, who receives what it sends, barriers."""

from dataclasses import dataclass
from functools import reduce

from mlir import ir
from mlir.dialects import nvvm

from lowtide.dialects.sm import ClusterLine
from lowtide.passes.support.ir.builder import Builder, Scalar

CLUSTER_SPACE = 7  # the address space of shared memory in a cluster


@dataclass(frozen=True)
class ClusterPlace:
    """Where the CTA is in its cluster of `shape` CTAs along M and N: its rank, row and column, 0 if all CTAs have 0."""

    shape: tuple[int, int] = (1, 1)
    rank: Scalar = 0
    row: Scalar = 0
    column: Scalar = 0

    @classmethod
    def of(cls, build: Builder, shape: tuple[int, int]) -> "ClusterPlace":
        """Reads the CTA's rank at the insertion point. CTAs are numbered row by row."""
        rows, columns = shape
        if rows * columns == 1:
            return cls()
        rank = nvvm.ClusterId(build.i32).result  # %cluster_ctarank
        row = 0 if rows == 1 else build.udiv(rank, columns)
        column = 0 if columns == 1 else build.urem(rank, columns)
        return cls(shape, rank, row, column)

    @property
    def size(self) -> int:
        return self.shape[0] * self.shape[1]

    def share(self, line: ClusterLine | None) -> tuple[Scalar, int]:
        """The CTA's place in its row or column, and the number of CTAs there: which part of a shared tile it loads."""
        if line is None:
            return 0, 1
        return (self.column, self.shape[1]) if line is ClusterLine.row else (self.row, self.shape[0])

    def mask(self, build: Builder, line: ClusterLine) -> ir.Value:
        """The CTAs of the CTA's row or column as the bits of an i16, for a multicast."""
        rows, columns = self.shape
        if line is ClusterLine.row:
            bits = build.shl((1 << columns) - 1, build.mul(self.row, columns))
        else:
            bits = build.shl(sum(1 << columns * row for row in range(rows)), self.column)
        return build.trunc(bits, ir.IntegerType.get_signless(16))

    def receives(self, build: Builder, line: ClusterLine, rank: ir.Value) -> ir.Value:
        """Whether a number is the rank of a CTA in the CTA's row, in its column, or in either (`cross`)."""
        rows, columns = self.shape
        in_row = None if rows == 1 else build.eq(build.udiv(rank, columns), self.row)
        in_column = None if columns == 1 else build.eq(build.urem(rank, columns), self.column)
        wanted = {ClusterLine.row: [in_row], ClusterLine.column: [in_column], ClusterLine.cross: [in_row, in_column]}
        conditions = [condition for condition in wanted[line] if condition is not None]
        exists = build.ult(rank, self.size)
        if len(conditions) < len(wanted[line]):  # the whole cluster is one row, or one column
            return exists
        return build.and_(exists, reduce(build.or_, conditions))


def lower_cluster_barrier() -> None:
    """All threads arrive and wait. Not `.aligned`: the producer's one thread comes later than the rest of its warp."""
    nvvm.ClusterArriveOp()
    nvvm.ClusterWaitOp()
