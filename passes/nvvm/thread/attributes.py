"""Attributes of nvvm ops, cached for reuse."""

from enum import IntEnum

from mlir import ir


def enum_attribute(value: IntEnum) -> ir.Attribute:
    """The attribute that the builders of nvvm ops make from an enum, e.g. `nvvm.MMALayout.row`."""
    return ir.AttrBuilder.get(f"{type(value).__name__}Attr")(value, context=ir.Context.current)


def mma_shape(m: int, n: int, k: int) -> ir.Attribute:
    """The shape of an mma. The bindings have no class for it."""
    return ir.Attribute.parse(f"#nvvm.shape<m = {m}, n = {n}, k = {k}>")
