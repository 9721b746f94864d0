"""Level `llvm`: the device side in the LLVM dialect, the host side as before.

Inline assembly appears only here. The host side is unchanged, so that the manifest and the interpreter can read it.
"""

from lowtide.passes.llvm.convert_math_to_intrinsics import ConvertMathToIntrinsics
from lowtide.passes.llvm.convert_ptx_ops_to_asm import ConvertPtxOpsToAsm
from lowtide.passes.llvm.copy_stored_sums import CopyStoredSums
from lowtide.passes.llvm.keep_comparisons_wide import KeepComparisonsWide
from lowtide.passes.llvm.keep_loads_ahead import KeepLoadsAhead
from lowtide.passes.llvm.keep_loops_rolled import KeepLoopsRolled
from lowtide.passes.llvm.keep_tiles_ahead import KeepTilesAhead
from lowtide.passes.llvm.name_kernels import NameKernels
from lowtide.passes.llvm.pass_tensor_maps_by_value import PassTensorMapsByValue
from lowtide.passes.steps import Step

STEPS = (
    Step(ConvertPtxOpsToAsm, "the one place where inline assembly is written"),
    Step(ConvertMathToIntrinsics, "upstream's conversion would call libdevice for these"),
    Step(CopyStoredSums, "while loops are ops: sums are known as their results"),
    Step(KeepComparisonsWide, "while the type of wgmma's sums is still an attribute"),
    Step(
        "gpu.module(convert-scf-to-cf,convert-gpu-to-nvvm,convert-nvvm-to-llvm,convert-to-llvm,"
        "reconcile-unrealized-casts,canonicalize,cse)",
        "the device side only: the manifest and the interpreter read the host side",
        "lower-device-to-llvm",
    ),
    Step(PassTensorMapsByValue, "the attributes do not verify before there is an llvm.func"),
    Step(KeepLoopsRolled, "once there are branches that can hold the annotation"),
    Step(KeepLoadsAhead, "once the edges of loops are branches, whose operands are the values of the next step"),
    Step(KeepTilesAhead, "once there are branches, past which LLVM would move what it reads"),
    Step(NameKernels, "last: all other code may use the short names"),
)
