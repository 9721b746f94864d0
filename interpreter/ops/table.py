"""Every op's handler, by name."""

from collections.abc import Mapping
from types import MappingProxyType

from lowtide.interpreter.ops import arith as ops_arith
from lowtide.interpreter.ops import cf as ops_cf
from lowtide.interpreter.ops import gpu as ops_gpu
from lowtide.interpreter.ops import llvm as ops_llvm
from lowtide.interpreter.ops import math as ops_math
from lowtide.interpreter.ops import memref as ops_memref
from lowtide.interpreter.ops import nvvm as ops_nvvm
from lowtide.interpreter.ops import nvvm_hopper as ops_nvvm_hopper
from lowtide.interpreter.ops import nvvm_stores as ops_nvvm_stores
from lowtide.interpreter.ops import nvvm_wgmma as ops_nvvm_wgmma
from lowtide.interpreter.ops import scf as ops_scf
from lowtide.interpreter.ops import sm as ops_sm
from lowtide.interpreter.ops import sm_cp_async as ops_sm_cp_async
from lowtide.interpreter.ops import sm_fragments as ops_sm_fragments
from lowtide.interpreter.ops import sm_hopper as ops_sm_hopper
from lowtide.interpreter.ops import sm_stores as ops_sm_stores
from lowtide.interpreter.ops import sm_wgmma as ops_sm_wgmma
from lowtide.interpreter.ops import tile as ops_tile
from lowtide.interpreter.ops import ub as ops_ub
from lowtide.interpreter.ops import vector as ops_vector
from lowtide.interpreter.program.program import Implementation

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
