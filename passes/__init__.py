"""The passes, one a file, listed in pipeline order.

`base.py` is what a pass is, `schedules/` how schedules are chosen and checked, `support/` what passes share;
`epilogue/` and `nvvm/` are the parts of `lower-epilogue` and of `convert-sm-to-nvvm`.

A new pass is entered here, so that `lowtide-opt` knows its name, and in `compiler/pipeline.py`, where it has its place.
"""

from lowtide.passes.assign_smem_layouts import AssignSmemLayouts
from lowtide.passes.assign_smem_offsets import AssignSmemOffsets
from lowtide.passes.base import Pass
from lowtide.passes.bind_copy_atoms import BindCopyAtoms
from lowtide.passes.bind_mma_atoms import BindMmaAtoms
from lowtide.passes.bind_ring_to_cp_async import BindRingToCpAsync
from lowtide.passes.bind_tma import BindTma
from lowtide.passes.bind_wgmma import BindWgmma
from lowtide.passes.choose_schedule import ChooseSchedule
from lowtide.passes.convert_math_to_intrinsics import ConvertMathToIntrinsics
from lowtide.passes.convert_ptx_ops_to_asm import ConvertPtxOpsToAsm
from lowtide.passes.convert_sm_to_nvvm import ConvertSmToNvvm
from lowtide.passes.double_buffer_fragments import DoubleBufferFragments
from lowtide.passes.expand_math import ExpandMath
from lowtide.passes.keep_loops_rolled import KeepLoopsRolled
from lowtide.passes.lower_epilogue import LowerEpilogue
from lowtide.passes.pass_tensor_maps_by_value import PassTensorMapsByValue
from lowtide.passes.pipeline_mainloop import PipelineMainloop
from lowtide.passes.promote_operands_to_smem import PromoteOperandsToSmem
from lowtide.passes.specialize_roles import SpecializeRoles
from lowtide.passes.split_k_slices import SplitKSlices
from lowtide.passes.tile_to_ctas import TileToCtas
from lowtide.passes.verify_mbarriers import VerifyMbarriers
from lowtide.passes.verify_registers import VerifyRegisters
from lowtide.passes.verify_schedule import VerifySchedule
from lowtide.passes.verify_smem_offsets import VerifySmemOffsets

REGISTRY: tuple[type[Pass], ...] = (
    ChooseSchedule,
    VerifySchedule,
    TileToCtas,
    PromoteOperandsToSmem,
    AssignSmemLayouts,
    PipelineMainloop,
    SpecializeRoles,
    BindMmaAtoms,
    BindWgmma,
    BindTma,
    BindCopyAtoms,
    SplitKSlices,
    DoubleBufferFragments,
    BindRingToCpAsync,
    LowerEpilogue,
    AssignSmemOffsets,
    VerifyMbarriers,
    VerifySmemOffsets,
    ConvertSmToNvvm,
    ExpandMath,
    VerifyRegisters,
    ConvertPtxOpsToAsm,
    ConvertMathToIntrinsics,
    PassTensorMapsByValue,
    KeepLoopsRolled,
)
