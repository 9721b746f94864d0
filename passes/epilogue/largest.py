"""An amax of a tile.store: a thread keeps the largest of its elements of all parts, and a warp raises it once."""

from mlir import ir
from tensor_layouts import Layout

from lowtide.dialects import sm
from lowtide.dialects.tile.layouts import tv_of
from lowtide.passes.support.agents.atoms import fragment_type
from lowtide.targets.tv import extents


class Largest:
    """The largest element so far in the parts of a tile, in each thread."""

    def __init__(self, amax: ir.Value) -> None:
        self.amax = amax
        self.most: ir.Value | None = None

    def add(self, values: ir.Value, window: ir.Value) -> None:
        """Counts the elements of a part that lie in the matrix of its window."""
        if self.most is None:
            threads, _ = extents(tv_of(values.type.tv))
            own = fragment_type(Layout((threads, 1), (1, 0)), (threads, 1), values.type.element_type)
            self.most = sm.SplatOp(own, 0.0).result
        self.most = sm.MaxAbsOp(values, window, self.most).result

    def finish(self) -> None:
        """Raises the amax, when all parts are in."""
        if self.most is not None:
            sm.RaiseMaxOp(self.most, self.amax)
