"""Values that all lanes of a warp share."""

from mlir import ir
from mlir.dialects import nvvm

from lowtide.passes.support.ir.builder import Builder


def of_first_lane(build: Builder, value: ir.Value) -> ir.Value:
    """A value that all lanes of a warp have, read from the first of them.

    So ptxas knows that they do, and computes what follows from it once for a warp, in the uniform registers in which
    wgmma takes its matrix descriptors; else it moves each descriptor there.
    """
    whole_warp, last_lane = build.constant(-1), build.constant(31)
    return nvvm.ShflOp(build.i32, whole_warp, value, build.constant(0), last_lane, nvvm.ShflKind.idx).res
