"""convert-math-to-intrinsics: lower each math op that the hardware has to the LLVM intrinsic of its instruction.

Before   %y = math.exp2 %x fastmath<afn> : vector<2xf32>
After    %0 = vector.extract %x[0] …; %1 = llvm.call_intrinsic "llvm.nvvm.ex2.approx.ftz"(%0) : (f32) -> f32; …
         Approximate powers and divisions give 0 in place of a subnormal number (.ftz): ptxas then needs no
         multiplications that scale their operands and results.
Needs    expand-math: only math ops that are one instruction, on f32 or vectors of f32.
Gives    no math op. Vectors are split (PTX has no vector form). Upstream's convert-gpu-to-nvvm, run after it,
         would otherwise call libdevice for each of these.
Refuses  a math op that expand-math should have replaced.
Test     test/lit/passes/llvm/convert-math-to-intrinsics.mlir, convert-math-to-intrinsics-invalid.mlir
"""

import itertools
from dataclasses import dataclass
from typing import ClassVar

from mlir import ir
from mlir.dialects import arith, llvm, vector

from lowtide.passes.base import Pass, Refusal, walk
from lowtide.passes.support.ir.math_types import check_type, math_ops
from lowtide.passes.support.ir.rewriting import defining_op
from lowtide.targets import Target

# math op -> LLVM intrinsic, and in the comment the instruction that NVPTX selects for it
INTRINSICS = {
    "math.absf": "llvm.fabs.f32",  # abs.f32
    "math.copysign": "llvm.copysign.f32",  # copysign.f32
    "math.exp2": "llvm.nvvm.ex2.approx.ftz",  # ex2.approx.ftz.f32
    "math.fma": "llvm.fma.f32",  # fma.rn.f32
    "math.log2": "llvm.nvvm.lg2.approx.f",  # lg2.approx.f32
    "math.roundeven": "llvm.roundeven.f32",  # cvt.rni.f32.f32
    "math.rsqrt": "llvm.nvvm.rsqrt.approx.f",  # rsqrt.approx.f32
    "math.sqrt": "llvm.nvvm.sqrt.rn.f",  # sqrt.rn.f32
}
_DIVIDE = "llvm.nvvm.div.approx.ftz.f"  # div.approx.ftz.f32
_INVERT = "llvm.nvvm.rcp.approx.ftz.f"  # rcp.approx.ftz.f32
_APPROXIMATE = "#arith.fastmath<afn>"
F64_INTRINSICS = {
    "math.absf": "llvm.fabs.f64",  # abs.f64
    "math.fma": "llvm.fma.f64",  # fma.rn.f64
    "math.sqrt": "llvm.nvvm.sqrt.rn.d",  # sqrt.rn.f64
}


@dataclass(frozen=True)
class ConvertMathToIntrinsics(Pass):
    """Replaces every math op."""

    name: ClassVar[str] = "convert-math-to-intrinsics"

    def run(self, module: ir.Module, target: Target) -> bool:
        divisions, ops = walk(module, arith.DivFOp), math_ops(module)
        for division in divisions:
            _divide_approx(division)
        for op in ops:
            check_type(op)
            result = op.results[0].type
            element = result.element_type if isinstance(result, ir.VectorType) else result
            intrinsic = (F64_INTRINSICS if isinstance(element, ir.F64Type) else INTRINSICS).get(op.name)
            if intrinsic is None:
                raise Refusal(
                    op,
                    f"is no single instruction, as {', '.join(INTRINSICS)} are: run expand-math first [no-intrinsic]",
                )
            with ir.InsertionPoint(op), op.location:
                value = _call(intrinsic, result, list(op.operands))
            op.results[0].replace_all_uses_with(value)
            op.erase()
        return bool(divisions or ops)


def _divide_approx(op: arith.DivFOp) -> None:
    """Replaces an approximate division (afn), which expand-math and sigmoids make."""
    if str(op.fastmath) != _APPROXIMATE:
        return
    with ir.InsertionPoint(op), op.location:
        operands = [op.rhs] if _is_one(op.lhs) else list(op.operands)
        value = _call(_DIVIDE if len(operands) > 1 else _INVERT, op.result.type, operands)
    op.result.replace_all_uses_with(value)
    op.operation.erase()


def _is_one(value: ir.Value) -> bool:
    """Whether a value is the constant 1, or a vector of it."""
    constant = defining_op(value)
    if not isinstance(constant, arith.ConstantOp):
        return False
    attribute = constant.value
    if isinstance(attribute, ir.DenseElementsAttr):
        return bool(attribute.is_splat) and ir.FloatAttr(attribute.get_splat_value()).value == 1.0
    return isinstance(attribute, ir.FloatAttr) and ir.FloatAttr(attribute).value == 1.0


def _call(intrinsic: str, type: ir.Type, operands: list[ir.Value]) -> ir.Value:
    """The intrinsic on scalars, or on each element of vectors."""
    if not isinstance(type, ir.VectorType):
        return llvm.CallIntrinsicOp(type, intrinsic, operands, [], []).result
    vector_type = ir.VectorType(type)
    elements = []
    for position in itertools.product(*(range(extent) for extent in vector_type.shape)):
        scalars = [vector.ExtractOp(operand, [], list(position)).result for operand in operands]
        elements.append(llvm.CallIntrinsicOp(vector_type.element_type, intrinsic, scalars, [], []).result)
    return vector.FromElementsOp(type, elements).result
