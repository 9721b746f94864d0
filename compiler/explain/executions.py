"""How often an op runs for one work tile: the trips of the loops around it."""

from collections.abc import Iterable

from mlir import ir

from lowtide.dialects import tile
from lowtide.passes.support.builder import constant_of


def executions(op: ir.OpView) -> int | None:
    """Runs of an op for one work tile, or of the kernel where it is outside of them; None where a loop's trips are
    known only at run time."""
    runs = 1
    parent = op.operation.parent
    while parent is not None and parent.name not in (tile.WorkTilesOp.OPERATION_NAME, tile.KernelOp.OPERATION_NAME):
        if parent.name == "scf.for":
            lower, upper, step = (constant_of(bound) for bound in list(parent.operands)[:3])
            if lower is None or upper is None or step is None:
                return None
            runs *= max(0, -(-(upper - lower) // step))
        parent = parent.parent
    return runs


def summed(counts: Iterable[int | None]) -> int | None:
    """The sum; None where one is not known."""
    total = 0
    for count in counts:
        if count is None:
            return None
        total += count
    return total
