"""The passes, one a file, listed in pipeline order. What they share stands in `base.py` and the files without a pass.

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
from lowtide.passes.lower_epilogue import LowerEpilogue
from lowtide.passes.pass_tensor_maps_by_value import PassTensorMapsByValue
from lowtide.passes.pipeline_mainloop import PipelineMainloop
from lowtide.passes.promote_operands_to_smem import PromoteOperandsToSmem
from lowtide.passes.specialize_roles import SpecializeRoles
from lowtide.passes.split_k_slices import SplitKSlices
from lowtide.passes.tile_to_ctas import TileToCtas
from lowtide.passes.verify_schedule import VerifySchedule

REGISTRY: tuple[type[Pass], ...] = (
    ChooseSchedule,
    VerifySchedule,
    TileToCtas,
    PromoteOperandsToSmem,
    AssignSmemLayouts,
    SpecializeRoles,
    PipelineMainloop,
    BindWgmma,
    BindTma,
    BindMmaAtoms,
    BindCopyAtoms,
    SplitKSlices,
    DoubleBufferFragments,
    BindRingToCpAsync,
    LowerEpilogue,
    AssignSmemOffsets,
    ConvertSmToNvvm,
    ExpandMath,
    ConvertPtxOpsToAsm,
    ConvertMathToIntrinsics,
    PassTensorMapsByValue,
)
