"""Where to put code whose values are the same in all steps of a loop over K."""

from mlir import ir
from mlir.dialects import scf


def before_loop(value: ir.Value) -> ir.InsertionPoint:
    """The place before the loop over K that contains the insertion point, if the value is defined before this loop;
    otherwise the insertion point."""
    here = ir.InsertionPoint.current
    defined = value.owner if isinstance(value.owner, ir.Block) else value.owner.operation.block
    loop = here.block.owner
    return ir.InsertionPoint(loop) if isinstance(loop, scf.ForOp) and defined != here.block else here
