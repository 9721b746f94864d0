"""Whether the kernel or the copy engine sends a GPU's shard of A to the others, if no schedule is given.

Does not import MLIR, unlike the choice of a whole schedule.
"""

from lowtide.compiler.spec import GemmSpec
from lowtide.elements import element_type
from lowtide.passes.schedules.cost.sender import kernel_is_faster


def kernel_is_sender(spec: GemmSpec) -> bool:
    """Whether the schedule that is chosen for a problem with `peers` has `grid.sender = kernel`."""
    return kernel_is_faster((spec.m or 0) * (spec.k or 0) * element_type(spec.a).bytes)
