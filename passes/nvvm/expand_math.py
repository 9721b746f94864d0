"""expand-math: expand exp, tanh, erf, erfc and log into operations that the hardware has.

Before   %y = math.exp %x : f32
After    %h = arith.mulf %x, %log2e : f32; %y = math.exp2 %h fastmath<afn> : f32
Needs    f32 or vectors of f32.
Gives    of the math dialect only `HARDWARE_OPS`, each of which convert-math-to-intrinsics lowers to one instruction.
         Upstream's lowering then makes no call into libdevice.
Refuses  any other math op, and any other element type: the epilogue computes in f32.
Test     test/lit/passes/nvvm/expand-math.mlir, expand-math-invalid.mlir; its numbers: test/unit/test_expand_math.py,
         test_math_formulas.py
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from mlir import ir
from mlir.dialects import arith, math

from lowtide.passes.base import Pass, Refusal
from lowtide.passes.support.ir import math_formulas as formulas
from lowtide.passes.support.ir.math_types import check_type, math_ops
from lowtide.targets import Target

# What one PTX instruction computes: fma.rn, ex2.approx, lg2.approx, sqrt.rn, rsqrt.approx, abs, copysign.
HARDWARE_OPS = frozenset(
    {"math.fma", "math.exp2", "math.log2", "math.sqrt", "math.rsqrt", "math.roundeven", "math.absf", "math.copysign"}
)


EXPANDED_OPS: dict[str, Callable[["IrOps", ir.Value], ir.Value]] = {
    "math.exp": formulas.exp,
    "math.tanh": formulas.tanh,
    "math.erf": formulas.erf,
    "math.erfc": formulas.erfc,
    "math.log": formulas.log,
}


@dataclass(frozen=True)
class ExpandMath(Pass):
    """Expands every op of `EXPANDED_OPS`."""

    name: ClassVar[str] = "expand-math"

    def run(self, module: ir.Module, target: Target) -> None:
        for op in math_ops(module):
            check_type(op)
            if op.name not in HARDWARE_OPS:
                _expand(op)


def _expand(op: ir.Operation) -> None:
    formula = EXPANDED_OPS.get(op.name)
    if formula is None:
        raise Refusal(
            op,
            f"has no expansion; expand-math knows {', '.join(sorted(EXPANDED_OPS))} and keeps "
            f"{', '.join(sorted(HARDWARE_OPS))}: write it with these [no-expansion]",
        )
    with ir.InsertionPoint(op), op.location:
        value = formula(IrOps(op.results[0].type), op.operands[0])
    op.results[0].replace_all_uses_with(value)
    op.erase()


class IrOps:
    """`FloatOps` that builds IR at the current insertion point, for one f32 or vector-of-f32 type."""

    def __init__(self, type: ir.Type) -> None:
        self.type = type

    def constant(self, value: float) -> ir.Value:
        f32 = ir.F32Type.get()
        attribute: ir.Attribute = ir.FloatAttr.get(f32, value)
        if isinstance(self.type, ir.VectorType):
            attribute = ir.DenseElementsAttr.get_splat(self.type, attribute)
        return arith.ConstantOp(self.type, attribute).result

    def add(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return arith.AddFOp(x, y).result

    def subtract(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return arith.SubFOp(x, y).result

    def multiply(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return arith.MulFOp(x, y).result

    def negate(self, x: ir.Value) -> ir.Value:
        return arith.NegFOp(x).result

    def fma(self, x: ir.Value, y: ir.Value, z: ir.Value) -> ir.Value:
        return math.FmaOp(x, y, z).result

    def maximum(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return arith.MaximumFOp(x, y).result

    def minimum(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return arith.MinimumFOp(x, y).result

    def absolute(self, x: ir.Value) -> ir.Value:
        return math.AbsFOp(x).result

    def copysign(self, magnitude: ir.Value, sign: ir.Value) -> ir.Value:
        return math.CopySignOp(magnitude, sign).result

    def divide_approx(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return arith.DivFOp(x, y, fastmath=arith.FastMathFlags.afn).result

    def exp2(self, x: ir.Value) -> ir.Value:
        return math.Exp2Op(x, fastmath=arith.FastMathFlags.afn).result

    def log2(self, x: ir.Value) -> ir.Value:
        return math.Log2Op(x, fastmath=arith.FastMathFlags.afn).result

    def less(self, x: ir.Value, y: ir.Value) -> ir.Value:
        return arith.CmpFOp(arith.CmpFPredicate.OLT, x, y).result

    def select(self, condition: ir.Value, x: ir.Value, y: ir.Value) -> ir.Value:
        return arith.SelectOp(condition, x, y).result
