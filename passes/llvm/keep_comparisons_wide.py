"""keep-comparisons-wide: keep comparisons of f32 in f32, in kernels whose wgmma sums in f16.

Before   %x = arith.extf %sum : f16 to f32; %p = arith.cmpf olt, %x, %zero : f32
After    %x = arith.extf …; %y = llvm.call_intrinsic "llvm.arithmetic.fence.f32"(%x); %p = arith.cmpf olt, %y, %zero
         Without the fence, LLVM's InstCombine compares values in f16 if they were extended from f16. ptxas moves such a
         comparison of sums above the wait for the products, and then serializes the products (advisory C7514). The
         fence becomes no instruction. Kernels without wgmma into f16 stay as they are.
Needs    device code in which wgmma is an nvvm op.
Refuses  nothing.
Test     test/lit/passes/llvm/keep-comparisons-wide.mlir
"""

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir
from mlir.dialects import arith, gpu, llvm, nvvm

from lowtide.passes.base import Pass, walk
from lowtide.passes.support.ir.rewriting import defining_op
from lowtide.targets import Target

_HALF_SUMS = "#nvvm.wgmma_type<f16>"


@dataclass(frozen=True)
class KeepComparisonsWide(Pass):
    """Puts a fence on each operand of a comparison of f32, except for constants."""

    name: ClassVar[str] = "keep-comparisons-wide"

    def run(self, module: ir.Module, target: Target) -> None:
        for kernel in walk(module, gpu.GPUFuncOp):
            products = walk(kernel, nvvm.WgmmaMmaAsyncOp)
            if any(str(product.attributes["typeD"]) == _HALF_SUMS for product in products):
                for comparison in walk(kernel, arith.CmpFOp):
                    _keep(comparison)


def _keep(comparison: arith.CmpFOp) -> None:
    type = comparison.lhs.type
    element = type.element_type if isinstance(type, ir.VectorType) else type
    if not isinstance(element, ir.F32Type):
        return
    width = f"v{ir.VectorType(type).shape[0]}" if isinstance(type, ir.VectorType) else ""
    for number, operand in enumerate(comparison.operands):
        if not isinstance(defining_op(operand), arith.ConstantOp):
            with ir.InsertionPoint(comparison), comparison.location:
                fence = llvm.CallIntrinsicOp(type, f"llvm.arithmetic.fence.{width}f32", [operand], [], [])
            comparison.operation.operands[number] = fence.result
