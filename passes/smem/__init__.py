"""Level `smem`: the tiles of A and B are staged in shared memory.

Each K step copies its two windows into swizzled buffers (`sm.alloc`, `sm.copy`), with a barrier before and after the
product. Copies are still synchronous. Scales of blocks may be copied beside them.
"""

from lowtide.passes.smem.assign_smem_layouts import AssignSmemLayouts
from lowtide.passes.smem.promote_operands_to_smem import PromoteOperandsToSmem
from lowtide.passes.steps import Step

STEPS = (
    Step(PromoteOperandsToSmem, "while a K step is still one mma on two windows"),
    Step(AssignSmemLayouts, "as soon as there are buffers, since the ring takes over their types"),
)
