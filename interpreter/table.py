"""Every op's handler, by name."""

from collections.abc import Mapping
from types import MappingProxyType

from lowtide.interpreter import (
    ops_arith,
    ops_cf,
    ops_gpu,
    ops_llvm,
    ops_math,
    ops_memref,
    ops_nvvm,
    ops_nvvm_hopper,
    ops_nvvm_stores,
    ops_nvvm_wgmma,
    ops_scf,
    ops_sm,
    ops_sm_cp_async,
    ops_sm_fragments,
    ops_sm_hopper,
    ops_sm_stores,
    ops_sm_wgmma,
    ops_tile,
    ops_ub,
    ops_vector,
)
from lowtide.interpreter.program import Implementation

_TABLES = (
    ops_arith.OPS,
    ops_cf.OPS,
    ops_gpu.OPS,
    ops_llvm.OPS,
    ops_math.OPS,
    ops_memref.OPS,
    ops_nvvm.OPS,
    ops_nvvm_hopper.OPS,
    ops_nvvm_stores.OPS,
    ops_nvvm_wgmma.OPS,
    ops_scf.OPS,
    ops_sm.OPS,
    ops_sm_cp_async.OPS,
    ops_sm_fragments.OPS,
    ops_sm_hopper.OPS,
    ops_sm_stores.OPS,
    ops_sm_wgmma.OPS,
    ops_tile.OPS,
    ops_ub.OPS,
    ops_vector.OPS,
)

HANDLERS: Mapping[str, Implementation] = MappingProxyType(
    {name: entry for table in _TABLES for name, entry in table.items()}
)
