"""Evaluates a traced epilogue: in float64 without rounding D, or, for a trace of constants, in f32 as kernels do."""

from collections.abc import Callable, Sequence

import numpy as np

from lowtide.compiler.epilogue.erf import erf, erfc
from lowtide.compiler.epilogue.graph import EpilogueGraph
from lowtide.compiler.epilogue.trace import Node, in_order
from lowtide.elements import EPILOGUE_TYPE, INTEGER_TYPE, element_type
from lowtide.runtime.dtypes import round_to, wrapped

_OPS: dict[str, Callable[..., np.ndarray]] = {
    "neg": np.negative,
    "abs": np.abs,
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "erf": erf,
    "erfc": erfc,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1.0 / np.sqrt(x),
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "div_approx": np.divide,
    "max": np.maximum,
    "min": np.minimum,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "not": np.logical_not,
    "where": np.where,
}


_WRAPPING = frozenset({"neg", "abs", "add", "sub", "mul"})


def evaluate(graph: EpilogueGraph, acc: np.ndarray, operands: Sequence[np.ndarray]) -> np.ndarray:
    """D in float64, not rounded to its type. Only `lt.cast` rounds; integers wrap around.

    `acc` (M, N), for pairs of columns (2, M, N), and `operands` (in the graph's order) are float64. Operands broadcast
    to (M, N): per row (M, 1), per column (1, N).
    """
    values: dict[int, np.ndarray] = {}
    acc = acc if element_type(graph.acc).is_float else wrapped(acc, graph.acc)
    sums = list(acc) if graph.sums > 1 else [acc]
    with np.errstate(all="ignore"):
        for node in graph.nodes:
            values[id(node)] = _evaluate(node, [values[id(other)] for other in node.inputs], sums, operands)
    return np.array(np.broadcast_to(values[id(graph.result)], acc.shape[-2:]), dtype=np.float64)


def folded(result: Node) -> np.float32:
    """The value of a trace of constants. Every operation is rounded to f32, as in the kernel.

    Functions such as exp are rounded correctly here; the kernel's differ by at most the errors in `math_formulas`.
    """
    values: dict[int, np.ndarray] = {}
    with np.errstate(all="ignore"):
        for node in in_order(result):
            exact = _evaluate(node, [values[id(other)] for other in node.inputs], (), ())
            values[id(node)] = exact if exact.dtype == np.bool_ else round_to(exact, EPILOGUE_TYPE)
    return np.float32(values[id(result)])


def _evaluate(
    node: Node, inputs: list[np.ndarray], sums: Sequence[np.ndarray], operands: Sequence[np.ndarray]
) -> np.ndarray:
    if node.op == "acc":
        return sums[int(node.attribute or 0)]
    if node.op == "operand":
        assert isinstance(node.attribute, int)
        return operands[node.attribute]
    if node.op == "const":
        return np.asarray(node.attribute, dtype=np.float64)
    if node.op == "cast":
        return round_to(inputs[0], str(node.attribute))
    if node.op == "real":
        return inputs[0]
    if node.is_integer and node.op in _WRAPPING:
        return of_integers(node.op, *inputs)
    return _OPS[node.op](*inputs)


def of_integers(op: str, *inputs: np.ndarray) -> np.ndarray:
    """An operation on s32 integers held in float64; it wraps around."""
    exact = _OPS[op](*(np.asarray(x).astype(np.int64) for x in inputs))
    return wrapped(exact.astype(np.int32), INTEGER_TYPE)
