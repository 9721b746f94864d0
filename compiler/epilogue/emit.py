"""Emits a traced epilogue as arith and math ops on f32 or f64, and on i32, for the region of `tile.gemm`."""

from collections.abc import Callable, Sequence

from mlir import ir
from mlir.dialects import arith, math

from lowtide.compiler.epilogue.graph import EpilogueGraph
from lowtide.compiler.epilogue.results import ResultKind
from lowtide.compiler.epilogue.trace import Node
from lowtide.elements import INTEGER_TYPE, element_type
from lowtide.runtime.dtypes import round_to

Build = Callable[..., ir.Value]

_UNARY: dict[str, Build] = {
    "neg": lambda x: arith.NegFOp(x).result,
    "abs": lambda x: math.AbsFOp(x).result,
    "exp": lambda x: math.ExpOp(x).result,
    "log": lambda x: math.LogOp(x).result,
    "tanh": lambda x: math.TanhOp(x).result,
    "erf": lambda x: math.ErfOp(x).result,
    "erfc": lambda x: math.ErfcOp(x).result,
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
_OF_INTEGERS: dict[str, Build] = {
    "neg": lambda x: arith.SubIOp(_constant_like(x, 0), x).result,
    "abs": lambda x: arith.MaxSIOp(x, arith.SubIOp(_constant_like(x, 0), x).result).result,
    "add": lambda x, y: arith.AddIOp(x, y).result,
    "sub": lambda x, y: arith.SubIOp(x, y).result,
    "mul": lambda x, y: arith.MulIOp(x, y).result,
    "max": lambda x, y: arith.MaxSIOp(x, y).result,
    "min": lambda x, y: arith.MinSIOp(x, y).result,
}
_COMPARE_INTEGERS = {
    "lt": arith.CmpIPredicate.slt,
    "le": arith.CmpIPredicate.sle,
    "gt": arith.CmpIPredicate.sgt,
    "ge": arith.CmpIPredicate.sge,
    "eq": arith.CmpIPredicate.eq,
    "ne": arith.CmpIPredicate.ne,
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


def value_type(name: str) -> ir.Type:
    """The MLIR type of one element, as a value."""
    return ir.Type.parse(element_type(name).value_ir)


def emit(graph: EpilogueGraph, arguments: Sequence[ir.Value]) -> list[ir.Value]:
    """Build the graph at the insertion point. Returns the element of each result.

    `arguments`: the accumulators (of type `graph.acc`), then one element of each operand that the region reads, in its
    own type; or vectors of the same shape in place of all of them. Each node is built once.
    """
    shape = list(arguments[0].type.shape) if isinstance(arguments[0].type, ir.VectorType) else None
    values: dict[int, ir.Value] = {}
    for node in graph.nodes:
        inputs = [values[id(other)] for other in node.inputs]
        values[id(node)] = _build(node, inputs, arguments, graph, shape)
    return [
        _round(values[id(node)], result.dtype, shape) if result.kind is ResultKind.FULL else values[id(node)]
        for result, node in graph.results
        if result.kind is not ResultKind.ABSENT
    ]


def _build(
    node: Node, inputs: list[ir.Value], arguments: Sequence[ir.Value], graph: EpilogueGraph, shape: list[int] | None
) -> ir.Value:
    dtype = INTEGER_TYPE if node.is_integer else graph.computes_in
    if node.op == "acc":
        return _extend(arguments[int(node.attribute or 0)], graph.acc, dtype, shape)
    if node.op == "operand":
        assert isinstance(node.attribute, int)
        place = graph.sums + graph.region_operands.index(node.attribute)
        return _extend(arguments[place], graph.operands[node.attribute].dtype, dtype, shape)
    if node.op == "const":
        return _constant(float(round_to(node.attribute, dtype)), dtype, shape)
    if node.op == "real":
        return arith.SIToFPOp(_like(value_type(dtype), shape), inputs[0]).result
    if node.op == "cast":
        through = str(node.attribute)
        return _extend(_round(inputs[0], through, shape), through, dtype, shape)
    if node.op == "where":
        return arith.SelectOp(*inputs).result
    if node.op == "not":
        true = ir.BoolAttr.get(True)
        type = inputs[0].type
        attribute = true if shape is None else ir.DenseElementsAttr.get_splat(type, true)
        return arith.XOrIOp(inputs[0], arith.ConstantOp(type, attribute).result).result
    if node.op in _COMPARE and node.is_integer:
        return arith.CmpIOp(_COMPARE_INTEGERS[node.op], *inputs).result
    if node.op in _COMPARE:
        return arith.CmpFOp(_COMPARE[node.op], *inputs).result
    return (_OF_INTEGERS if node.is_integer else _UNARY | _BINARY)[node.op](*inputs)


def _like(element: ir.Type, shape: list[int] | None) -> ir.Type:
    return element if shape is None else ir.VectorType.get(shape, element)


def _constant(value: float, dtype: str, shape: list[int] | None) -> ir.Value:
    return _constant_of(_like(value_type(dtype), shape), value)


def _constant_like(value: ir.Value, number: float) -> ir.Value:
    return _constant_of(value.type, number)


def _constant_of(type: ir.Type, value: float) -> ir.Value:
    element = _element(type)
    attribute: ir.Attribute = (
        ir.FloatAttr.get(element, value) if _is_float(element) else ir.IntegerAttr.get(element, int(value))
    )
    if isinstance(type, ir.VectorType):
        attribute = ir.DenseElementsAttr.get_splat(type, attribute)
    return arith.ConstantOp(type, attribute).result


def _element(type: ir.Type) -> ir.Type:
    return type.element_type if isinstance(type, ir.VectorType) else type


def _is_float(type: ir.Type) -> bool:
    return isinstance(type, ir.FloatType)


def _extend(value: ir.Value, name: str, to: str, shape: list[int] | None) -> ir.Value:
    """Convert an element of type `name` to the type that the epilogue computes in."""
    type = _like(value_type(to), shape)
    if value.type == type:
        return value
    extend = {"float": arith.ExtFOp, "signed": arith.ExtSIOp, "unsigned": arith.ExtUIOp}[element_type(name).kind]
    return extend(type, value).result


def _round(value: ir.Value, name: str, shape: list[int] | None) -> ir.Value:
    """Convert from the type that the epilogue computes in. Integers: to nearest, ties to even, saturated, NaN to 0."""
    row, type = element_type(name), _like(value_type(name), shape)
    if value.type == type:
        return value
    if row.is_float:
        return arith.TruncFOp(type, value).result
    low, high = (_constant_like(value, bound) for bound in (row.lowest, row.largest))
    if _is_float(_element(value.type)):
        rounded = math.RoundEvenOp(value).result
        value = arith.MinimumFOp(arith.MaximumFOp(rounded, low).result, high).result
        return arith.TruncIOp(type, arith.FPToSIOp(_like(value_type(INTEGER_TYPE), shape), value).result).result
    return arith.TruncIOp(type, arith.MinSIOp(arith.MaxSIOp(value, low).result, high).result).result
