"""Level `cta`: which CTA computes which tile of D, and in which order.

The host launches a kernel; its CTAs take output tiles (`tile.work_tiles`) and loop over K with one `tile.mma` on
windows of A and B. The epilogue is the region of a `tile.store`.
"""

from lowtide.passes.cta.divide_k import DivideK
from lowtide.passes.cta.launch_preparations import LaunchPreparations
from lowtide.passes.cta.tile_to_ctas import TileToCtas
from lowtide.passes.steps import Step

STEPS = (
    Step(TileToCtas, "who computes what comes before how"),
    Step(DivideK, "who adds what, once K is divided; needs the tile's store"),
    Step(LaunchPreparations, "the kernel's launch is there, before and behind which the others go"),
    Step("cse", "one constant each. Not canonicalize: it would remove a K loop of one step", "simplify"),
)
