"""pass-tensor-maps-by-value: pass tensor maps as __grid_constant__ kernel parameters, by value.

Before   llvm.func @k(%map: !llvm.ptr) attributes {nvvm.kernel, tensor_maps = array<i64: 0>}
After    llvm.func @k(%map: !llvm.ptr {llvm.align = 64 : i64, llvm.byval = !llvm.array<128 x i8>, nvvm.grid_constant})
         Without nvvm.grid_constant LLVM copies the map to local memory, which the TMA unit cannot read.
Needs    device code in the llvm dialect: on a gpu.func the attributes are lost, or do not verify.
Refuses  nothing.
Test     test/lit/passes/llvm/pass-tensor-maps-by-value.mlir
"""

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir
from mlir.dialects import llvm

from lowtide.passes.base import Pass, walk
from lowtide.passes.nvvm.thread.values import TENSOR_MAPS_ATTRIBUTE
from lowtide.targets import Target

_BY_VALUE = "{llvm.align = 64 : i64, llvm.byval = !llvm.array<128 x i8>, nvvm.grid_constant}"


@dataclass(frozen=True)
class PassTensorMapsByValue(Pass):
    """Marks the tensor maps among the arguments of every kernel."""

    name: ClassVar[str] = "pass-tensor-maps-by-value"

    def run(self, module: ir.Module, target: Target) -> None:
        for function in walk(module, llvm.LLVMFuncOp):
            if TENSOR_MAPS_ATTRIBUTE not in function.attributes:
                continue
            positions = set(ir.DenseI64ArrayAttr(function.attributes[TENSOR_MAPS_ATTRIBUTE]))
            count = len(function.regions[0].blocks[0].arguments)
            by_value, plain = ir.Attribute.parse(_BY_VALUE), ir.DictAttr.get({})
            entries = [by_value if position in positions else plain for position in range(count)]
            function.attributes["arg_attrs"] = ir.ArrayAttr.get(entries)
