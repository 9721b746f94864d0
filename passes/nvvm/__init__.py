"""Level `nvvm`: the program of one thread.

The kernel is a `gpu.func` in upstream's scf, arith, vector, llvm and nvvm dialects. convert-sm-to-nvvm unrolls each
CTA-wide op, with one file per family of ops.
"""

from lowtide.passes.nvvm.convert_sm_to_nvvm import ConvertSmToNvvm
from lowtide.passes.nvvm.expand_math import ExpandMath
from lowtide.passes.nvvm.interleave_parts import InterleaveParts
from lowtide.passes.nvvm.overlap_promotion import OverlapPromotion
from lowtide.passes.nvvm.overlap_stores import OverlapStores
from lowtide.passes.nvvm.peel_first_loads import PeelFirstLoads
from lowtide.passes.nvvm.spread_copies import SpreadCopies
from lowtide.passes.nvvm.stamp_agents import StampAgents
from lowtide.passes.nvvm.verify_registers import VerifyRegisters
from lowtide.passes.steps import Step

STEPS = (
    Step(ConvertSmToNvvm, "one thread's program, from the layouts alone"),
    Step(OverlapPromotion, "moves whole K steps' heads, before their addresses are folded with what is around them"),
    Step(ExpandMath, "before LLVM, which would lower these math ops to library calls"),
    Step(PeelFirstLoads, "gives the first loads constant slots, whose addresses the next step folds"),
    Step("cse,canonicalize,cse", "folds the addresses that the conversion writes out in full", "simplify"),
    Step(InterleaveParts, "orders what is left of the addresses and functions of a part"),
    Step(SpreadCopies, "moves the copies of a K step, which stand side by side by now"),
    Step(OverlapStores, "copies addresses, which are fewer by now; writes K steps out, with their copies in place"),
    Step(StampAgents, "behind all passes that move code; acts only if stamps are asked for"),
    Step(VerifyRegisters, "checks register requests while the branches still name their roles"),
)
