"""Which CTAs of a cluster share an operand, and to which of them a CTA's loads write.

A cluster of m × n CTAs computes m × n neighbouring tiles of D. The CTAs of one of its rows read the same rows of A,
those of one of its columns the same columns of B.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from lowtide.dialects.sm import ClusterLine
from lowtide.targets.atoms import Operand

OPERANDS: tuple[Operand, ...] = ("a", "b")


def sharing(operand: Operand, cluster: tuple[int, int]) -> tuple[ClusterLine | None, int]:
    """The CTAs that share an operand's tile, and their number; None and 1 if no other CTA reads it."""
    line, parties = (ClusterLine.row, cluster[1]) if operand == "a" else (ClusterLine.column, cluster[0])
    return (line, parties) if parties > 1 else (None, 1)


@dataclass(frozen=True)
class Lines:
    """The CTAs to which a CTA's loads write, and whose loads write to it (None: only itself); their number."""

    cross: ClusterLine | None
    receivers: int

    @classmethod
    def of(cls, cluster: tuple[int, int]) -> "Lines":
        """The lines of a cluster of this shape."""
        cross = union(sharing(operand, cluster)[0] for operand in OPERANDS)
        return cls(cross, members(cross, cluster))


def union(lines: Iterable[ClusterLine | None]) -> ClusterLine | None:
    """The CTAs of several lines together."""
    found = {line for line in lines if line is not None}
    return ClusterLine.cross if len(found) > 1 else next(iter(found), None)


def members(line: ClusterLine | None, cluster: tuple[int, int]) -> int:
    """The number of CTAs in a `row`, `column` or `cross` of a cluster of this shape; 1 for None."""
    rows, columns = cluster
    counts = {ClusterLine.row: columns, ClusterLine.column: rows, ClusterLine.cross: rows + columns - 1}
    return 1 if line is None else counts[line]
