"""The epilogue of a fusion: its nodes, replayed on traced values.

It is traced like a user's epilogue, so unsupported operations are refused there, with a reason.
"""

import inspect
from collections.abc import Callable
from typing import Any

from lowtide.compiler.epilogue.operands import OperandType
from lowtide.compiler.epilogue.text import epilogue_text
from lowtide.compiler.fx.arguments import constant, is_constant, is_node
from lowtide.compiler.fx.fusion import Fusion
from lowtide.compiler.fx.pointwise import OPS

_OF_TENSORS = frozenset({"dtype", "layout", "device", "memory_format", "pin_memory", "non_blocking"})  # not numbers


def text_of(fusion: Fusion, sums: str = "f32") -> str:
    """The epilogue as text, "" if D is the product. Raises SpecError if the tracer refuses it."""
    is_plain = len(fusion.nodes) == 1 and not fusion.leaves and fusion.product.alpha == 1
    return "" if is_plain else epilogue_text(epilogue_of(fusion), sums, fusion.d)


def epilogue_of(fusion: Fusion) -> Callable[..., Any]:
    """A function of the accumulator and the leaves, each with its kind and element type."""

    def epilogue(acc: Any, *operands: Any) -> Any:
        values = {leaf.node: operand for leaf, operand in zip(fusion.leaves, operands, strict=True)}
        for node in fusion.nodes:
            is_product = node is fusion.product.node
            values[node] = _start(fusion, acc, values) if is_product else _computed(node, values)
        return values[fusion.region.exit]

    parameters = [inspect.Parameter("acc", inspect.Parameter.POSITIONAL_ONLY)]
    for leaf in fusion.leaves:
        kind = OperandType(leaf.kind, leaf.dtype)
        parameters.append(inspect.Parameter(leaf.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=kind))
    epilogue.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return epilogue


def _start(fusion: Fusion, acc: Any, values: dict[Any, Any]) -> Any:
    """The product's element, including the tensor that addmm adds."""
    product = fusion.product
    value = acc if product.alpha == 1 else product.alpha * acc
    if product.added is None or product.beta == 0:
        return value
    added = values[product.added]
    return value + (added if product.beta == 1 else product.beta * added)


def _computed(node: Any, values: dict[Any, Any]) -> Any:
    def value(argument: Any) -> Any:
        if is_constant(argument):
            return constant(argument)
        return values[argument] if is_node(argument) else argument

    keywords = {name: value(argument) for name, argument in node.kwargs.items() if name not in _OF_TENSORS}
    return OPS[str(node.target)](*map(value, node.args), **keywords)
