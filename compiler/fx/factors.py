"""Merges constant factors of products, and takes common factors out of sums: fewer operations for the same value.

A graph that torch has differentiated multiplies by one constant after another. Here these become one constant. It is
computed in f64, so the result has at most as many roundings as before. A sum c · P + d · P · Q becomes P · (c + d · Q).
"""

import math
from collections.abc import Iterator
from typing import Any

from lowtide.compiler.epilogue.trace import Node, Traced

_LEAST, _MOST = 2.0**-100, 2.0**100  # magnitudes of merged constants. Beyond them f32 might not hold the result


def product(x: Any, y: Any) -> Any:
    """x · y. Several constants among their factors become one, or none if their product is 1."""
    constants = [*_constants(x), *_constants(y)]
    constant = math.prod(constants)
    if len(constants) < 2 or not _LEAST <= abs(constant) <= _MOST:
        return x * y
    return _times(constant, _times(_others(x), _others(y)))


def total(x: Any, y: Any) -> Any:
    """x + y, or P · (c + d · Q) if one of them is c · P and the other one d · P · Q."""
    for one, other in ((x, y), (y, x)):
        taken = _taken_out(one, other)
        if taken is not None:
            return taken
    return x + y


def _taken_out(one: Any, other: Any) -> Any:
    """P · (c + d · Q) if `one` is c · P and `other` is d · P · Q; otherwise None. Without c, nothing is gained."""
    constants, factors, left = [*_constants(one)], [*_factors(one)], [*_factors(other)]
    if len(constants) != 1 or not factors or len(left) <= len(factors):
        return None
    for factor in factors:
        if factor not in left:
            return None
        left.remove(factor)
    tracer = one._tracer
    rest = Traced(tracer, left[0])
    for factor in left[1:]:
        rest = rest * Traced(tracer, factor)
    return _others(one) * (constants[0] + _times(math.prod(_constants(other)), rest))


def _times(x: Any, y: Any) -> Any:
    """x · y without factors that are 1."""
    if is_one(x) or is_one(y):
        return y if is_one(x) else x
    return x * y


def is_one(x: Any) -> bool:
    return isinstance(x, int | float) and x == 1


def _leaves(x: Any) -> Iterator[Node | float]:
    """The factors of x, and of its factors: numbers, and nodes that are not products."""
    node = getattr(x, "_node", x)
    if isinstance(node, int | float):
        yield float(node)
    elif node.op == "const":
        yield float(node.attribute)
    elif node.op == "mul" and not node.is_integer:
        for each in node.inputs:
            yield from _leaves(each)
    else:
        yield node


def _constants(x: Any) -> Iterator[float]:
    return (each for each in _leaves(x) if isinstance(each, float))


def _factors(x: Any) -> Iterator[Node]:
    return (each for each in _leaves(x) if isinstance(each, Node))


def _others(x: Any) -> Any:
    """x without its constant factors. The order of its products is kept."""
    if isinstance(x, int | float):
        return 1.0
    node = x._node
    if node.op == "const":
        return 1.0
    if node.op != "mul" or node.is_integer or not [*_constants(x)]:
        return x
    return _times(*(_others(Traced(x._tracer, each)) for each in node.inputs))
