"""fuse-multiply-adds: compute a product and the sum that reads it by one fma.

Before   sm.map … { %p = arith.mulf %x, %y; %s = arith.addf %p, %z; tile.yield %s }
After    sm.map … { %s = math.fma %x, %y, %z; tile.yield %s }
         The product is not rounded, so the error is at most that of the two operations. In a difference, z is negated,
         or x if the product is subtracted. ptxas does not fuse them, since PTX names the rounding of each operation.
         A product with another reader is kept. So is a product with a factor erfc: expand-math merges its constants
         into the formula of erfc.
Needs    sm.map; products and sums of f32.
Refuses  nothing.
Test     test/lit/passes/epilogue/fuse-multiply-adds.mlir; its numbers: case multiply-adds in
         test/interpreter/passes/cases.py
"""

from dataclasses import dataclass
from typing import ClassVar

from mlir import ir
from mlir.dialects import arith, math

from lowtide.dialects import sm
from lowtide.dialects.levels import Level
from lowtide.passes.base import Pass, walk
from lowtide.passes.support.ir.rewriting import defining_op
from lowtide.targets import Target


@dataclass(frozen=True)
class FuseMultiplyAdds(Pass):
    """Fuses in the region of each sm.map."""

    name: ClassVar[str] = "fuse-multiply-adds"
    needs: ClassVar[Level] = Level.EPILOGUE
    gives: ClassVar[Level] = Level.EPILOGUE

    def run(self, module: ir.Module, target: Target) -> bool:
        sums = [op for mapped in walk(module, sm.MapOp) for op in list(mapped.body.blocks[0].operations) if _is_sum(op)]
        return any([_fuse(op) for op in sums])


def _is_sum(op: ir.OpView) -> bool:
    return isinstance(op, arith.AddFOp | arith.SubFOp) and isinstance(op.result.type, ir.F32Type)


def _fuse(op: ir.OpView) -> bool:
    """Replaces the sum or difference by an fma if an operand is a product that can be fused. Returns whether it did."""
    products = [_product(operand) for operand in (op.lhs, op.rhs)]
    at = next((number for number, product in enumerate(products) if product is not None), None)
    if at is None:
        return False
    product, other = products[at], (op.rhs, op.lhs)[at]
    assert product is not None
    with ir.InsertionPoint(op), op.location:
        x, y = product.lhs, product.rhs
        if isinstance(op, arith.SubFOp):
            x, other = (x, arith.negf(other)) if at == 0 else (arith.negf(x), other)
        fused = math.FmaOp(x, y, other).result
    op.result.replace_all_uses_with(fused)
    op.operation.erase()
    product.operation.erase()
    return True


def _product(value: ir.Value) -> arith.MulFOp | None:
    """The product that defines a value, if the value has one use, and no factor is an erfc; otherwise None."""
    op = defining_op(value)
    if not isinstance(op, arith.MulFOp) or len(list(value.uses)) > 1:
        return None
    return None if any(isinstance(defining_op(x), math.ErfcOp) for x in (op.lhs, op.rhs)) else op
