"""Sums of one K step that are added to the sums of earlier steps, on fragments."""

from mlir import ir
from mlir.dialects import arith, math

from lowtide.dialects import sm, tile
from lowtide.passes.support.ir.arithmetic import add
from lowtide.passes.support.problem.element_types import element_bits


def load_factors(scale: ir.Value, accumulator: sm.FragmentType) -> ir.Value:
    """The factors of the sums, from a window, as a fragment."""
    held = sm.FragmentType.get(accumulator.shape, scale.type.element_type, accumulator.tv)
    with scale.location:
        return sm.LoadGlobalOp(held, scale, f"ld.global.{element_bits(scale.type.element_type) // 8}").result


def add_promoted(partial: ir.Value, total: ir.Value, factors: ir.Value | None) -> ir.Value:
    """The sum of a K step, scaled if there are factors, added to the sum of the earlier steps."""
    inputs = [partial, total] if factors is None else [partial, total, factors]
    added = sm.MapOp([total.type], inputs)
    body = added.body.blocks.append(*[value.type.element_type for value in inputs])
    with ir.InsertionPoint(body):
        product, before_it, *scale = body.arguments
        if not scale:
            result = add(product, before_it)
        else:
            (factor,) = scale
            if factor.type != product.type:
                factor = arith.extf(product.type, factor)
            result = math.fma(product, factor, before_it)
        tile.YieldOp([result])
    return added.result
