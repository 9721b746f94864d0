"""Every op's handler, by name."""

from collections.abc import Mapping
from types import MappingProxyType

from lowtide.interpreter.ops import (
    arith,
    cf,
    gpu,
    llvm,
    llvm_asm,
    llvm_casts,
    llvm_intrinsics,
    llvm_vectors,
    math,
    memref,
    nvvm,
    nvvm_wgmma,
    scf,
    sm,
    sm_cp_async,
    sm_fragments,
    sm_hopper,
    sm_ptx,
    sm_stores,
    sm_wgmma,
    tile,
    tile_division,
    tile_epilogue,
    tile_matrices,
    tile_problem,
    ub,
    vector,
)
from lowtide.interpreter.program.op_table import Implementation

_TABLES = (
    arith.OPS,
    cf.OPS,
    gpu.OPS,
    llvm.OPS,
    llvm_asm.OPS,
    llvm_casts.OPS,
    llvm_intrinsics.OPS,
    llvm_vectors.OPS,
    math.OPS,
    memref.OPS,
    nvvm.OPS,
    nvvm_wgmma.OPS,
    scf.OPS,
    sm.OPS,
    sm_cp_async.OPS,
    sm_fragments.OPS,
    sm_hopper.OPS,
    sm_ptx.OPS,
    sm_stores.OPS,
    sm_wgmma.OPS,
    tile.OPS,
    tile_division.OPS,
    tile_epilogue.OPS,
    tile_matrices.OPS,
    tile_problem.OPS,
    ub.OPS,
    vector.OPS,
)

HANDLERS: Mapping[str, Implementation] = MappingProxyType(
    {name: entry for table in _TABLES for name, entry in table.items()}
)
