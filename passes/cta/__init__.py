"""Level `cta`: which CTA computes which tile of D, and in which order.

The host launches a kernel; its CTAs take output tiles (`tile.work_tiles`) and loop over K with one `tile.mma` on
windows of A and B. The epilogue is the region of a `tile.store`.
"""

from lowtide.passes.cta.divide_k import DivideK
from lowtide.passes.cta.launch_clears import LaunchClears
from lowtide.passes.cta.launch_copies import LaunchCopies
from lowtide.passes.cta.launch_splits import LaunchSplits
from lowtide.passes.cta.tile_to_ctas import TileToCtas
from lowtide.passes.steps import Step

STEPS = (
    Step(TileToCtas, "who computes what comes before how"),
    Step(DivideK, "who adds what, once K is divided; needs the tile's store"),
    Step(LaunchCopies, "the kernel's launch is there, before and behind which the copies go"),
    Step(LaunchSplits, "behind the copies: the launch of the product is one of several from here on"),
    Step(LaunchClears, "behind the copies too, which stand beside one launch"),
    Step("cse", "one constant each. Not canonicalize: it would remove a K loop of one step", "simplify"),
)
