"""Arithmetic on values of element types, float or integer, and on vectors of them."""

from mlir import ir
from mlir.dialects import arith


def number_attribute(type_: ir.Type, number: float) -> ir.Attribute:
    """A number as an attribute of a float or integer type."""
    if isinstance(type_, ir.IntegerType):
        return ir.IntegerAttr.get(type_, int(number))
    return ir.FloatAttr.get(type_, number)


def number(type_: ir.Type, value: float) -> ir.Value:
    """A constant of a float or integer type."""
    return arith.constant(type_, number_attribute(type_, value))


def add(x: ir.Value, y: ir.Value) -> ir.Value:
    """x + y of floats, of integers or of vectors of them."""
    element = x.type.element_type if isinstance(x.type, ir.VectorType) else x.type
    return arith.addi(x, y) if isinstance(element, ir.IntegerType) else arith.addf(x, y)
