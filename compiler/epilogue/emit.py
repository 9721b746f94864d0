"""Builds the IR of a traced epilogue: arith and math ops on f32, for the region of `tile.gemm`."""

from collections.abc import Callable, Sequence

import numpy as np
from mlir import ir
from mlir.dialects import arith, math

from lowtide.compiler.epilogue.operands import EpilogueGraph
from lowtide.compiler.epilogue.trace import Node
from lowtide.elements import EPILOGUE_TYPE, element_type

Build = Callable[..., ir.Value]

_UNARY: dict[str, Build] = {
    "neg": lambda x: arith.NegFOp(x).result,
    "abs": lambda x: math.AbsFOp(x).result,
    "exp": lambda x: math.ExpOp(x).result,
    "log": lambda x: math.LogOp(x).result,
    "tanh": lambda x: math.TanhOp(x).result,
    "erf": lambda x: math.ErfOp(x).result,
    "sqrt": lambda x: math.SqrtOp(x).result,
    "rsqrt": lambda x: math.RsqrtOp(x).result,
}
_BINARY: dict[str, Build] = {
    "add": lambda x, y: arith.AddFOp(x, y).result,
    "sub": lambda x, y: arith.SubFOp(x, y).result,
    "mul": lambda x, y: arith.MulFOp(x, y).result,
    "div": lambda x, y: arith.DivFOp(x, y).result,
    "div_approx": lambda x, y: arith.DivFOp(x, y, fastmath=arith.FastMathFlags.afn).result,
    "max": lambda x, y: arith.MaximumFOp(x, y).result,
    "min": lambda x, y: arith.MinimumFOp(x, y).result,
    "and": lambda x, y: arith.AndIOp(x, y).result,
    "or": lambda x, y: arith.OrIOp(x, y).result,
}
_COMPARE = {
    "lt": arith.CmpFPredicate.OLT,
    "le": arith.CmpFPredicate.OLE,
    "gt": arith.CmpFPredicate.OGT,
    "ge": arith.CmpFPredicate.OGE,
    "eq": arith.CmpFPredicate.OEQ,
    "ne": arith.CmpFPredicate.UNE,
}


def ir_type(name: str) -> ir.Type:
    """The MLIR type of an element type."""
    return ir.Type.parse(element_type(name).ir)


def emit(graph: EpilogueGraph, arguments: Sequence[ir.Value]) -> ir.Value:
    """Build the graph at the current insertion point and return D's element.

    `arguments`: the accumulator (of type `graph.acc`), then one element of each operand in its own type; or vectors of
    one shape in place of all of them. Each node is built once.
    """
    shape = list(arguments[0].type.shape) if isinstance(arguments[0].type, ir.VectorType) else None
    values: dict[int, ir.Value] = {}
    for node in graph.nodes:
        inputs = [values[id(other)] for other in node.inputs]
        values[id(node)] = _build(node, inputs, arguments, shape)
    return _convert(values[id(graph.result)], graph.d, shape)


def _build(node: Node, inputs: list[ir.Value], arguments: Sequence[ir.Value], shape: list[int] | None) -> ir.Value:
    if node.op == "acc":
        return _convert(arguments[0], EPILOGUE_TYPE, shape)
    if node.op == "operand":
        assert isinstance(node.attribute, int)
        return _convert(arguments[1 + node.attribute], EPILOGUE_TYPE, shape)
    if node.op == "const":
        return _constant(float(np.float32(node.attribute)), shape)
    if node.op == "cast":
        return _convert(_convert(inputs[0], str(node.attribute), shape), EPILOGUE_TYPE, shape)
    if node.op == "where":
        return arith.SelectOp(*inputs).result
    if node.op == "not":
        true = ir.BoolAttr.get(True)
        type = inputs[0].type
        attribute = true if shape is None else ir.DenseElementsAttr.get_splat(type, true)
        return arith.XOrIOp(inputs[0], arith.ConstantOp(type, attribute).result).result
    if node.op in _COMPARE:
        return arith.CmpFOp(_COMPARE[node.op], *inputs).result
    return (_UNARY | _BINARY)[node.op](*inputs)


def _like(element: ir.Type, shape: list[int] | None) -> ir.Type:
    return element if shape is None else ir.VectorType.get(shape, element)


def _constant(value: float, shape: list[int] | None) -> ir.Value:
    type = _like(ir.F32Type.get(), shape)
    attribute: ir.Attribute = ir.FloatAttr.get(ir.F32Type.get(), value)
    if shape is not None:
        attribute = ir.DenseElementsAttr.get_splat(type, attribute)
    return arith.ConstantOp(type, attribute).result


def _convert(value: ir.Value, name: str, shape: list[int] | None) -> ir.Value:
    """Extend to f32, or round from f32."""
    type = _like(ir_type(name), shape)
    if value.type == type:
        return value
    return (arith.ExtFOp if name == EPILOGUE_TYPE else arith.TruncFOp)(type, value).result
