"""Level `epilogue`: how the accumulators become D, and where everything lies in shared memory.

Fragments go through the epilogue region and through scratch in shared memory to wide or TMA stores; `tile.store` is
gone, and every buffer has its offset.
"""

from lowtide.passes.epilogue.assign_smem_offsets import AssignSmemOffsets
from lowtide.passes.epilogue.fuse_multiply_adds import FuseMultiplyAdds
from lowtide.passes.epilogue.lower_epilogue import LowerEpilogue
from lowtide.passes.epilogue.overlap_launches import OverlapLaunches
from lowtide.passes.epilogue.store_first_rows import StoreFirstRows
from lowtide.passes.epilogue.verify_mbarriers import VerifyMbarriers
from lowtide.passes.epilogue.verify_smem_offsets import VerifySmemOffsets
from lowtide.passes.steps import Step

STEPS = (
    Step(LowerEpilogue, "needs the accumulator's thread-value layout"),
    Step(FuseMultiplyAdds, "after reductions and stores read their values: a product that one of them reads is kept"),
    Step(StoreFirstRows, "after the tile is in parts, and waits and releases are those of mbarriers"),
    Step(OverlapLaunches, "after the mbarriers are made: they need not wait for the kernels before"),
    Step(AssignSmemOffsets, "last: every buffer, the epilogue's scratch among them, is known"),
    Step("cse", "operands that several parts of the epilogue read are loaded once", "simplify"),
    Step(VerifyMbarriers, "checks arrivals and bytes while copies and roles are still ops"),
    Step(VerifySmemOffsets, "checks offsets in shared memory while buffers still have names"),
)
