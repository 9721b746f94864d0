"""expand-math: expand exp, tanh, erf, erfc and log into operations that the hardware has.

Before   %y = math.exp %x : f32
After    %h = arith.mulf %x, %log2e : f32; %y = math.exp2 %h fastmath<afn> : f32
         A constant factor from 2⁻¹⁰⁰ to 2¹⁰⁰ in the argument of exp, or from 2⁻⁸ to 2⁸ in that of erfc, with either
         sign, becomes part of the formula's constants. So does a constant factor of the function's result: ½, 2 or 4
         for erfc; for exp, one from ⅜ to 8⁄3, with either sign. So gelu, ½ x · erfc(−x/√2), needs one product beside
         those of the polynomial.
Needs    f32 or vectors of f32.
Gives    of the math dialect only `HARDWARE_OPS`, each of which convert-math-to-intrinsics lowers to one instruction.
         Upstream's lowering then makes no call into libdevice.
Refuses  any other math op, and any other element type: the epilogue computes in f32.
Test     test/lit/passes/nvvm/expand-math.mlir, expand-math-invalid.mlir; its numbers: test/unit/test_expand_math.py,
         test_math_formulas.py
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import frexp
from typing import ClassVar

from mlir import ir
from mlir.dialects import arith, math

from lowtide.passes.base import Pass, Refusal
from lowtide.passes.support.ir import math_formulas as formulas
from lowtide.passes.support.ir.math_types import check_type, math_ops
from lowtide.passes.support.ir.rewriting import defining_op
from lowtide.targets import Target

# What one PTX instruction computes: fma.rn, ex2.approx, lg2.approx, sqrt.rn, rsqrt.approx, abs, copysign.
HARDWARE_OPS = frozenset(
    {"math.fma", "math.exp2", "math.log2", "math.sqrt", "math.rsqrt", "math.roundeven", "math.absf", "math.copysign"}
)

# With these, an argument x · c and a factor of the result need no product. For exp, the constant c · log₂e is rounded,
# and x · c is not; a subnormal constant would lose digits. For erfc, c has a size that keeps the coefficients in range.
_WITH_CONSTANTS: dict[str, Callable[["IrOps", ir.Value, float, float], ir.Value]] = {
    "math.exp": formulas.exp,
    "math.erfc": formulas.erfc,
}
_LEAST_SCALE, _MOST_SCALE = 2.0**-8, 2.0**8
_LEAST_OF_EXP, _MOST_OF_EXP = 2.0**-100, 2.0**100
# Constants in a product with erfc, and magnitudes of those in a product with exp, that become part of the formula.
# Others would cost accuracy: the logarithm of the constant is added to the power before it is rounded.
FACTORS = (0.5, 2.0, 4.0)
MOST_FACTOR_OF_EXP = 8 / 3

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

    def run(self, module: ir.Module, target: Target) -> bool:
        changed = False
        for op in math_ops(module):
            check_type(op)
            if op.name not in HARDWARE_OPS:
                _expand(op)
                changed = True
        return changed


def _expand(op: ir.Operation) -> None:
    formula = EXPANDED_OPS.get(op.name)
    if formula is None:
        raise Refusal(
            op,
            f"has no expansion; expand-math knows {', '.join(sorted(EXPANDED_OPS))} and keeps "
            f"{', '.join(sorted(HARDWARE_OPS))}: write it with these [no-expansion]",
        )
    product, factor, other = _multiplied(op)
    with ir.InsertionPoint(product), op.location:
        build = IrOps(op.results[0].type)
        argument, scale = _scaled(op)
        if op.name in _WITH_CONSTANTS:
            value = _WITH_CONSTANTS[op.name](build, argument, scale, factor)
        else:
            value = formula(build, argument)
        value = value if other is None else build.multiply(other, value)
    product.results[0].replace_all_uses_with(value)
    for done in (product, op) if product is not op else (op,):
        done.erase()


def _scaled(op: ir.Operation) -> tuple[ir.Value, float]:
    """x and c of an argument x · c, if the formula takes c into its constants; else the argument and 1."""
    argument, scale = op.operands[0], 1.0
    if op.name not in _WITH_CONSTANTS:
        return argument, scale
    while (inner := defining_op(argument)) is not None:
        if inner.operation.name == "arith.negf":
            argument, scale = inner.operation.operands[0], -scale
        elif _is_power_of_two(scale) and (found := _constant_factor(inner.operation)) is not None:
            argument, scale = found[0], scale * found[1]
        else:
            break
    least, most = (_LEAST_OF_EXP, _MOST_OF_EXP) if op.name == "math.exp" else (_LEAST_SCALE, _MOST_SCALE)
    return (argument, scale) if least <= abs(scale) <= most else (op.operands[0], 1.0)


def _multiplied(op: ir.Operation) -> tuple[ir.Operation, float, ir.Value | None]:
    """If the only use of f, an exp or erfc, is a product c·x · f, and the formula of f takes c: this product, c and x.
    If the product is c · f: this product, c and None. Otherwise: the op, 1 and None."""
    uses = list(op.results[0].uses)
    product = uses[0].owner.operation if len(uses) == 1 else op
    if op.name not in _WITH_CONSTANTS or product.name != "arith.mulf":
        return op, 1.0, None
    left, right = product.operands
    (other,) = (each for each in (left, right) if each != op.results[0])
    if (factor := _constant(other)) is not None:
        return (product, factor, None) if _takes(op, factor) else (op, 1.0, None)
    inner = defining_op(other)
    found = None if inner is None else _constant_factor(inner.operation)
    if found is None or not _takes(op, found[1]):
        return op, 1.0, None
    return product, found[1], found[0]


def _takes(op: ir.Operation, factor: float) -> bool:
    """Whether a constant factor of a function's result can become part of its formula."""
    if op.name == "math.erfc":
        return factor in FACTORS
    return formulas.LEAST_FACTOR_OF_EXP <= abs(factor) <= MOST_FACTOR_OF_EXP


def _constant_factor(op: ir.Operation) -> tuple[ir.Value, float] | None:
    """x and c of a product x · c, in either order; None for other ops."""
    if op.name != "arith.mulf":
        return None
    left, right = op.operands
    pairs = ((value, _constant(other)) for value, other in ((left, right), (right, left)))
    return next(((value, number) for value, number in pairs if number is not None), None)


def _constant(value: ir.Value) -> float | None:
    """The number that a constant has, in all elements of a vector; None for other values."""
    op = defining_op(value)
    if not isinstance(op, arith.ConstantOp):
        return None
    attribute = op.value
    if isinstance(attribute, ir.DenseElementsAttr):
        attribute = attribute.get_splat_value() if attribute.is_splat else None
    return attribute.value if isinstance(attribute, ir.FloatAttr) else None


def _is_power_of_two(number: float) -> bool:
    """Whether it is ± a power of two."""
    return abs(frexp(number)[0]) == 0.5


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
