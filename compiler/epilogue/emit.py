"""Builds the IR of a traced epilogue: arith and math ops on f32, or f64, for the region of `tile.gemm`."""

from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import arith, math

from lowtide.compiler.epilogue.operands import EpilogueGraph
from lowtide.compiler.epilogue.trace import Node
from lowtide.elements import element_type
from lowtide.runtime.dtypes import round_to

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
        values[id(node)] = _build(node, inputs, arguments, graph.computes_in, shape)
    return _round(values[id(graph.result)], graph.d, shape)


def _build(
    node: Node, inputs: list[ir.Value], arguments: Sequence[ir.Value], dtype: str, shape: list[int] | None
) -> ir.Value:
    if node.op == "acc":
        return _extend(arguments[0], dtype, shape)
    if node.op == "operand":
        assert isinstance(node.attribute, int)
        return _extend(arguments[1 + node.attribute], dtype, shape)
    if node.op == "const":
        return _constant(float(round_to(node.attribute, dtype)), dtype, shape)
    if node.op == "cast":
        return _extend(_round(inputs[0], str(node.attribute), shape), dtype, shape)
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


def _constant(value: float, dtype: str, shape: list[int] | None) -> ir.Value:
    type = _like(ir_type(dtype), shape)
    attribute: ir.Attribute = ir.FloatAttr.get(ir_type(dtype), value)
    if shape is not None:
        attribute = ir.DenseElementsAttr.get_splat(type, attribute)
    return arith.ConstantOp(type, attribute).result


def _extend(value: ir.Value, name: str, shape: list[int] | None) -> ir.Value:
    """To the type that the epilogue computes in."""
    type = _like(ir_type(name), shape)
    return value if value.type == type else arith.ExtFOp(type, value).result


def _round(value: ir.Value, name: str, shape: list[int] | None) -> ir.Value:
    """From the type that the epilogue computes in."""
    type = _like(ir_type(name), shape)
    return value if value.type == type else arith.TruncFOp(type, value).result
