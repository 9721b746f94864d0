"""Level `atoms`: every copy and product is bound to an instruction.

cp.async, ldmatrix and mma.sync, or TMA, mbarriers and wgmma. Values in registers are fragments, typed by which thread
holds which element. Each op still describes the whole CTA.
"""

from lowtide.passes.atoms.bind_copy_atoms import BindCopyAtoms
from lowtide.passes.atoms.bind_mma_atoms import BindMmaAtoms
from lowtide.passes.atoms.bind_ring import BindRing
from lowtide.passes.atoms.bind_wgmma import BindWgmma
from lowtide.passes.atoms.carry_staged_loads import CarryStagedLoads
from lowtide.passes.atoms.double_buffer_fragments import DoubleBufferFragments
from lowtide.passes.atoms.split_k_slices import SplitKSlices
from lowtide.passes.steps import Step

STEPS = (
    Step(BindMmaAtoms, "first of the bindings: the fragments' layouts decide how shared memory is read"),
    Step(BindWgmma, "the same where warpgroups issue the products: what a release waits for is then known"),
    Step(BindCopyAtoms, "the layout of copies depends on the threads of the tiled mma"),
    Step(CarryStagedLoads, "once copies through registers are loads and stores"),
    Step(SplitKSlices, "once the mma atom sets the depth of a slice"),
    Step(DoubleBufferFragments, "needs the slices, and one ldmatrix for each"),
    Step(
        BindRing,
        "after every pass that moves the ring's verbs: bytes, arrivals and depths of waits are counted from them",
    ),
    Step("cse", "one constant each", "simplify"),
)
