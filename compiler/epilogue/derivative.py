"""Derivatives of epilogues, as epilogues: reverse-mode differentiation of the trace.

For D = f(acc, operands…), `pullback` returns the text of grad · ∂f/∂x: an epilogue of the same sums, with the gradient
of D as one more operand. So if the derivative depends on the sums, a kernel recomputes them, and none are stored.

Conventions are those of torch: the derivative of abs is 0 at 0; a maximum or minimum of two equal values gives each of
them half of the gradient; a maximum or minimum with a constant, such as relu, gives none if both are equal. The
derivative of a cast is 1. Integers have no derivative: neither values computed in s32, nor integer operands, nor an
integer D.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from lowtide.compiler.epilogue.functions import exp, sigmoid, where
from lowtide.compiler.epilogue.graph import EpilogueGraph, trace
from lowtide.compiler.epilogue.operands import Operand, OperandKind, OperandType
from lowtide.compiler.epilogue.text import graph_text
from lowtide.compiler.epilogue.trace import Node, Predicate, Traced
from lowtide.elements import element_type
from lowtide.errors import SpecError

_GRADIENT = "grad"


def pullback(graph: EpilogueGraph, name: str | None, d: str) -> str | None:
    """The text of grad · ∂D/∂x, rounded to type `d`. x is the operand `name`, or the sums if `name` is None.

    Its operands are the epilogue's operands that it reads, in their order, followed by the gradient, which has D's
    type. None if D does not depend on x, or only by comparisons. Raises SpecError if D or x is an integer.
    """
    if not element_type(graph.d).is_float:
        raise SpecError(
            f"a D of {graph.d} has no derivative; detach tensors that require gradients, or use a D of floats"
            " [derivative-of-d]"
        )
    target = next((node for node in graph.nodes if _is(node, name, graph)), None)
    if target is None:
        return None
    if target.is_integer:
        raise SpecError(
            f"{name or 'sums of integers'}: integers have no derivative; detach tensors that require gradients"
            " [derivative-of-integers]"
        )
    whole = _Pullback(graph, target, graph.operands)
    traced = trace(whole, graph.acc, d)
    if not whole.depends:
        return None
    read = {node.attribute for node in traced.nodes if node.op == "operand"}
    operands = tuple(operand for index, operand in enumerate(graph.operands) if index in read)
    return graph_text(trace(_Pullback(graph, target, operands), graph.acc, d))


def _is(node: Node, name: str | None, graph: EpilogueGraph) -> bool:
    if name is None:
        return node.op == "acc"
    return node.op == "operand" and graph.operands[node.attribute].name == name  # type: ignore[index]


class _Pullback:
    """grad · ∂D/∂x as a function to trace, with the sums, `operands` (all that it needs) and grad as arguments."""

    def __init__(self, graph: EpilogueGraph, target: Node, operands: tuple[Operand, ...]) -> None:
        self.depends = False
        self._graph, self._target = graph, target
        self._names = [operand.name for operand in operands]
        taken = {operand.name for operand in graph.operands}
        gradient = _GRADIENT
        while gradient in taken:
            gradient += "_"
        types = [(x.name, OperandType(x.kind, None if x.kind is OperandKind.SCALAR else x.dtype)) for x in operands]
        types.append((gradient, OperandType(OperandKind.FULL, graph.d)))
        parameters = [inspect.Parameter(n, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=t) for n, t in types]
        first = "sums"
        while first in taken:
            first += "_"
        self.__signature__ = inspect.Signature(
            [inspect.Parameter(first, inspect.Parameter.POSITIONAL_ONLY), *parameters]
        )

    def __call__(self, acc: Traced, *given: Traced) -> Any:
        *operands, gradient = given
        values = self._values(acc, dict(zip(self._names, operands, strict=True)))
        parts: dict[int, Any] = {id(self._graph.result): gradient}
        for node in reversed(self._graph.nodes):
            if id(node) not in parts:
                continue
            for other, part in _parts(node, parts[id(node)], values):
                if part is None or other.op == "const" or other.is_integer:
                    continue
                parts[id(other)] = parts[id(other)] + part if id(other) in parts else part
        self.depends = id(self._target) in parts
        return parts.get(id(self._target), 0.0)

    def _values(self, acc: Traced, operands: Mapping[str, Traced]) -> dict[int, Traced | Predicate]:
        """The value of each node of the epilogue. Omitted operands are not needed, and have the value 0."""
        tracer, values = acc._tracer, dict[int, Traced | Predicate]()
        for node in self._graph.nodes:
            if node.op == "acc":
                values[id(node)] = acc
            elif node.op == "operand":
                name = self._graph.operands[node.attribute].name  # type: ignore[index]
                zero = Traced(tracer, tracer.integer(0) if node.is_integer else tracer.lift(0.0))
                values[id(node)] = operands.get(name, zero)
            elif node.op == "const":
                lift = tracer.integer if node.is_integer else tracer.lift
                values[id(node)] = Traced(tracer, lift(node.attribute))
            else:
                attribute = None if node.attribute is None else str(node.attribute)
                values[id(node)] = tracer.repeated(node.op, [values[id(x)] for x in node.inputs], attribute)
        return values


def _parts(node: Node, g: Any, values: Mapping[int, Any]) -> Iterator[tuple[Node, Any]]:
    """The nodes that receive a part of the gradient `g` of `node`, each with its part."""
    inputs, r = [values[id(other)] for other in node.inputs], values[id(node)]
    if (argument := _sigmoid_of(node, values)) is not None:
        yield argument, g * (r * (1.0 - r))
    elif node.op in ("max", "min"):
        yield from zip(node.inputs, _chosen(node, g, *inputs), strict=True)
    elif node.op in _RULES:
        yield from zip(node.inputs, _RULES[node.op](g, r, *inputs), strict=True)


def _sigmoid_of(node: Node, values: Mapping[int, Any]) -> Node | None:
    """x if the node is sigmoid(x), whose derivative is computed from its value."""
    if node.op != "div_approx":
        return None
    for power in node.inputs[1].inputs:  # 1 + e⁻ˣ
        if power.op == "exp" and power.inputs[0].op == "neg":
            argument = power.inputs[0].inputs[0]
            return argument if sigmoid(values[id(argument)])._node is values[id(node)]._node else None
    return None


def _chosen(node: Node, g: Any, x: Any, y: Any) -> tuple[Any, Any]:
    x_wins, y_wins = (x > y, y > x) if node.op == "max" else (x < y, y < x)
    tie = 0.0 if any(other.op == "const" for other in node.inputs) else where(x == y, 0.5 * g, 0.0)
    return where(x_wins, g, tie), where(y_wins, g, tie)


#: By op: the gradient of each input, from the gradient g, the result r and the inputs.
_RULES: Mapping[str, Callable[..., tuple[Any, ...]]] = {
    "neg": lambda g, r, x: (-g,),
    "abs": lambda g, r, x: (where(x > 0.0, g, where(x < 0.0, -g, 0.0)),),
    "exp": lambda g, r, x: (g * r,),
    "log": lambda g, r, x: (g / x,),
    "tanh": lambda g, r, x: (g * (1.0 - r * r),),
    "erf": lambda g, r, x: (g * (2.0 / math.sqrt(math.pi) * exp(-(x * x))),),
    "erfc": lambda g, r, x: (g * (-2.0 / math.sqrt(math.pi) * exp(-(x * x))),),
    "sqrt": lambda g, r, x: (0.5 * g / r,),
    "rsqrt": lambda g, r, x: (-0.5 * g * (r * r * r),),
    "add": lambda g, r, x, y: (g, g),
    "sub": lambda g, r, x, y: (g, -g),
    "mul": lambda g, r, x, y: (g * y, g * x),
    "div": lambda g, r, x, y: (g / y, -(g * r / y)),
    "div_approx": lambda g, r, x, y: (g / y, -(g * r / y)),
    "cast": lambda g, r, x: (g,),
    "where": lambda g, r, c, x, y: (None, where(c, g, 0.0), where(c, 0.0, g)),
}
